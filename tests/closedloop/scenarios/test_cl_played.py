"""One type of each program, played: a route-following ego sets it off, and the actor does what it is there for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from closedloop_plugin.agents import tracking
from closedloop_plugin.routes import Route, read_routes
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.state import Truth
from closedloop_plugin.worlds.base import Setup, World

pytest.importorskip("scenic")

PLAYED = {info.archetype: name for name, info in reversed(CATALOGUE.items())}
ACTORLESS = {"turn", "control_loss"}


@pytest.fixture(scope="module")
def routes(data_dir: Path) -> dict[str, Route]:
    file = data_dir / "bench2drive" / "bench2drive220.xml"
    if not file.is_file():
        pytest.skip("the 220 routes are not here")
    return {route.scenario: route for route in read_routes(file)}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

    made = EmbeddedWorld(tmp_path_factory.mktemp("maps"))
    yield made
    made.close()


def play(world: World, route: Route, seconds: float = 16.0) -> list[Truth]:
    """7 m/s along the route; once the actor acts, a stop. Ends when somebody of the scenario has moved after that."""
    world.reset(Setup(route, 4, traffic=False, max_ticks=1000))
    seen = [world.truth()]
    s: float | None = None
    while seen[-1].time_s < seconds:
        truth = seen[-1]
        names = {name for _, name in truth.events}
        s, d = world.road.path.locate(truth.ego.x, truth.ego.y, s)
        wanted = 0.0 if "act" in names and s > 8.0 else 7.0
        pedals = tracking.to_speed(wanted, truth.ego.speed, brake=7.0)
        offset = d if route.scenario == "ParkingExit" else 0.0
        world.step(tracking.control(truth.ego, world.road.path, s, offset, pedals))
        seen.append(world.truth())
        if "act" in names and (moved(seen) or CATALOGUE[route.scenario].archetype in ACTORLESS):
            break
    return seen


def moved(seen: list[Truth]) -> bool:
    """Somebody went 1 m, or opened a door, since the scenario acted."""
    acted = next((t for t in seen if any(name == "act" for _, name in t.events)), seen[-1])
    before = {a.id: a for a in acted.actors}
    return any(
        a.doors or (a.id in before and abs(a.x - before[a.id].x) + abs(a.y - before[a.id].y) > 1.0)
        for a in seen[-1].actors
    )


@pytest.mark.parametrize("archetype", sorted(PLAYED))
def test_a_route_follower_meets_it(archetype: str, world: World, routes: dict[str, Route]) -> None:
    seen = play(world, routes[PLAYED[archetype]])
    names = [name for _, name in seen[-1].events]
    assert {"trigger", "act"} <= set(names)
    times = {name: time for time, name in seen[-1].events}
    assert times["trigger"] <= times["act"]
    if archetype not in ACTORLESS:
        assert moved(seen)


def test_two_ways_lends_the_oncoming_lane(world: World, routes: dict[str, Route]) -> None:
    seen = play(world, routes["ParkedObstacleTwoWays"], seconds=8.0)
    assert not seen[0].oncoming_allowed
    assert seen[-1].oncoming_allowed


def test_red_light_is_held_until_the_ego_has_waited(world: World, routes: dict[str, Route]) -> None:
    seen = play(world, routes["VanillaSignalizedTurnEncounterRedLight"], seconds=3.0)
    own = next(line.id for line in world.road.stop_lines if line.on_route)
    assert {t.signals[own].value for t in seen[2:]} == {"red"}
