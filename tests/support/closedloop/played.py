"""A route-following ego that triggers a scenario in any world, for tests that run scenario programs."""

from __future__ import annotations

from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import GroundTruth
from closedloop_plugin.driver.agents import tracking
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.worlds.base import EpisodeSetup, World

ACTORLESS = {"turn", "control_loss", "blocked"}  # or whose actor does not move


def play(world: World, route: Route, seconds: float = 16.0) -> list[GroundTruth]:
    """Drive the route at 7 m/s and stop when the actor acts. Ends when an actor has moved after that."""
    world.reset(EpisodeSetup(route, 4, traffic=False, max_ticks=1000))
    seen = [world.truth()]
    s: float | None = None
    while seen[-1].time_s < seconds:
        truth = seen[-1]
        names = {name for _, name in truth.events}
        s, d = world.road.path.locate(truth.ego.x, truth.ego.y, s)
        target_speed = 0.0 if "act" in names and s > 8.0 else 7.0
        pedals = tracking.to_speed(target_speed, truth.ego.speed, brake=7.0)
        offset = d if route.scenario == "ParkingExit" else 0.0
        world.step(tracking.control(truth.ego, world.road.path, s, offset, pedals))
        seen.append(world.truth())
        if "act" in names and (moved(seen) or CATALOGUE[route.scenario].archetype in ACTORLESS):
            break
    return seen


def moved(seen: list[GroundTruth]) -> bool:
    """Whether an actor moved 1 m, opened a door or appeared since the scenario acted."""
    acted = next((t for t in seen if any(name == "act" for _, name in t.events)), seen[-1])
    before = {a.id: a for a in acted.actors}
    return any(
        a.doors or a.id not in before or abs(a.x - before[a.id].x) + abs(a.y - before[a.id].y) > 1.0
        for a in seen[-1].actors
    )
