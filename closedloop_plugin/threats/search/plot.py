"""SVG of a search: failures found over runs, and the robustness over each parameter. No plotting library needed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from closedloop_plugin.threats.search.trial import SearchTrial
from closedloop_plugin.worlds.base import ParameterDomain
from lmms_eval_ad2.core.printed import visible

WIDE, HIGH, GAP = 260, 170, 46  # px: size of a panel, and space between panels for labels
COLOURS = {"failed": "#c0392b", "passed": "#7f8c8d"}
STYLE = "font-family:sans-serif;font-size:11px;fill:#222"


def svg(title: str, space: dict[str, ParameterDomain], trials: Sequence[SearchTrial]) -> str:
    """The SVG as text. A filled red circle is a failure, a hollow one a failure where the expert fails too."""
    known = [t for t in trials if t.rho is not None]
    panels = [_found(known)] + [_parameter(name, domain, known) for name, domain in space.items()]
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    width, height = columns * (WIDE + GAP) + GAP, rows * (HIGH + GAP) + GAP + 18
    origins = [(GAP + i % columns * (WIDE + GAP), GAP + 10 + i // columns * (HIGH + GAP)) for i in range(len(panels))]
    placed = [f'<g transform="translate({x} {y})">{p}</g>' for (x, y), p in zip(origins, panels, strict=True)]
    legend = "red: failed; hollow: the expert fails there too; grey: passed; below the line: failed"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _word(GAP, 18, title, size=14),
        _word(GAP, 33, legend),
        *placed,
        "</svg>",
    ]) + "\n"  # fmt: skip


def _found(trials: Sequence[SearchTrial]) -> str:
    """Cumulative number of failures over runs."""
    total = sum(t.failed for t in trials)
    last = max((t.number for t in trials), default=0) + 1
    points, count = [f"0,{HIGH}"], 0
    for trial in trials:
        count += trial.failed
        points.append(f"{WIDE * (trial.number + 1) / last:.1f},{HIGH * (1 - count / max(total, 1)):.1f}")
    line = f'<polyline points="{" ".join(points)}" fill="none" stroke="{COLOURS["failed"]}" stroke-width="1.5"/>'
    ends = [_word(0, HIGH + 13, "0 runs"), _word(WIDE, HIGH + 13, f"{last} runs", "end")]
    labels = [_word(0, -5, f"failures found: {total}"), *ends]
    return _frame() + line + "".join(labels)


def _parameter(name: str, domain: ParameterDomain, trials: Sequence[SearchTrial]) -> str:
    dots = []
    for trial in sorted(trials, key=lambda t: t.failed):
        x = WIDE * _share(trial.values[name], domain)
        y = HIGH * (1 - ((trial.rho or 0.0) + 1) / 2)
        colour = COLOURS[trial.verdict]
        fill = "none" if trial.fair is False else colour
        dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{fill}" stroke="{colour}" fill-opacity="0.7"/>')
    low, high = (domain.options[0], domain.options[-1]) if domain.options else (domain.low, domain.high)
    border = f'<line x1="0" x2="{WIDE}" y1="{HIGH / 2}" y2="{HIGH / 2}" stroke="#999" stroke-dasharray="3 3"/>'
    ends = [_word(0, HIGH + 13, _text(low)), _word(WIDE, HIGH + 13, _text(high), "end")]
    scale = [_word(-4, HIGH * (1 - (rho + 1) / 2) + 4, f"{rho:g}", "end") for rho in (1, 0, -1)]
    return _frame() + border + "".join(dots) + _word(0, -5, f"{name}, and the run's robustness") + "".join(ends + scale)


def _share(value: object, domain: ParameterDomain) -> float:
    """Position in the range, 0 to 1."""
    if domain.options:
        return domain.options.index(value) / max(len(domain.options) - 1, 1)
    return (float(value) - domain.low) / ((domain.high - domain.low) or 1.0)  # type: ignore[arg-type]


def _frame() -> str:
    return f'<rect width="{WIDE}" height="{HIGH}" fill="#fafafa" stroke="#ccc"/>'


def _word(x: float, y: float, text: str, anchor: str = "start", size: int = 11) -> str:
    style = STYLE.replace("11px", f"{size}px")
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" style="{style}">{escape(visible(text))}</text>'


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
