"""All 44 scenario types in the CARLA world, over the fake server: the program compiles under CARLA's model, its actors
are spawned, and act when a route-following ego arrives. The town is the corridor map."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fake_carla
import pytest
from support.carla.fake_towns import town_of
from support.closedloop.played import ACTORLESS, moved, play

from closedloop_plugin.core.routes import Route, read_routes
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.worlds.base import World

pytest.importorskip("scenic")


@pytest.fixture(scope="module")
def routes(data_dir: Path) -> dict[str, Route]:
    return {r.scenario: r for r in reversed(read_routes(data_dir / "bench2drive" / "bench2drive220.xml"))}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    from closedloop_plugin.carla.world.world import CarlaWorld

    with fake_carla.installed(tmp_path) as server:
        carla_world = CarlaWorld(tmp_path / "maps", f"127.0.0.1:{server.port}")
        yield carla_world
        carla_world.close()
        assert not server.state.actors


@pytest.mark.parametrize("kind", sorted(CATALOGUE))
def test_the_scenario_type_is_triggered_and_acts(
    kind: str, world: World, routes: dict[str, Route], tmp_path: Path
) -> None:
    town_of(routes[kind], tmp_path)
    seen = play(world, routes[kind])
    assert {"trigger", "act"} <= {name for _, name in seen[-1].events}
    if CATALOGUE[kind].archetype not in ACTORLESS:
        assert moved(seen)
