"""Whether records are of one run, and of the route file by which they are scored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.scoring.comfort_scores import Key
from closedloop_plugin.scoring.official_record import OfficialRecord
from lmms_eval_ad2.core.errors import Ad2Error


def one_origin(records: Sequence[OfficialRecord], profile: Profile) -> dict[str, Any]:
    """Origin of the records; {} for official files, which do not store it. Records of several runs are rejected."""
    origins = {json.dumps(dict(r.origin), sort_keys=True) for r in records}
    if len(origins) > 1:
        raise Ad2Error(f"results of different runs cannot be averaged; found {', '.join(sorted(origins))}")
    origin: dict[str, Any] = json.loads(origins.pop()) if origins else {}
    if origin.get("profile", profile.name) != profile.name:
        raise Ad2Error(
            f"these results were driven under profile {origin['profile']}, not {profile.name}: use that profile"
        )
    return origin


def check_routes(
    kept: Mapping[Key, OfficialRecord], scored: Mapping[Key, OfficialRecord], routes: Mapping[str, Route], n: int
) -> None:
    """Reject a wrong route file: route ids are unique only within one file."""
    if kept and not scored:
        example = next(iter(kept.values()))
        raise Ad2Error(
            f"none of the {len(kept)} records is of a route in the route file within {n} repetition(s); the first is "
            f"route {example.route_id}, repetition {example.repetition}. Is this the route file that was driven?"
        )
    if scored and all(is_foreign(r, routes[key[0]]) for key, r in scored.items()):
        raise Ad2Error("every record names another town or scenario than its route: this is not the route file driven")


def is_foreign(record: OfficialRecord, route: Route) -> bool:
    """Whether a record names another town, or neither the name nor the type of its route's scenario.

    Of a route with several scenarios a record may name anything: leaderboards name the last one, ours none.
    """
    known = {part for one in route.played for part in (one.kind, one.name) if part}
    named = {record.scenario_name, record.scenario}
    other_scenario = len(route.scenarios) <= 1 and known and record.scenario and not known & named
    return bool(other_scenario or (record.town and record.town != route.town))
