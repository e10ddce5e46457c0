"""A comparison of two closed-loop runs as text or Markdown; the paper's tables apart, beneath."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.report import tables

if TYPE_CHECKING:
    from closedloop_plugin.scoring.compare import Comparison, Row, Span
    from closedloop_plugin.scoring.published import Published

HEAD = 18  # characters of a suite's name in one line of its column's head
FEW = 12  # names of routes in one line
TITLES = {
    "success_rate": "Success Rate",
    "driving_score": "Driving Score",
    "efficiency": "Efficiency",
    "comfortness": "Comfortness",
    "skill_score": "Skill Score",
}
METHOD = (
    "Figures are means over the routes that both runs drove (n), repetitions averaged by route; in brackets 95 % "
    "intervals over these routes, as ad2 report has them (leave one out, Student's t; the same routes for both columns "
    "and the drop). p: exact McNemar test where every route is right or wrong, else a sign-flip test over routes; p "
    "(Holm) is corrected over the first five rows, and over the others. A drop above 0 is worse driving, but for rows "
    "marked with v, where less is better."
)


def render(
    found: Comparison,
    about: Sequence[Mapping[str, Any]],
    attention: Sequence[str],
    paper: Published | None,
    *,
    markdown: bool = False,
) -> str:
    """Heading, table of ours, what was left out, notes; then the paper's three tables and where they disagree."""
    blocks = [_heading(about, markdown), _ours(found, about, markdown), _spread(found, about)]
    lines = [f"- Attention: {text}" for text in attention] + _left_out(found)
    lines += [f"- {row.title}: no figure, {row.reason}" for row in found.rows if row.reason]
    lines += [f"- {note}" for note in found.notes] + ["- " + METHOD]
    blocks.append("\n".join(_filled(line, markdown) for line in lines))
    if paper:
        blocks += _published(paper, about, markdown)
    return tables.printable("\n\n".join(block for block in blocks if block)) + "\n"


def _filled(text: str, markdown: bool) -> str:
    return tables.escape(text) if markdown else textwrap.fill(text, tables.WIDTH, subsequent_indent="  ")


def _heading(about: Sequence[Mapping[str, Any]], markdown: bool) -> str:
    lines = []
    for letter, side in zip("AB", about, strict=True):
        fast = (side["agent"] or {}).get("name", "agent without a name")
        slow = side["interpreter"] or {}
        who = " + ".join([str(fast), *([f"{slow.get('name')} {slow.get('mode', '')}".strip()] if slow else [])])
        world = side["backend"] or "unnamed"
        lines.append(
            f"{letter}: suite {side['suite']}, {who}, {world} world, profile {side['profile']}, seed {side['seed']}, "
            f"{side['episodes']} episodes ({side['folder']})"
        )
    if any(side["backend"] != "carla" for side in about):
        lines.append("NOT comparable with figures driven in CARLA")
    return "\n".join(_filled(f"- {line}", markdown) for line in lines)


def _ours(found: Comparison, about: Sequence[Mapping[str, Any]], markdown: bool) -> str:
    drop = "drop" if about[0]["name"] != "A" else "A - B"
    names = [textwrap.fill(str(side["name"]), HEAD) for side in about]
    headers = ["score", "n", *names, drop, f"{drop} in %", "p", "p (Holm)"]
    body = [_cells(row) for row in found.rows if not row.reason]
    if markdown:
        headers, body = [tables.escape(h) for h in headers], [[tables.escape(c) for c in line] for line in body]
    return tables.table(headers, body, markdown)


def _cells(row: Row) -> list[str]:
    return [
        row.title + ("" if row.higher_is_better else " v"),
        str(row.n),
        _with_span(row.a, row.ci_a, 2),
        _with_span(row.b, row.ci_b, 2),
        _with_span(row.drop, row.ci_drop, 2, "+"),
        _with_span(row.relative, row.ci_relative, 1, "+"),
        _p(row.p_value),
        _p(row.p_holm),
    ]


def _with_span(value: float | None, span: Span | None, decimals: int, sign: str = "") -> str:
    if value is None:
        return tables.NONE
    text = f"{value:{sign}.{decimals}f}"
    return text + (f"\n[{span[0]:{sign}.{decimals}f}, {span[1]:{sign}.{decimals}f}]" if span else "")


def _p(value: float | None) -> str:
    if value is None:
        return tables.NONE
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _spread(found: Comparison, about: Sequence[Mapping[str, Any]]) -> str:
    """Standard deviation over the repetitions of each run that has several."""
    lines = []
    for side, key, n in zip(about, ("a", "b"), found.repetitions, strict=True):
        known = [
            f"{TITLES[row.name]} {getattr(row, key):.2f} ± {spread:.2f}"
            for row in found.rows
            if row.name in TITLES and (spread := getattr(row, f"spread_{key}")) is not None
        ]
        if known:
            text = f"{side['name']}: over {n} repetitions (± standard deviation): {', '.join(known)}"
            lines.append(textwrap.fill(text, tables.WIDTH, subsequent_indent="  "))
    return "\n".join(lines)


def _left_out(found: Comparison) -> list[str]:
    lines = [f"- {len(found.routes)} route(s) paired"]
    for why, routes in found.left_out.items():
        names = ", ".join(routes[:FEW]) + (f" and {len(routes) - FEW} more" if len(routes) > FEW else "")
        lines.append(f"- left out: {len(routes)} {why}: {names}")
    return lines


def _published(paper: Published, about: Sequence[Mapping[str, Any]], markdown: bool) -> list[str]:
    """Tables 1, 2 and the drop. Never in one table with ours: another world, other models."""
    worlds = " and ".join(dict.fromkeys(str(side["backend"] or "unnamed") for side in about))
    label = f"driven in {paper.world}, means of {paper.repetitions} repetitions; ours above: {worlds} world"
    parts = (
        (f"{paper.paper}, Table 1 (standard routes), {label}", "standard", ""),
        (f"{paper.paper}, Table 2 (threat scenarios), {label}", "threat", ""),
        (f"{paper.paper}, Table 1 less Table 2 (the drop), {label}", "drop", "+"),
    )
    headers = ["Fast system", "Slow system", "Mode", *(TITLES[name] for name in paper.columns)]
    blocks = []
    for title, which, sign in parts:
        rows = [
            [d.fast, d.slow, d.mode.upper(), *(f"{getattr(d, which)[name]:{sign}.2f}" for name in paper.columns)]
            for d in paper.drivers
        ]
        blocks.append((f"### {title}\n\n" if markdown else f"{title}\n") + tables.table(headers, rows, markdown))
    lines = [f"- {c.where}: {c.says}. In the tables: {c.computed}" for c in paper.contradictions]
    head = f"The text of {paper.paper} does not agree with its own tables:"
    return [*blocks, "\n".join([head, *([""] if markdown else []), *(_filled(line, markdown) for line in lines)])]
