"""One type of each program, played with an ego that follows the route."""

from __future__ import annotations

import pytest
from support.closedloop.played import ACTORLESS, moved, play

from closedloop_plugin.core.routes import Route
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.worlds.base import World

pytestmark = pytest.mark.integration

pytest.importorskip("scenic")

PLAYED = {info.archetype: name for name, info in reversed(CATALOGUE.items())}


@pytest.mark.parametrize("archetype", sorted(PLAYED))
def test_a_route_follower_triggers_the_scenario_and_its_actor_acts(
    archetype: str, world: World, routes_by_type: dict[str, Route]
) -> None:
    truths = play(world, routes_by_type[PLAYED[archetype]])
    names = [name for _, name in truths[-1].events]
    assert {"trigger", "act"} <= set(names)
    times = {name: time for time, name in truths[-1].events}
    assert times["trigger"] <= times["act"]
    if archetype not in ACTORLESS:
        assert moved(truths)


def test_red_light_is_held_until_the_ego_has_waited(world: World, routes_by_type: dict[str, Route]) -> None:
    truths = play(world, routes_by_type["VanillaSignalizedTurnEncounterRedLight"], seconds=3.0)
    own = next(line.id for line in world.road.stop_lines if line.on_route)
    assert {t.signals[own].value for t in truths[2:]} == {"red"}
