"""Contract tests that every World must pass. To add a world, add a line to WORLDS.

CARLA's is the product's world on a fake `carla` (tests/fake_carla), whose names are compared with the real package.
"""

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
from closedloop_plugin.scenarios.suites.lookup import DEMO
from closedloop_plugin.worlds.base import EpisodeSetup, World, WorldError
from closedloop_plugin.worlds.embedded.world import EmbeddedWorld
from closedloop_plugin.worlds.testing.fake_world import FakeWorld

pytestmark = pytest.mark.integration

CAMERA = Camera("front", 96, 54, 70.0, 0.8, 0.0, 1.6)
GO = Control(throttle=0.6)
FREE_PARAMETER_PROGRAM = """param beside = Range(3.2, 4.5)
model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *
ego = new Car at place(0), facing stage.heading(0)
new Wheeled at place(40, -globalParameters.beside), facing stage.heading(40)
"""


@contextmanager
def closing(world: World) -> Iterator[World]:
    yield world
    world.close()


@contextmanager
def carla(folder: Path) -> Iterator[World]:
    from closedloop_plugin.carla.world.world import CarlaWorld

    town_of(read_routes(DEMO)[0], folder)
    with (
        fake_carla.installed(folder) as server,
        closing(CarlaWorld(folder / "maps", f"127.0.0.1:{server.port}")) as world,
    ):
        yield world
    assert not server.state.actors, "a world takes away what it put there"
    assert not server.state.synchronous, "and lets the server run on by itself"


# (name, folder -> a new World, function that returns the route of the episode)
WORLDS: list[tuple[str, Callable[[Path], AbstractContextManager[World]], Callable[[], Route]]] = [
    ("fake", lambda folder: closing(FakeWorld()), lambda: read_routes(DEMO)[0]),
    ("embedded", lambda folder: closing(EmbeddedWorld(folder)), lambda: read_routes(DEMO)[0]),
    ("carla", carla, lambda: read_routes(DEMO)[0]),
]


@pytest.fixture(scope="module", params=WORLDS, ids=[w[0] for w in WORLDS])
def world_and_setup(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[World, EpisodeSetup]]:
    _, make, route = request.param
    with make(tmp_path_factory.mktemp("world")) as world:
        yield world, EpisodeSetup(route(), seed=7, cameras=(CAMERA,), max_ticks=200)


def drive(world: World, setup: EpisodeSetup, controls: list[Control]) -> list[GroundTruth]:
    world.reset(setup)
    truths = [world.truth()]
    for control in controls:
        world.step(control)
        truths.append(world.truth())
    return truths


def test_backend_and_version_are_set(world_and_setup: tuple[World, EpisodeSetup]) -> None:
    world, _ = world_and_setup
    assert world.backend
    assert world.version


def test_ticks_and_times_start_at_zero_and_advance_by_the_timestep(world_and_setup: tuple[World, EpisodeSetup]) -> None:
    world, setup = world_and_setup
    observation = world.reset(setup)
    for tick in range(4):
        assert (observation.tick, world.truth().tick) == (tick, tick)
        assert observation.time_s == pytest.approx(tick * 0.05)
        assert world.truth().time_s == pytest.approx(tick * 0.05)
        observation = world.step(GO)


def test_ego_starts_at_the_route_start_and_faces_along_it(world_and_setup: tuple[World, EpisodeSetup]) -> None:
    world, setup = world_and_setup
    world.reset(setup)
    ego, path = world.truth().ego, world.road.path
    s, d = path.locate(ego.x, ego.y)
    assert s < 10
    assert abs(d) < 1
    assert abs(math.remainder(ego.yaw - path.pose(s)[2], math.tau)) < 0.2
    assert ego.role == "ego"


def test_throttle_accelerates_brake_stops_and_the_observation_has_the_speed(
    world_and_setup: tuple[World, EpisodeSetup],
) -> None:
    world, setup = world_and_setup
    moving = drive(world, setup, [GO] * 40)
    assert moving[-1].ego.speed > 2
    assert world.road.path.locate(moving[-1].ego.x, moving[-1].ego.y)[0] > 1
    for _ in range(60):
        observation = world.step(FULL_BRAKE)
    assert observation.speed == pytest.approx(0.0, abs=0.1)
    assert observation.speed == pytest.approx(abs(world.truth().ego.speed), abs=1e-6)


def test_steering_right_turns_right(world_and_setup: tuple[World, EpisodeSetup]) -> None:
    world, setup = world_and_setup
    yaw = [
        drive(world, replace(setup, traffic=False), [GO] * 20 + [Control(steer, 0.4)] * 20)[-1].ego.yaw
        for steer in (0.5, -0.5)
    ]
    assert math.remainder(yaw[0] - yaw[1], math.tau) < -0.1  # right is clockwise: yaw falls


def test_the_target_lies_ahead_in_the_ego_frame(world_and_setup: tuple[World, EpisodeSetup]) -> None:
    world, setup = world_and_setup
    forward, left = world.reset(setup).target
    assert forward > 1
    assert abs(left) < forward


def test_camera_images_have_the_configured_size_and_change_while_driving(
    world_and_setup: tuple[World, EpisodeSetup],
) -> None:
    world, setup = world_and_setup
    first = world.reset(setup).images("front")
    for _ in range(30):
        observation = world.step(GO)
    later = observation.images("front")
    for image in (first, later):
        assert (image.shape, image.dtype) == ((54, 96, 3), np.uint8)
    assert (first != later).any()


def test_equal_seeds_give_equal_ground_truth_and_images_after_other_episodes(
    world_and_setup: tuple[World, EpisodeSetup],
) -> None:
    world, setup = world_and_setup
    controls = [GO] * 30 + [Control(0.2, 0.3)] * 10

    def run_episode() -> tuple[list[GroundTruth], bytes]:
        truths = drive(world, setup, controls)
        return truths, world.step(GO).images("front").tobytes()

    first = run_episode()
    drive(world, replace(setup, seed=8), [GO] * 5)
    assert run_episode() == first


def test_tick_limit_ends_the_episode_and_further_steps_raise(world_and_setup: tuple[World, EpisodeSetup]) -> None:
    world, setup = world_and_setup
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


def test_non_finite_control_is_rejected(world_and_setup: tuple[World, EpisodeSetup]) -> None:
    world, setup = world_and_setup
    world.reset(setup)
    with pytest.raises(ValueError, match="not finite"):
        world.step(Control(steer=math.nan))


def test_control_beyond_its_range_is_clamped(world_and_setup: tuple[World, EpisodeSetup]) -> None:
    world, setup = world_and_setup
    in_range = drive(world, setup, [Control(1.0, 1.0)] * 10)[-1].ego
    assert drive(world, setup, [Control(9.0, 9.0)] * 10)[-1].ego == in_range


def test_step_between_close_and_reset_raises_world_error(world_and_setup: tuple[World, EpisodeSetup]) -> None:
    world, setup = world_and_setup
    world.reset(setup)
    world.close()
    with pytest.raises(WorldError):
        world.step(GO)
    world.close()  # closing twice is allowed
    assert world.reset(setup).tick == 0


def test_road_has_its_source_hash_and_geometry_kinds(world_and_setup: tuple[World, EpisodeSetup]) -> None:
    world, setup = world_and_setup
    world.reset(setup)
    road = world.road
    assert road.source in ("town", "corridor")
    assert len(road.sha256) == 64
    assert {p.geometry for p in road.pieces} <= {"measured", "interpolated", "invented"}
    assert road.pieces[0].start_m == pytest.approx(0.0, abs=1)
    assert road.pieces[-1].end_m == pytest.approx(road.path.length, abs=2)


@pytest.fixture(scope="module")
def free_setup(world_and_setup: tuple[World, EpisodeSetup], tmp_path_factory: pytest.TempPathFactory) -> EpisodeSetup:
    """The episode with a program that has one free parameter, `beside`. (The fake world always has it.)"""
    program = tmp_path_factory.mktemp("program") / "free.scenic"
    program.write_text(FREE_PARAMETER_PROGRAM)
    return replace(world_and_setup[1], program=program, alone=True, traffic=False)


def test_weather_is_that_of_the_setup_or_else_of_the_route(world_and_setup: tuple[World, EpisodeSetup]) -> None:
    world, setup = world_and_setup
    assert setup.route is not None
    world.reset(setup)
    assert world.weather == setup.route.weather
    rain = Weather(precipitation=80.0, sun_altitude_angle=-20.0)
    world.reset(replace(setup, weather=rain))
    assert world.weather == rain


def test_free_parameter_is_sampled_by_the_seed_within_its_range(
    world_and_setup: tuple[World, EpisodeSetup], free_setup: EpisodeSetup
) -> None:
    world, _ = world_and_setup
    domain = world.space(free_setup)["beside"]
    sampled = []
    for seed in (1, 2, 1):
        world.reset(replace(free_setup, seed=seed))
        sampled.append(dict(world.drawn))
    assert sampled[0] == sampled[2] != sampled[1]
    assert all(set(d) == {"beside"} and domain.low <= d["beside"] <= domain.high for d in sampled)
    assert (domain.low, domain.high) == (3.2, 4.5)


def test_given_value_replaces_the_sampled_one_and_moves_the_actor(
    world_and_setup: tuple[World, EpisodeSetup], free_setup: EpisodeSetup
) -> None:
    world, _ = world_and_setup
    beside = []
    for value in (3.3, 4.4):
        world.reset(replace(free_setup, values={"beside": value}))
        assert dict(world.drawn) == {"beside": value}
        (actor,) = world.truth().actors
        beside.append(-world.road.path.locate(actor.x, actor.y)[1])
    assert beside == pytest.approx([3.3, 4.4], abs=0.05)


def test_given_values_change_neither_later_episodes_nor_the_space(
    world_and_setup: tuple[World, EpisodeSetup], free_setup: EpisodeSetup
) -> None:
    world, _ = world_and_setup
    world.reset(free_setup)
    before = dict(world.drawn)
    fixed = replace(free_setup, values={"beside": 3.3})
    assert world.space(fixed) == world.space(free_setup)
    world.reset(fixed)
    world.reset(free_setup)
    assert dict(world.drawn) == before


def test_querying_the_space_ends_the_episode(
    world_and_setup: tuple[World, EpisodeSetup], free_setup: EpisodeSetup
) -> None:
    world, setup = world_and_setup
    world.reset(setup)
    world.space(free_setup)
    with pytest.raises(WorldError):
        world.step(GO)
    assert world.reset(setup).tick == 0
