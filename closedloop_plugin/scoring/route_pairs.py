"""Fail2Drive's pairs: the gap between each Base route and its Generalization route, by Fail2Drive's own rules.

Its result parser (github.com/autonomousvision/fail2drive, tools/f2d_result_parser.py): a route is a success without
infractions other than minimum speed and driving outside its lanes; HM is the harmonic mean of Driving Score and success
rate; the gap is the change in percent of the Base figure. The Generalization route of Base route 7 is 1007.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from closedloop_plugin.core.routes import Route
from closedloop_plugin.scoring.official_record import OfficialRecord
from lmms_eval_ad2.scoring.metrics.intervals import mean_interval

SUITE = "fail2drive"
_FILE = re.compile(r"(?:Base|Generalization)_.+_\d{4}")
APART = 1000  # between the ids of a pair
FORGIVEN = frozenset({"min_speed_infractions", "outside_route_lanes"})


def pairs_of(routes: Sequence[Route]) -> list[tuple[str, str]]:
    """Ids of the Base and Generalization routes of Fail2Drive, if these are its routes; pairs that are complete."""
    if not all(route.suite == SUITE or _FILE.fullmatch(route.suite) for route in routes):
        return []
    ids = {route.id for route in routes}
    base = [id_ for id_ in ids if id_.isdecimal() and int(id_) < APART and str(int(id_) + APART) in ids]
    return [(id_, str(int(id_) + APART)) for id_ in sorted(base, key=int)]


def pair_gap(records: Sequence[OfficialRecord], routes: Sequence[Route]) -> dict[str, Any] | None:
    """Figures of both halves over the pairs that have records, and their gap; None for other routes.

    Keys: pairs, without_record, not_played (Generalization routes driven without a scenario of theirs), base and
    generalization {driving_score, success_rate, harmonic_mean}, change_percent (of each), and difference
    {driving_score, success_rate}: {mean, interval} in points, 95 % over pairs.
    """
    pairs = pairs_of(routes)
    if not pairs:
        return None
    by_route: dict[str, list[OfficialRecord]] = {}
    for record in records:
        by_route.setdefault(record.route_id, []).append(record)
    driven = [(by_route[a], by_route[b]) for a, b in pairs if a in by_route and b in by_route]
    halves = [_half([pair[i] for pair in driven]) for i in (0, 1)]
    base, other = halves
    return {
        "pairs": len(driven),
        "without_record": len(pairs) - len(driven),
        "not_played": sum(any(r.not_played for r in b) for _, b in driven),
        "base": _figures(base),
        "generalization": _figures(other),
        "change_percent": {
            name: _change(value, _figures(base)[name]) for name, value in _figures(other).items()
        },
        "difference": {name: _difference(base[name], other[name]) for name in base},
    }  # fmt: skip


def _half(routes: Sequence[Sequence[OfficialRecord]]) -> dict[str, list[float]]:
    """Values by route, means over its repetitions."""
    return {
        "driving_score": [statistics.fmean(r.score for r in one) for one in routes],
        "success_rate": [statistics.fmean(100.0 * _succeeds(r) for r in one) for one in routes],
    }


def _succeeds(record: OfficialRecord) -> bool:
    counted = all(not texts for name, texts in record.infractions.items() if name not in FORGIVEN)
    return counted and not record.crashed and "infractions" not in record.gaps


def _figures(half: Mapping[str, Sequence[float]]) -> dict[str, float | None]:
    score, rate = (statistics.fmean(half[name]) if half[name] else None for name in ("driving_score", "success_rate"))
    mean = None if score is None or rate is None else 2 * score * rate / (score + rate) if score and rate else 0.0
    return {"driving_score": score, "success_rate": rate, "harmonic_mean": mean}


def _change(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else 100.0 * value / base - 100.0


def _difference(base: Sequence[float], other: Sequence[float]) -> dict[str, Any]:
    values = [b - a for a, b in zip(base, other, strict=True)]
    interval = mean_interval(values, bounds=(-100.0, 100.0)) if values else None
    return {
        "mean": statistics.fmean(values) if values else None,
        "interval": None if interval is None else [interval.low, interval.high],
    }


def gap_text(gap: Mapping[str, Any]) -> str:
    """The gap in a few lines; "" if no pair was driven."""
    if not gap["pairs"]:
        return ""
    names = (("driving_score", "Driving Score"), ("success_rate", "Success Rate %"), ("harmonic_mean", "harmonic mean"))
    lines = [f"Fail2Drive's gap over {gap['pairs']} pairs (Base -> Generalization, by its own rules)"]
    for name, title in names:
        a, b, change = gap["base"][name], gap["generalization"][name], gap["change_percent"][name]
        lines.append(f"  {title}: {a:.1f} -> {b:.1f}" + ("" if change is None else f" ({change:+.1f} %)"))
    score = gap["difference"]["driving_score"]
    if score["interval"]:
        low, high = score["interval"]
        lines.append(f"  difference of Driving Scores: {score['mean']:+.2f} points, 95 % [{low:.2f}, {high:.2f}]")
    if gap["not_played"]:
        lines.append(
            f"  {gap['not_played']} of the Generalization routes were driven without a scenario of theirs: the gap "
            "does not show its effect"
        )
    if gap["without_record"]:
        lines.append(f"  {gap['without_record']} pairs have no record of a half, and are not in it")
    return "\n".join(lines)
