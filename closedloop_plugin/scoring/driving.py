"""Driving Score, Success Rate and Efficiency: the penalty of infractions, and the means over a route file.

Every (route, repetition) of the route file is in the denominator; one without a record counts 0. Of two records of the
same episode the later counts, as in a resumed run; the official script would sum both.

Efficiency (Bench2Drive, "Driving Efficiency") is the ego's speed relative to the surrounding traffic. After each 5 % of
the route, one message reports p = 100 * mean ego speed / mean speed of the background vehicles. A route's efficiency is
the mean of its p <= 1,000; the overall figure is the mean over the routes that have one. The referee writes the
messages with `percent` and `message`; `route_efficiency` parses them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from closedloop_plugin.core.profiles import InfractionPenalties
from closedloop_plugin.core.record import INFRACTIONS
from closedloop_plugin.scoring.official_record import OfficialRecord
from lmms_eval_ad2.core.errors import Ad2Error

DROP_ABOVE = 1000.0  # percent: next to stationary traffic the ratio is meaningless

_PERCENT = re.compile(r"(?<![\w.,])(\d+(?:\.\d*)?)\s*%")
MOST_REPETITIONS = 1000  # plausible; a record with a higher number is a mistake

# Not penalised by count: these end the route or are penalised by their percentage.
_UNCOUNTED = {"outside_route_lanes", "min_speed_infractions", "route_dev", "vehicle_blocked", "route_timeout"}
_OUTSIDE = re.compile(r"\(\s*(\d+(?:\.\d*)?)\s*%")


def penalty(
    counts: Mapping[str, int], outside_percent: float, p: InfractionPenalties, speed_percents: Sequence[float] = ()
) -> float:
    """Penalty factor on the route completion, in [0, 1].

    `counts`: number of events per name of record.INFRACTIONS. `outside_percent`: share of the route driven outside its
    lanes, in percent. `speed_percents`: percentages of the minimum speed events; only those below 100 cost anything.

        multiplicative   prod f_i^n_i * prod_j (1 - (1 - f_s) x_j) * (1 - outside / 100)
        additive         (1 - outside / 100) / (1 + sum w_i n_i + sum_j w_s x_j)

    with f_i or w_i the profile's coefficient of infraction i, n_i its count, s the minimum speed infraction and
    x_j = 1 - percent_j / 100. The speed and lane terms of the additive rule are our inference by analogy.
    Raises ValueError for unknown names, negative counts or a share outside 0..100.
    """
    unknown = [name for name in counts if name not in INFRACTIONS]
    if unknown:
        raise ValueError(f"unknown infraction: {', '.join(unknown)}; known: {', '.join(INFRACTIONS)}")
    if not 0 <= outside_percent <= 100.0 + 1e-9 or min(counts.values(), default=0) < 0:
        raise ValueError(f"expected a percentage and event counts, found {outside_percent}, {dict(counts)}")
    counted = [(getattr(p, name), n) for name, n in counts.items() if name not in _UNCOUNTED]
    lacking = [1.0 - value / 100.0 for value in speed_percents if value < 100.0]
    lanes = max(1.0 - outside_percent / 100.0, 0.0)
    if p.rule == "additive":
        return lanes / (1.0 + sum(w * n for w, n in counted) + sum(p.min_speed_infractions * x for x in lacking))
    slow = math.prod(1.0 - (1.0 - p.min_speed_infractions) * x for x in lacking)
    return math.prod(factor**n for factor, n in counted) * slow * lanes


def composed(score_route: float, penalty: float) -> float:
    """score_composed in percent: route completion (percent) times penalty, at least 0, six decimals."""
    return round(max(score_route * penalty, 0.0), 6)


def penalty_of(infractions: Mapping[str, Sequence[str]], p: InfractionPenalties) -> float:
    """`penalty` from a record's message lists; several lane messages multiply: prod (1 - percent / 100)."""
    counts = {name: len(texts) for name, texts in infractions.items() if name in INFRACTIONS}
    lanes = lane_percents(infractions.get("outside_route_lanes", ()))
    inside = math.prod(max(0.0, 1.0 - value / 100.0) for value in lanes)
    speeds = percents(infractions.get("min_speed_infractions", ()))
    return penalty(counts, 100.0 * (1.0 - inside), p, speeds)


def lane_percents(messages: Sequence[str]) -> list[float]:
    """Percentage in brackets of each lane message that has one: "... for about 3.0 meters (5.42% of the ...)"."""
    found = (_OUTSIDE.search(text) for text in messages)
    return [float(hit.group(1)) for hit in found if hit]


def repetitions_of(records: Sequence[OfficialRecord], least: int = 1) -> int:
    """Number of repetitions by the numbers in the records, at least `least`. Raises Ad2Error above MOST_REPETITIONS."""
    last = max(records, key=lambda record: record.repetition)
    if last.repetition >= MOST_REPETITIONS:
        raise Ad2Error(
            f"{last.source}: repetition {last.repetition}; the highest that is accepted is {MOST_REPETITIONS - 1}. "
            "ad2 drive score --repetitions N leaves such records out"
        )
    return max(least, 1 + last.repetition)


def latest(records: Iterable[OfficialRecord]) -> tuple[dict[tuple[str, int], OfficialRecord], int]:
    """(last record of each (route id, repetition), number of earlier duplicates dropped)."""
    kept: dict[tuple[str, int], OfficialRecord] = {}
    duplicates = 0
    for record in records:
        duplicates += record.key in kept
        kept[record.key] = record
    return kept, duplicates


def driving_score(records: Sequence[OfficialRecord], denominator: int) -> float:
    """Sum of score_composed / `denominator` (routes x repetitions), in [0, 100]; a missing record counts 0."""
    return math.fsum(r.score for r in records) / denominator


def success_rate(records: Sequence[OfficialRecord], denominator: int) -> float:
    """Successful records in percent of `denominator` (routes x repetitions); see OfficialRecord.success."""
    return 100.0 * sum(r.success for r in records) / denominator


def percent(ego_mean: float, background_mean: float | None) -> float:
    """Ego's mean speed in percent of the background's (both m/s); 100 without traffic or if it was stationary."""
    if not math.isfinite(ego_mean) or ego_mean < 0:
        raise ValueError(f"a mean speed must be finite and not negative, found {ego_mean}")
    if background_mean is None or background_mean == 0:
        return 100.0
    if not math.isfinite(background_mean) or background_mean < 0:
        raise ValueError(f"a mean speed must be finite and not negative, found {background_mean}")
    return ego_mean / background_mean * 100.0


def message(value: float) -> str:
    """The message of one segment in official result files; the percentage has two decimals."""
    return f"Average speed is {round(value, 2)}% of the surrounding traffic's one"


def percents(messages: Sequence[str]) -> list[float]:
    """Percentage of each message that contains one: the first number followed by a percent sign.

    A number with a decimal comma is not read: its last digits alone would be another percentage.
    """
    found = (_PERCENT.search(text) for text in messages)
    return [float(hit.group(1)) for hit in found if hit]


def route_efficiency(messages: Sequence[str]) -> float | None:
    """Mean percentage of one route without values above 1,000; None if none remain or a message has no percentage."""
    values = percents(messages)
    kept = [value for value in values if value <= DROP_ABOVE and len(values) == len(messages)]
    return math.fsum(kept) / len(kept) if kept else None
