"""Driving Score and Success Rate: what one event costs, and the means over a route file.

Every (route, repetition) of the route file is in the denominator; one without a record counts 0 (reference: Driving
Score and Success Rate). Of two records for the same one the later counts, as in a run that was resumed; the official
script would add up both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from closedloop_plugin.core.profiles import InfractionPenalties
from closedloop_plugin.core.record import INFRACTIONS
from closedloop_plugin.scoring.efficiency import percents
from closedloop_plugin.scoring.official_record import OfficialRecord

# A count of these costs nothing by itself: they end the route, or are charged by their percentages.
_UNCOUNTED = {"outside_route_lanes", "min_speed_infractions", "route_dev", "vehicle_blocked", "route_timeout"}
_OUTSIDE = re.compile(r"\(\s*(\d+(?:\.\d*)?)\s*%")


def penalty(
    counts: Mapping[str, int], outside_percent: float, p: InfractionPenalties, speed_percents: Sequence[float] = ()
) -> float:
    """The factor on the route's score, in [0, 1].

    `counts`: events by the names of record.INFRACTIONS. `outside_percent`: share of the route driven outside its
    lanes, in percent; both rules take it off as (1 - percent / 100). `speed_percents`: the minimum speed events; where
    the profile charges them (CARLA Leaderboard), only below 100 and by what is lacking: 1 - (1 - factor)(1 - percent /
    100), or weight x (1 - percent / 100). The last, and lanes under the additive rule, are inferred by analogy.
    """
    unknown = [name for name in counts if name not in INFRACTIONS]
    if unknown:
        raise ValueError(f"no such infraction: {', '.join(unknown)}; known: {', '.join(INFRACTIONS)}")
    if not 0 <= outside_percent <= 100.0 + 1e-9 or min(counts.values(), default=0) < 0:
        raise ValueError(f"not a share in percent and counts of events: {outside_percent}, {dict(counts)}")
    counted = [(getattr(p, name), n) for name, n in counts.items() if name not in _UNCOUNTED]
    lacking = [1.0 - value / 100.0 for value in speed_percents if value < 100.0]
    lanes = max(1.0 - outside_percent / 100.0, 0.0)
    if p.rule == "additive":
        return lanes / (1.0 + sum(w * n for w, n in counted) + sum(p.min_speed_infractions * x for x in lacking))
    slow = math.prod(1.0 - (1.0 - p.min_speed_infractions) * x for x in lacking)
    return math.prod(factor**n for factor, n in counted) * slow * lanes


def composed(score_route: float, penalty: float) -> float:
    """score_composed: route's percentage times penalty, never below 0, six decimals."""
    return round(max(score_route * penalty, 0.0), 6)


def penalty_of(infractions: Mapping[str, Sequence[str]], p: InfractionPenalties) -> float:
    """`penalty` from a record's lists of messages; several messages on lanes cost one after the other."""
    counts = {name: len(texts) for name, texts in infractions.items() if name in INFRACTIONS}
    hits = (_OUTSIDE.search(text) for text in infractions.get("outside_route_lanes", ()))
    inside = math.prod(max(0.0, 1.0 - float(hit.group(1)) / 100.0) for hit in hits if hit)
    speeds = percents(infractions.get("min_speed_infractions", ()))
    return penalty(counts, 100.0 * (1.0 - inside), p, speeds)


def latest(records: Iterable[OfficialRecord]) -> tuple[dict[tuple[str, int], OfficialRecord], int]:
    """(the last record of each (route id, repetition), number of records that gave way to it)."""
    kept: dict[tuple[str, int], OfficialRecord] = {}
    doubled = 0
    for record in records:
        doubled += record.key in kept
        kept[record.key] = record
    return kept, doubled


def driving_score(records: Sequence[OfficialRecord], denominator: int) -> float:
    """Sum of score_composed over `denominator` (routes x repetitions), in [0, 100]; no record, no score: 0."""
    return math.fsum(r.score for r in records) / denominator


def success_rate(records: Sequence[OfficialRecord], denominator: int) -> float:
    """Percent of `denominator` that were driven to the end with no infraction but minimum speed."""
    return 100.0 * sum(r.success for r in records) / denominator
