"""The records of one run that a summary scores, and their facts: routes, faults, what was not played, provenance."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.scoring.comfort import Key
from closedloop_plugin.scoring.driving import driving_score, latest, success_rate
from closedloop_plugin.scoring.official_record import OfficialRecord
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.report.table import few

MOST_REASONS = 8  # in a note
UNKNOWN = "not recorded"
NONE = "none"


@dataclass(frozen=True)
class ChosenRecords:
    """The records of `routes` and repetitions; how many were left out; routes that are scored separately."""

    routes: Sequence[Route]
    repetitions: int
    records: Mapping[Key, OfficialRecord]
    duplicates: int
    outside: int
    experimental: frozenset[str]
    faulted: Mapping[Key, OfficialRecord]

    @classmethod
    def of(cls, records: Sequence[OfficialRecord], routes: Sequence[Route], repetitions: int) -> ChosenRecords:
        """Raises Ad2Error if these records are not of these routes."""
        by_id = {route.id: route for route in routes}
        kept, duplicates = latest(records)
        scored = {key: r for key, r in kept.items() if key[0] in by_id and key[1] < repetitions}
        _check_routes(kept, scored, by_id, repetitions)
        experimental = frozenset(key[0] for key, r in scored.items() if r.experimental)
        faulted = {key: r for key, r in scored.items() if r.fault}
        return cls(
            routes,
            repetitions,
            scored,
            duplicates=duplicates,
            outside=len(kept) - len(scored),
            experimental=experimental,
            faulted=faulted,
        )

    def routes_of(self, experimental: bool) -> list[Route]:
        return [route for route in self.routes if (route.id in self.experimental) == experimental]


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


def _check_routes(
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


def faulted_facts(driven: Sequence[OfficialRecord], n: int, faulted: Collection[OfficialRecord]) -> dict[str, Any]:
    """Keys n_faulted, faulted and as_zero of a summary: episodes of ours that were not driven by an EpisodeFault.

    They are excluded from every figure, and named. Official files do not name a fault; their crashes count 0, as in
    the official script.

    driven, n: the records behind the headline, and its denominator. as_zero: Driving Score and Success Rate if the
    `faulted` episodes counted 0, as crashes do in the official script; None without any.
    """
    zero = None
    if faulted:
        total = n + len(faulted)
        zero = {"driving_score": driving_score(driven, total), "success_rate": success_rate(driven, total)}
    return {
        "n_faulted": len(faulted),
        "faulted": [
            {"route": r.route_id, "repetition": r.repetition, "fault": r.fault, "reason": r.reason} for r in faulted
        ],
        "as_zero": zero,
    }


def faulted_notes(facts: dict[str, Any]) -> list[str]:
    """Causes and counts in a sentence; [] without any. `facts`: of faulted_facts."""
    if not facts["faulted"]:
        return []
    causes = Counter(one["fault"] for one in facts["faulted"])
    named = ", ".join(f"{cause} {n}" for cause, n in causes.most_common())
    zero = "Driving Score {driving_score:.2f}, Success Rate {success_rate:.2f}".format(**facts["as_zero"])
    return [f"{facts['n_faulted']} episode(s) not driven, by fault of: {named}; in no figure (counted as 0: {zero})"]


def not_played_note(by_route: Mapping[str, Mapping[str, str]]) -> str:
    """Counts by reason. by_route: reasons by route id and scenario; "" if all scenarios were played."""
    routes = [route for route, left in by_route.items() if left]
    if not routes:
        return ""
    reasons = Counter(reason for left in by_route.values() for reason in left.values())
    listed = [f"{reason}: {count}" for reason, count in reasons.most_common(MOST_REASONS)]
    more = [f"{len(reasons) - MOST_REASONS} more reasons"] if len(reasons) > MOST_REASONS else []
    return (
        f"{len(routes)} route(s) driven without a scenario of theirs, {sum(reasons.values())} scenario(s) in all "
        f"({few(routes, 5)}): {'; '.join(listed + more)}"
    )


@dataclass(frozen=True)
class DriveProvenance:
    """All texts; UNKNOWN for what the input does not state, as an official file states none of it."""

    suite: str
    driver: str
    backend: str
    waiting: str
    profile: str
    interpreter: str
    policy: str
    comfort: str
    version: str
    seed: str

    @property
    def official(self) -> bool:
        """An official file: neither world nor driver is in its records."""
        return self.backend == UNKNOWN

    def facts(self) -> dict[str, str]:
        return asdict(self)

    def line(self) -> str:
        """One sentence without the facts that are unknown; these are counted as not recorded."""
        if self.official:
            return (
                f"official result file (driver, world, interpreter, policy, version and seed are {UNKNOWN} in it), "
                f"profile {self.profile}, comfort mode {self.comfort}"
            )
        slow = "" if self.interpreter == NONE else f" + {self.interpreter}"
        return (
            f"suite {self.suite}, {self.driver}{slow}, {self.backend} world, profile {self.profile}, interpreter "
            f"{self.interpreter}, policy {self.policy}, comfort mode {self.comfort}, version {self.version}, seed "
            f"{self.seed}"
        )


def provenance(
    records: Sequence[OfficialRecord], identity: Mapping[str, Any] | None, profile: str, comfort: str
) -> DriveProvenance:
    """Facts of one run's records. `identity`: of its run.json, which alone has the policy and the run's seed."""
    origin = records[0].origin if records else {}
    identity = identity or {}
    changed = f", but {origin['changed']}" if origin.get("changed") else ""
    slow = " ".join(dict.fromkeys(str(origin[key]) for key in ("interpreter", "mode") if origin.get(key)))
    asked = f"{origin['tasks']} through " if origin.get("tasks") else ""
    return DriveProvenance(
        suite=str(origin.get("suite") or UNKNOWN),
        driver=str(origin.get("agent") or UNKNOWN),
        backend=str(origin.get("backend") or UNKNOWN),
        waiting=str(origin.get("waiting") or UNKNOWN),
        profile=profile + changed,
        interpreter=(asked + slow) or (NONE if origin else UNKNOWN),
        policy=str(identity.get("policy") or UNKNOWN),
        comfort=comfort,
        version="; ".join(sorted({r.version for r in records if r.version})) or UNKNOWN,
        seed=str(identity.get("seed", UNKNOWN)),
    )
