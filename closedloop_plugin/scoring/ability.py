"""The five abilities of Bench2Drive and their mean, the Skill Score.

An ability is the success rate over the routes of its scenario types that have a record. A route without a record is
not in the denominator (unlike Driving Score and Success Rate); it is listed, as by the official script under "crashed".

Traffic_Signs has two official variants. N: records of its types, S: successes, J: records passing the junction test.
    v0.0.3   (S + J) / 2N: the published tables
    v0.0.4   |S or J| / N: a failed record that passed the junction test counts fully
Junction test: the ego passed the route's first junction without an infraction at a stop sign or a red light. It needs
the town's map, a known bound (`known_bounds`), or one of our records, which count junctions. If a record cannot be
tested that v0.0.3, or a failed one that v0.0.4 tests, the figure is S / N and marked as partial.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml

from closedloop_plugin.core.routes import VALIDATION_SET, VALIDATION_SUITES, Route
from closedloop_plugin.scoring.official_record import OfficialRecord
from lmms_eval_ad2.core.errors import Ad2Error

VARIANTS = ("v0.0.3", "v0.0.4")


def signs_variant(routes: Sequence[Route], suite: object = None) -> str:
    """The variant of Traffic_Signs that is published for these routes: v0.0.4 for the set of that version.

    suite: under whose name they were driven, if known, since the routes may come from a renamed file.
    """
    return VARIANTS[suite in VALIDATION_SUITES or any(route.suite == VALIDATION_SET for route in routes)]


@dataclass(frozen=True)
class ShareBelow:
    """A share up to the first junction that is unknown, but less than `percent` of the route."""

    percent: float


# route id -> share of the route in [0, 1] beyond which the first junction is passed (official script, waypoints at 1 m:
# (waypoints up to the junction + 8) / waypoints), an upper bound of it, or whether it was passed.
Junctions = Mapping[str, float | bool | ShareBelow]

_JUNCTION_TURNS = (
    "EnterActorFlow",
    "CrossingBicycleFlow",
    "NonSignalizedJunctionLeftTurn",
    "NonSignalizedJunctionRightTurn",
    "NonSignalizedJunctionLeftTurnEnterFlow",
    "SignalizedJunctionLeftTurn",
    "SignalizedJunctionRightTurn",
    "SignalizedJunctionLeftTurnEnterFlow",
)
_JUNCTION_HAZARDS = (
    "BlockedIntersection",
    "OppositeVehicleTakingPriority",
    "OppositeVehicleRunningRedLight",
    "PedestrianCrossing",
    "VehicleTurningRoute",
    "VehicleTurningRoutePedestrian",
)

# ability -> scenario types; a type may belong to several abilities
ABILITIES: Mapping[str, frozenset[str]] = {
    "Overtaking": frozenset(
        {
            "Accident",
            "AccidentTwoWays",
            "ConstructionObstacle",
            "ConstructionObstacleTwoWays",
            "HazardAtSideLane",
            "HazardAtSideLaneTwoWays",
            "ParkedObstacle",
            "ParkedObstacleTwoWays",
            "VehicleOpensDoorTwoWays",
        }
    ),
    "Merging": frozenset(
        {
            *_JUNCTION_TURNS,
            "HighwayCutIn",
            "HighwayExit",
            "InterurbanActorFlow",
            "InterurbanAdvancedActorFlow",
            "MergerIntoSlowTraffic",
            "MergerIntoSlowTrafficV2",
            "ParkingExit",
            "SequentialLaneChange",
        }
    ),
    "Emergency_Brake": frozenset(
        {
            *_JUNCTION_HAZARDS,
            "ControlLoss",
            "DynamicObjectCrossing",
            "HardBreakRoute",
            "ParkingCrossingPedestrian",
            "ParkingCutIn",
            "StaticCutIn",
        }
    ),
    "Give_Way": frozenset({"InvadingTurn", "YieldToEmergencyVehicle"}),
    "Traffic_Signs": frozenset(
        {
            *_JUNCTION_TURNS,
            *_JUNCTION_HAZARDS,
            "T_Junction",
            "VanillaNonSignalizedTurn",
            "VanillaNonSignalizedTurnEncounterStopsign",
            "VanillaSignalizedTurnEncounterGreenLight",
            "VanillaSignalizedTurnEncounterRedLight",
        }
    ),
}


@dataclass(frozen=True)
class AbilityScore:
    """One ability. `values`: success of each record in [0, 1]; `routes`: the route ids in the same order."""

    values: tuple[float, ...]
    routes: tuple[str, ...]
    partial: bool = False  # Traffic_Signs without the junction test
    untested: int = 0  # records with unknown junction test
    at_least: float | None = None  # if partial: the figure in percent if no untested record passed
    at_most: float | None = None  # if partial: the figure in percent if all untested records passed

    @property
    def percent(self) -> float | None:
        return 100.0 * sum(self.values) / len(self.values) if self.values else None


def of_type(scenario: str) -> tuple[str, ...]:
    """Abilities that a scenario type tests."""
    return tuple(name for name, types in ABILITIES.items() if scenario in types)


def skills(
    records: Sequence[tuple[str, OfficialRecord]], variant: str = "v0.0.3", junctions: Junctions | None = None
) -> dict[str, AbilityScore]:
    """All five abilities. `records`: (scenario type from the route file, record)."""
    if variant not in VARIANTS:
        raise Ad2Error(f"unknown Traffic_Signs variant {variant!r}; known: {', '.join(VARIANTS)}")
    found = {}
    for name, types in ABILITIES.items():
        members = [record for scenario, record in records if scenario in types]
        if name == "Traffic_Signs":
            found[name] = traffic_signs(members, variant, junctions or {})
        else:
            found[name] = AbilityScore(tuple(float(r.success) for r in members), tuple(r.route_id for r in members))
    return found


def traffic_signs(records: Sequence[OfficialRecord], variant: str, junctions: Junctions) -> AbilityScore:
    """Traffic_Signs over the records of its scenario types."""
    tests = [junction_test(r, variant, junctions) for r in records]
    routes = tuple(r.route_id for r in records)
    n_untested = sum(test is None for test in tests)
    most, least = (
        [
            _credit(r.success, test is True or (test is None and hope), variant)
            for r, test in zip(records, tests, strict=True)
        ]
        for hope in (True, False)
    )
    if not n_untested:
        return AbilityScore(tuple(most), routes)
    plain = tuple(float(r.success) for r in records)
    low, high = (100.0 * sum(values) / len(values) for values in (least, most))
    return AbilityScore(plain, routes, partial=True, untested=n_untested, at_least=low, at_most=high)


def untested(records: Sequence[tuple[str, OfficialRecord]], variant: str, junctions: Junctions) -> tuple[str, ...]:
    """Route ids whose share up to the first junction `skills` needs besides `junctions`. `records`: as for `skills`."""
    signs = [record for scenario, record in records if scenario in ABILITIES["Traffic_Signs"]]
    return tuple(dict.fromkeys(r.route_id for r in signs if junction_test(r, variant, junctions) is None))


def junction_test(record: OfficialRecord, variant: str, junctions: Junctions) -> bool | None:
    """passed_junction where it matters: v0.0.4 does not test a success."""
    return True if variant == "v0.0.4" and record.success else passed_junction(record, junctions)


def passed_junction(record: OfficialRecord, junctions: Junctions) -> bool | None:
    """The junction test of a record; None if it needs the town's map and `junctions` has no entry."""
    if record.infractions["stop_infraction"] or record.infractions["red_light"] or not record.score_route:
        return False
    junction = junctions.get(record.route_id)
    if junction is None or isinstance(junction, ShareBelow):
        if record.junctions_passed is not None:
            return record.junctions_passed > 0
        return True if junction is not None and record.score_route >= junction.percent else None
    if isinstance(junction, bool):
        return junction
    return record.score_route / 100.0 > junction


def _credit(success: bool, passed: bool, variant: str) -> float:
    return (success + passed) / 2 if variant == "v0.0.3" else float(success or passed)


def skill_score(found: Mapping[str, AbilityScore]) -> float | None:
    """Mean of the five abilities in percent; None if one of them has no record."""
    values = [skill.percent for skill in found.values()]
    known = [value for value in values if value is not None]
    return sum(known) / len(ABILITIES) if len(known) == len(ABILITIES) else None


def partial_note(found: Mapping[str, AbilityScore], variant: str) -> str:
    """Remark on a partial Traffic_Signs: its range over the results of the unknown tests, and the Skill Score's."""
    signs, skill = found["Traffic_Signs"], skill_score(found)
    if signs.at_least is None or signs.at_most is None or signs.percent is None:
        return ""
    note = (
        "Traffic_Signs and the Skill Score are partial: successes / records, because the junction test of "
        f"{variant} needs the towns' maps for {signs.untested} record(s); with it, Traffic_Signs is "
        f"{signs.at_least:.4f} to {signs.at_most:.4f}"
    )
    if skill is None:
        return note
    low, high = (skill + (bound - signs.percent) / len(found) for bound in (signs.at_least, signs.at_most))
    return f"{note}, the Skill Score {low:.4f} to {high:.4f}"


def known_bounds(routes: Iterable[Route]) -> dict[str, ShareBelow]:
    """Upper bounds of the share up to the first junction, by route id, for Bench2Drive's routes whatever their file.

    They need no map of the town: the official ability figures of PDM-Lite's public result file (Traffic_Signs 178/190:
    87 successes and 91 passed junction tests of 95 records) count every record as passed that can pass: the four others
    have an infraction at a red light or did not move. So the share of each of these 91 routes is less than what
    PDM-Lite drove of it: 50.37 % of one, all of the others. A record that drove as much passes the test; one that drove
    less needs the town's map.
    """
    table = _table()
    return {route.id: ShareBelow(table[name]) for route in routes if (name := fingerprint(route)) in table}


def fingerprint(route: Route) -> str:
    """Identifies a route by id, town and points (to 1 cm): other route files reuse ids."""
    points = " ".join(f"{x + 0.0:.2f},{y + 0.0:.2f}" for x, y in route.points)  # + 0.0: no -0.00
    return hashlib.sha256(f"{route.id} {route.town} {points}".encode()).hexdigest()[:12]


@cache
def _table() -> dict[str, float]:
    """Percentage of the route that PDM-Lite drove, by the route's fingerprint."""
    rows = yaml.safe_load(resources.files(__package__).joinpath("junction_bounds.yaml").read_text("utf-8"))
    return {name: float(row["percent"]) for row in rows for name in row["routes"].split()}
