"""`ad2 report compare` for run folders of `ad2 drive run`: one driver on two suites, or two drivers on one suite."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.plugins import RunKind
from lmms_eval_ad2.report import tables
from lmms_eval_ad2.report.text_table import TextTable, escape, printable

if TYPE_CHECKING:
    from closedloop_plugin.scoring.compare import ComparedRun, DrivingComparison, DrivingComparisonRow, Span
    from closedloop_plugin.scoring.published import PublishedThreatTables

# Keys of a run's identity: the driver, and keys that may differ between any two runs.
DRIVER = ("agent", "interpreter", "cameras")
FREE = ("suite", "suite_sha256", "map_sha256", "towns_sha256", "version", "commit")
DRIVEN = ("values",)  # values of free parameters: they belong to the suite


def is_drive_run(folder: Path) -> bool:
    """Whether `ad2 drive run` (or its lmms-eval task) wrote the folder."""
    return (folder / "run.json").is_file() and (folder / "episodes.jsonl").is_file()


def compare(a: Path, b: Path, *, force: bool, as_json: bool, markdown: bool, published: bool) -> str:
    """Return the comparison as text or JSON; raises Ad2Error if the runs are not comparable, except with `force`."""
    from closedloop_plugin.scoring.compare import compare as compared
    from closedloop_plugin.scoring.published import published as papers
    from lmms_eval_ad2.errors import Ad2Error
    from lmms_eval_ad2.storage.identity import read_run

    runs = [read_run(folder) for folder in (a, b)]
    identities = [run["identity"] for run in runs]
    one_suite = identities[0].get("suite_sha256") == identities[1].get("suite_sha256")
    clashes = unlike(identities[0], identities[1], one_suite)
    if clashes and not force:
        scope = "" if one_suite else " (only the suite may differ)"
        raise Ad2Error(
            f"not comparable: {'; '.join(clashes)}. Use the same settings for both runs{scope}; "
            "to compare them all the same: --force"
        )
    names = _names(identities, one_suite)
    sides = [_side(folder, run, name) for folder, run, name in zip((a, b), runs, names, strict=True)]
    found = compared(sides[0], sides[1])
    about = [_about(folder, run, side) for folder, run, side in zip((a, b), runs, sides, strict=True)]
    attention = clashes + _versions(identities)
    paper = papers() if published and not one_suite else None
    if as_json:
        return _json(about, asdict(found), attention, asdict(paper) if paper else None)
    return render(found, about, attention, paper, markdown=markdown)


def unlike(a: Mapping[str, Any], b: Mapping[str, Any], one_suite: bool) -> list[str]:
    """Differences that prevent a comparison, each as "name is A in the first and B in the second".

    With two suites the driver must be the same; with one suite the drivers are compared.
    """
    from lmms_eval_ad2.storage.identity import differences

    free = (*FREE, *(DRIVER if one_suite else DRIVEN))
    kept = [{key: value for key, value in identity.items() if key not in free} for identity in (a, b)]
    found = differences(kept[0], kept[1])
    towns = [identity.get("towns_sha256") or {} for identity in (a, b)]
    shared = towns[0].keys() & towns[1].keys()
    if any(towns[0][town] != towns[1][town] for town in shared):
        found.append("towns_sha256: the same towns have other maps there and here")
    elif bool(towns[0]) != bool(towns[1]):
        found.append(f"maps are {_maps(towns[0])} there and {_maps(towns[1])} here")
    return [text.replace(" there and ", " in the first and ").replace(" here", " in the second") for text in found]


def _maps(towns: Mapping[str, str]) -> str:
    return "real towns" if towns else "corridors"


def _versions(identities: list[dict[str, Any]]) -> list[str]:
    from lmms_eval_ad2.storage.code_state import code_label

    one, two = (code_label(str(identity.get("version")), str(identity.get("commit") or "")) for identity in identities)
    return [f"driven with lmms-eval-ad2 {one} and {two}"] if one != two else []


def _names(identities: list[dict[str, Any]], one_suite: bool) -> tuple[str, str]:
    """Headers of the columns: the names of the suites, or A and B for one suite."""
    one, two = (str(identity.get("suite", "")) for identity in identities)
    if one_suite:
        return "A", "B"
    return (one, two) if one != two else (f"A: {one}", f"B: {two}")


def _side(folder: Path, run: Mapping[str, Any], name: str) -> ComparedRun:
    """The run with all routes that any of its starts requested."""
    from closedloop_plugin.runner.episode import PROGRAM
    from closedloop_plugin.runner.store import read_records
    from closedloop_plugin.scoring.compare import ComparedRun
    from lmms_eval_ad2.errors import Ad2Error

    records = read_records(folder)
    if not records:
        raise Ad2Error(f"{folder}: it contains no episode yet; the same `ad2 drive run` command resumes it")
    if records[0].scenario == PROGRAM:
        raise Ad2Error(f"{folder}: a single program, which has no benchmark scores; drive it as a --suite")
    selection = run["selection"]
    wanted = {*selection.get("asked", selection["routes"]), *(r.route_id for r in records)}
    routes = [route for route in selection["routes"] if route in wanted]
    return ComparedRun(name, routes, records)


def _about(folder: Path, run: Mapping[str, Any], side: ComparedRun) -> dict[str, Any]:
    identity = run["identity"]
    record = side.records[0]
    return {
        "name": side.name,
        "folder": str(folder),
        "suite": identity.get("suite"),
        "suite_sha256": identity.get("suite_sha256"),
        "agent": identity.get("agent"),
        "interpreter": identity.get("interpreter"),
        "profile": identity.get("profile"),
        "seed": identity.get("seed"),
        "backend": record.world.get("backend"),
        "routes": len(side.routes),
        "episodes": len({(r.route_id, r.repetition) for r in side.records}),
    }


def _json(about: list[dict[str, Any]], found: dict[str, Any], attention: list[str], paper: Any) -> str:
    """The paper's figures are under their own key, with their world."""
    from lmms_eval_ad2.metrics.intervals import METHOD

    about_us = {"a": about[0], "b": about[1], "interval_method": METHOD}
    whole = {**about_us, **found, "attention": attention, "published": paper}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


RUN_KIND = RunKind("a run folder of `ad2 drive run` (run.json and episodes.jsonl)", is_drive_run, compare)


HEAD = 18  # width of a suite's name in its column's header, characters
FEW = 12  # maximum number of routes named in one line
TITLES = {
    "success_rate": "Success Rate",
    "driving_score": "Driving Score",
    "efficiency": "Efficiency",
    "comfortness": "Comfortness",
    "skill_score": "Skill Score",
}
METHOD_TEXT = (
    "Figures are means over the routes that both runs drove (n), repetitions averaged by route; in brackets 95 % "
    "intervals over these routes, as ad2 report has them (leave one out, Student's t; the same routes for both columns "
    "and the drop). p: exact McNemar test where every route is right or wrong, else a sign-flip test over routes; p "
    "(Holm) is corrected over the first five rows, and over the others. A drop above 0 is worse driving, but for rows "
    "marked with v, where less is better."
)


def render(
    found: DrivingComparison,
    about: Sequence[Mapping[str, Any]],
    attention: Sequence[str],
    paper: PublishedThreatTables | None,
    *,
    markdown: bool = False,
) -> str:
    """Heading, our table, routes left out, notes; then the paper's three tables and their contradictions."""
    blocks = [_heading(about, markdown), _ours(found, about, markdown), _spread(found, about)]
    lines = [f"- Attention: {text}" for text in attention] + _left_out(found)
    lines += [f"- {row.title}: no figure, {row.reason}" for row in found.rows if row.reason]
    lines += [f"- {note}" for note in found.notes] + ["- " + METHOD_TEXT]
    blocks.append("\n".join(_filled(line, markdown) for line in lines))
    if paper:
        blocks += _published(paper, about, markdown)
    return printable("\n\n".join(block for block in blocks if block)) + "\n"


def _filled(text: str, markdown: bool) -> str:
    return escape(text) if markdown else textwrap.fill(text, tables.WIDTH, subsequent_indent="  ")


def _heading(about: Sequence[Mapping[str, Any]], markdown: bool) -> str:
    lines = []
    for letter, side in zip("AB", about, strict=True):
        fast = (side["agent"] or {}).get("name", "agent without a name")
        slow = side["interpreter"] or {}
        driver = " + ".join([str(fast), *([f"{slow.get('name')} {slow.get('mode', '')}".strip()] if slow else [])])
        world = side["backend"] or "unnamed"
        lines.append(
            f"{letter}: suite {side['suite']}, {driver}, {world} world, profile {side['profile']}, "
            f"seed {side['seed']}, {side['episodes']} episodes ({side['folder']})"
        )
    if any(side["backend"] != "carla" for side in about):
        lines.append("NOT comparable with figures driven in CARLA")
    return "\n".join(_filled(f"- {line}", markdown) for line in lines)


def _ours(found: DrivingComparison, about: Sequence[Mapping[str, Any]], markdown: bool) -> str:
    drop = "drop" if about[0]["name"] != "A" else "A - B"
    names = [textwrap.fill(str(side["name"]), HEAD) for side in about]
    headers = ["score", "n", *names, drop, f"{drop} in %", "p", "p (Holm)"]
    body = [_cells(row) for row in found.rows if not row.reason]
    return TextTable(headers, body).render(markdown=markdown)


def _cells(row: DrivingComparisonRow) -> list[str]:
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


def _spread(found: DrivingComparison, about: Sequence[Mapping[str, Any]]) -> str:
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


def _left_out(found: DrivingComparison) -> list[str]:
    lines = [f"- {len(found.routes)} route(s) paired"]
    for why, routes in found.left_out.items():
        names = ", ".join(routes[:FEW]) + (f" and {len(routes) - FEW} more" if len(routes) > FEW else "")
        lines.append(f"- left out: {len(routes)} {why}: {names}")
    return lines


def _published(paper: PublishedThreatTables, about: Sequence[Mapping[str, Any]], markdown: bool) -> list[str]:
    """The paper's Tables 1, 2 and the drop, separate from ours: another world, other models."""
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
        table = TextTable(headers, rows).render(markdown=markdown)
        blocks.append(f"### {title}\n\n{table}" if markdown else f"{title}\n{table}")
    lines = [f"- {c.where}: {c.says}. In the tables: {c.computed}" for c in paper.contradictions]
    head = f"The text of {paper.paper} does not agree with its own tables:"
    return [*blocks, "\n".join([head, *([""] if markdown else []), *(_filled(line, markdown) for line in lines)])]
