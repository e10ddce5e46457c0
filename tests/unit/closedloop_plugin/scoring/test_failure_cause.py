"""Causes of failed episodes, worked out by hand from their infractions. s: bodies of the program, r: of the standard
scenario; on a route without a program s are those of the standard scenario, b background traffic."""

from __future__ import annotations

from typing import Any

import pytest
from support.closedloop.scored import episode

from closedloop_plugin.core.record import INFRACTIONS, EpisodeRecord
from closedloop_plugin.scoring.failure_cause import CausedInfraction, CauseSource, cause_of, counts_text

KEPT = {"backend": "embedded", "version": "1", "waiting": "waits", "program": "ab12", "standard": "kept"}
Hit = tuple[float, str, str]  # time_s, kind, id of the body


def driven(*hits: Hit, program: bool = True, **changes: Any) -> EpisodeRecord:
    """An episode with these infractions, on top of the standard scenario or without a program."""
    places, lists = [], {name: list[str]() for name in INFRACTIONS}
    for time_s, kind, actor in hits:
        places.append({"kind": kind, "time_s": time_s, "x": 0.0, "y": 0.0, "text": kind})
        places[-1].update({"actor": actor} if actor else {})
        lists[kind].append(kind)
    world = KEPT if program else {key: KEPT[key] for key in ("backend", "version", "waiting")}
    return episode(**{"places": places, "infractions": lists, "world": world, **changes})


def cars(*hits: tuple[float, str]) -> list[Hit]:
    return [(time_s, "collisions_vehicle", actor) for time_s, actor in hits]


YIELD = "yield_emergency_vehicle_infractions"
# name: standard drive, threat drive, by, actor and time of the first, whether it is new, whether it is the threat's
CASES: dict[str, tuple[list[Hit], list[Hit], str, tuple[str, float], bool, bool]] = {
    "the standard scenario's cars, as without the threat": (
        cars((7.4, "s2")), cars((7.4, "r2"), (18.0, "r2"), (49.0, "r2")), "standard", ("r2", 7.4), False, False),
    "another car of the standard scenario, as without the threat": (
        cars((6.2, "s1")), cars((6.2, "r1"), (40.0, "r3")), "standard", ("r1", 6.2), False, False),
    "the standard scenario first, then the threat twice": (
        cars((7.0, "s1")), cars((7.0, "r1"), (10.0, "s1"), (15.0, "s1")), "both", ("r1", 7.0), False, True),
    "the standard scenario first, then a siren of the threat": (
        cars((9.0, "s1")), [(9.0, "collisions_vehicle", "r1"), (9.9, YIELD, "s1"), (14.0, "collisions_vehicle", "r1")],
        "both", ("r1", 9.0), False, True),
    "the threat alone, on a route without failure": (
        [], cars((5.0, "s1")), "threat", ("s1", 5.0), True, True),
    "the threat first, then the standard scenario": (
        cars((8.0, "s1")), cars((5.5, "s2"), (8.3, "r1")), "both", ("s2", 5.5), True, True),
    "a red light, which it runs on the standard route too": (
        [(4.0, "red_light", "")], [(4.2, "red_light", "")], "itself", ("", 4.2), False, False),
    "a red light, which it does not run on the standard route": (
        cars((4.0, "s1")), [(4.2, "red_light", "")], "itself", ("", 4.2), True, True),
    "background traffic is the driver's own fault": (
        cars((20.0, "b3")), cars((21.0, "b9")), "itself", ("b9", 21.0), False, False),
    "a car of the standard scenario is not one of the background": (
        cars((20.0, "b3")), cars((21.0, "r1")), "standard", ("r1", 21.0), True, True),
    "blocked behind the threat": (
        [], [(200.0, "vehicle_blocked", "s1")], "threat", ("s1", 200.0), True, True),
    "blocked behind nothing": (
        [(150.0, "vehicle_blocked", "")], [(200.0, "vehicle_blocked", "")], "itself", ("", 200.0), False, False),
    "off the road, then into the threat": (
        [(3.0, "outside_route_lanes", "")], [(3.0, "outside_route_lanes", ""), (8.0, "collisions_vehicle", "s1")],
        "threat", ("", 3.0), False, True),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_cause_is_found_by_the_bodies_of_the_infractions(case: str) -> None:
    standard, threat, by, (actor, time_s), new, by_threat = CASES[case]
    found = cause_of(driven(*threat), driven(*standard, program=False))
    assert found is not None
    assert (found.by, found.first.actor, found.first.time_s) == (by, actor, time_s)
    assert (found.new, found.by_threat) == (new, by_threat)


def test_without_a_standard_drive_only_the_bodies_count() -> None:
    """A standard drive that could not be scored is unknown too."""
    red = driven((4.2, "red_light", ""))
    for standard in (None, driven(program=False, end="world failed", status="Failed - Simulation crashed")):
        found = cause_of(red, standard)
        assert found is not None and found.new is None and not found.by_threat
        hit = cause_of(driven(*cars((5.0, "s1"))), standard)
        assert hit is not None and hit.new is None and hit.by_threat


def test_order_in_time_decides_which_is_first() -> None:
    found = cause_of(driven(*cars((9.0, "r1"), (3.0, "s1"))))
    assert found is not None and str(found) == "by both, first: collisions vehicle (s1) at 3.0 s"


def test_no_failure_has_no_cause_and_an_unscored_episode_has_none() -> None:
    slow = driven()
    slow.infractions["min_speed_infractions"].append("slow")
    assert cause_of(slow) is None
    assert cause_of(driven(status="Ended by its program", score_route=40.0)) is None
    assert cause_of(driven(*cars((3.0, "s1")), end="agent failed", status="Failed - Agent crashed")) is None


def test_a_failure_without_an_infraction_is_the_drivers_own() -> None:
    found = cause_of(driven(end="tick limit", status="Failed - TickRuntime", game_s=400.0))
    assert found is not None and found.by is CauseSource.ITSELF
    assert found.first == CausedInfraction("Failed - TickRuntime", CauseSource.ITSELF, 400.0)


def test_records_without_actors_name_the_body_in_the_message() -> None:
    """Those of version 0.11 and before; a stop sign's id is no body."""
    text = "Agent collided against object with type=vehicle.car and id={} at (x=1.0, y=2.0, z=0.0)"
    old = driven((6.0, "collisions_vehicle", ""))
    old.places[0]["text"] = text.format("s1")
    found = cause_of(old)
    assert found is not None and found.by is CauseSource.THREAT and found.first.actor == "s1"
    stop = driven((6.0, "stop_infraction", ""))
    stop.places[0]["text"] = "Agent ran a stop with id=s1 at (x=1.0, y=2.0, z=0.0)"
    own = cause_of(stop)
    assert own is not None and own.by is CauseSource.ITSELF
    bare = episode(infractions={**old.infractions, "collisions_vehicle": [text.format("r4")]}, world=KEPT)
    late = cause_of(bare)
    assert late is not None and (late.by, late.first.time_s, late.first.actor) == ("standard", None, "r4")


def test_a_program_that_replaced_the_standard_scenario_and_one_without_a_route() -> None:
    replaced = driven(*cars((5.0, "s1")), world={**KEPT, "standard": "replaced"})
    alone = driven(*cars((5.0, "s1")), program=False, scenario="program")
    for record in (replaced, alone):
        found = cause_of(record)
        assert found is not None and found.by is CauseSource.THREAT


def test_counts_by_cause() -> None:
    causes = [cause_of(driven(*threat), driven(*standard, program=False)) for standard, threat, *_ in CASES.values()]
    assert counts_text([*causes, None, None]) == (
        "by the threat 3, by both 3, by the standard scenario 3, by itself 4, none 2; first by the threat 3; "
        "first not on the standard route 5"
    )
