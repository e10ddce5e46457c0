"""One suite that every World passes. Add a world: a line in WORLDS (name, how to make it, its Setup).

CARLA's is the real world code over a fake `carla` (tests/fake_carla), whose every name is checked against the wheel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import fake_carla
import numpy as np
import pytest
from support.carla.fake_towns import town_of

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.routes import Route, Weather, read_routes
from closedloop_plugin.core.state import FULL_BRAKE, Control, GroundTruth
from closedloop_plugin.suites.lookup import DEMO
from closedloop_plugin.testing.fake_world import FakeWorld
from closedloop_plugin.worlds.base import EpisodeSetup, World, WorldError
from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

pytestmark = pytest.mark.integration

CAMERA = Camera("front", 96, 54, 70.0, 0.8, 0.0, 1.6)
GO = Control(throttle=0.6)
FREE = """param beside = Range(3.2, 4.5)
model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *
ego = new Car at place(0), facing stage.heading(0)
new Wheeled at place(40, -globalParameters.beside), facing stage.heading(40)
"""


@contextmanager
def plain(world: World) -> Iterator[World]:
    yield world
    world.close()


@contextmanager
def carla(folder: Path) -> Iterator[World]:
    from closedloop_plugin.carla.world.world import CarlaWorld

    town_of(read_routes(DEMO)[0], folder)
    with fake_carla.installed(folder) as server, plain(CarlaWorld(folder / "maps", f"127.0.0.1:{server.port}")) as made:
        yield made
    assert not server.state.actors, "a world takes away what it put there"
    assert not server.state.synchronous, "and lets the server run on by itself"


# (name, folder -> a new World, the route of an episode)
WORLDS: list[tuple[str, Callable[[Path], AbstractContextManager[World]], Callable[[], Route]]] = [
    ("fake", lambda folder: plain(FakeWorld()), lambda: read_routes(DEMO)[0]),
    ("embedded", lambda folder: plain(EmbeddedWorld(folder)), lambda: read_routes(DEMO)[0]),
    ("carla", carla, lambda: read_routes(DEMO)[0]),
]


@pytest.fixture(scope="module", params=WORLDS, ids=[w[0] for w in WORLDS])
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[World, EpisodeSetup]]:
    _, make, route = request.param
    with make(tmp_path_factory.mktemp("world")) as world:
        yield world, EpisodeSetup(route(), seed=7, cameras=(CAMERA,), max_ticks=200)


def drive(world: World, setup: EpisodeSetup, controls: list[Control]) -> list[GroundTruth]:
    world.reset(setup)
    seen = [world.truth()]
    for control in controls:
        world.step(control)
        seen.append(world.truth())
    return seen


def test_it_names_itself(made: tuple[World, EpisodeSetup]) -> None:
    world, _ = made
    assert world.backend
    assert world.version


def test_ticks_and_seconds_count_from_zero_in_the_timestep(made: tuple[World, EpisodeSetup]) -> None:
    world, setup = made
    seen = world.reset(setup)
    for tick in range(4):
        assert (seen.tick, world.truth().tick) == (tick, tick)
        assert seen.time_s == pytest.approx(tick * 0.05)
        assert world.truth().time_s == pytest.approx(tick * 0.05)
        seen = world.step(GO)


def test_the_ego_begins_at_the_start_of_the_route_and_looks_along_it(made: tuple[World, EpisodeSetup]) -> None:
    world, setup = made
    world.reset(setup)
    ego, path = world.truth().ego, world.road.path
    s, d = path.locate(ego.x, ego.y)
    assert s < 10
    assert abs(d) < 1
    assert abs(math.remainder(ego.yaw - path.pose(s)[2], math.tau)) < 0.2
    assert ego.role == "ego"


def test_throttle_drives_brake_stops_and_the_observation_tells_the_speed(made: tuple[World, EpisodeSetup]) -> None:
    world, setup = made
    moving = drive(world, setup, [GO] * 40)
    assert moving[-1].ego.speed > 2
    assert world.road.path.locate(moving[-1].ego.x, moving[-1].ego.y)[0] > 1
    for _ in range(60):
        seen = world.step(FULL_BRAKE)
    assert seen.speed == pytest.approx(0.0, abs=0.1)
    assert seen.speed == pytest.approx(abs(world.truth().ego.speed), abs=1e-6)


def test_steering_right_turns_right(made: tuple[World, EpisodeSetup]) -> None:
    world, setup = made
    yaw = [
        drive(world, replace(setup, traffic=False), [GO] * 20 + [Control(steer, 0.4)] * 20)[-1].ego.yaw
        for steer in (0.5, -0.5)
    ]
    assert math.remainder(yaw[0] - yaw[1], math.tau) < -0.1  # right is clockwise: yaw falls


def test_the_target_lies_ahead_in_the_ego_frame(made: tuple[World, EpisodeSetup]) -> None:
    world, setup = made
    forward, left = world.reset(setup).target
    assert forward > 1
    assert abs(left) < forward


def test_the_camera_gives_its_size_and_the_world_changes_it(made: tuple[World, EpisodeSetup]) -> None:
    world, setup = made
    first = world.reset(setup).images("front")
    for _ in range(30):
        seen = world.step(GO)
    later = seen.images("front")
    for image in (first, later):
        assert (image.shape, image.dtype) == ((54, 96, 3), np.uint8)
    assert (first != later).any()


def test_the_same_seed_gives_the_same_truth_and_pictures_after_other_episodes(made: tuple[World, EpisodeSetup]) -> None:
    world, setup = made
    controls = [GO] * 30 + [Control(0.2, 0.3)] * 10

    def whole() -> tuple[list[GroundTruth], bytes]:
        truths = drive(world, setup, controls)
        return truths, world.step(GO).images("front").tobytes()

    first = whole()
    drive(world, replace(setup, seed=8), [GO] * 5)
    assert whole() == first


def test_the_tick_limit_ends_it_says_so_and_refuses_further_steps(made: tuple[World, EpisodeSetup]) -> None:
    world, setup = made
    world.reset(replace(setup, max_ticks=3))
    assert world.done is None
    for _ in range(3):
        assert world.done is None
        world.step(GO)
    assert world.done
    with pytest.raises(WorldError):
        world.step(GO)
    world.reset(setup)
    assert world.done is None


def test_a_control_that_is_not_finite_is_refused(made: tuple[World, EpisodeSetup]) -> None:
    world, setup = made
    world.reset(setup)
    with pytest.raises(ValueError, match="not finite"):
        world.step(Control(steer=math.nan))


def test_a_control_beyond_its_range_is_clamped(made: tuple[World, EpisodeSetup]) -> None:
    world, setup = made
    tame = drive(world, setup, [Control(1.0, 1.0)] * 10)[-1].ego
    assert drive(world, setup, [Control(9.0, 9.0)] * 10)[-1].ego == tame


def test_every_step_after_close_or_before_reset_is_a_world_error(made: tuple[World, EpisodeSetup]) -> None:
    world, setup = made
    world.reset(setup)
    world.close()
    with pytest.raises(WorldError):
        world.step(GO)
    world.close()  # twice does no harm
    assert world.reset(setup).tick == 0


def test_the_road_says_where_it_comes_from(made: tuple[World, EpisodeSetup]) -> None:
    world, setup = made
    world.reset(setup)
    road = world.road
    assert road.source in ("town", "corridor")
    assert len(road.sha256) == 64
    assert {p.geometry for p in road.pieces} <= {"measured", "interpolated", "invented"}
    assert road.pieces[0].start_m == pytest.approx(0.0, abs=1)
    assert road.pieces[-1].end_m == pytest.approx(road.path.length, abs=2)


@pytest.fixture(scope="module")
def free(made: tuple[World, EpisodeSetup], tmp_path_factory: pytest.TempPathFactory) -> EpisodeSetup:
    """The episode with a program that has one free parameter, `beside`. (The fake world has it without a program.)"""
    program = tmp_path_factory.mktemp("program") / "free.scenic"
    program.write_text(FREE)
    return replace(made[1], program=program, traffic=False)


def test_the_weather_is_the_route_s_or_the_setup_s(made: tuple[World, EpisodeSetup]) -> None:
    world, setup = made
    assert setup.route is not None
    world.reset(setup)
    assert world.weather == setup.route.weather
    rain = Weather(precipitation=80.0, sun_altitude_angle=-20.0)
    world.reset(replace(setup, weather=rain))
    assert world.weather == rain


def test_a_free_parameter_is_drawn_by_the_seed_within_its_space(
    made: tuple[World, EpisodeSetup], free: EpisodeSetup
) -> None:
    world, _ = made
    domain = world.space(free)["beside"]
    drawn = []
    for seed in (1, 2, 1):
        world.reset(replace(free, seed=seed))
        drawn.append(dict(world.drawn))
    assert drawn[0] == drawn[2] != drawn[1]
    assert all(set(d) == {"beside"} and domain.low <= d["beside"] <= domain.high for d in drawn)
    assert (domain.low, domain.high) == (3.2, 4.5)


def test_a_value_from_outside_replaces_the_draw_and_moves_its_actor(
    made: tuple[World, EpisodeSetup], free: EpisodeSetup
) -> None:
    world, _ = made
    beside = []
    for value in (3.3, 4.4):
        world.reset(replace(free, values={"beside": value}))
        assert dict(world.drawn) == {"beside": value}
        (actor,) = world.truth().actors
        beside.append(-world.road.path.locate(actor.x, actor.y)[1])
    assert beside == pytest.approx([3.3, 4.4], abs=0.05)


def test_values_do_not_last_nor_narrow_the_space(made: tuple[World, EpisodeSetup], free: EpisodeSetup) -> None:
    world, _ = made
    world.reset(free)
    before = dict(world.drawn)
    fixed = replace(free, values={"beside": 3.3})
    assert world.space(fixed) == world.space(free)
    world.reset(fixed)
    world.reset(free)
    assert dict(world.drawn) == before


def test_asking_for_the_space_ends_the_episode(made: tuple[World, EpisodeSetup], free: EpisodeSetup) -> None:
    world, setup = made
    world.reset(setup)
    world.space(free)
    with pytest.raises(WorldError):
        world.step(GO)
    assert world.reset(setup).tick == 0
