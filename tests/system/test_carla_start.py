"""Start and end of an episode in CARLA: weather, ego, places, towns, images, clean-up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import carla
import numpy as np
import pytest
from support.carla.rig import EGO, FREE, Rig, rig_on, straight_route

from closedloop_plugin.carla.world.conversions import light_state, needs_headlights
from closedloop_plugin.carla.world.scene_actor import body_of
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.routes import Weather
from closedloop_plugin.core.state import FULL_BRAKE, ActorKind, Control, DrivingSurface
from closedloop_plugin.worlds.base import InvalidScene
from lmms_eval_ad2.core.errors import Ad2Error

GO = Control(throttle=0.7)
STORM = Weather(cloudiness=90.0, precipitation=70.0, sun_altitude_angle=-20.0, fog_density=15.0)


@pytest.fixture(scope="module")
def module_rig(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig_on("Town01", data_dir / "opendrive", tmp_path_factory.mktemp("start")) as rig:
        yield rig


@pytest.fixture
def rig(module_rig: Rig) -> Iterator[Rig]:
    yield module_rig
    module_rig.clear()


# -- weather -----------------------------------------------------------------------------------------------------------
def test_the_route_s_weather_reaches_the_server(rig: Rig) -> None:
    rig.play(EGO, weather=STORM)
    applied = rig.stage.weather
    assert (applied.precipitation, applied.sun_altitude_angle, applied.fog_density) == (70.0, -20.0, 15.0)
    assert rig.world.weather == STORM


@pytest.mark.parametrize(
    ("said", "rain", "sun"),
    [("'HardRainNoon'", 100.0, 45.0), ("{'precipitation': 12, 'sun_altitude_angle': 3.5}", 12.0, 3.5)],
)
def test_a_program_sets_the_weather_as_in_scenic(rig: Rig, said: str, rain: float, sun: float) -> None:
    rig.play(f"param weather = {said}\n{EGO}")
    applied = rig.stage.weather
    assert applied.precipitation == pytest.approx(rain, abs=0.01)
    assert applied.sun_altitude_angle == pytest.approx(sun, abs=1.0)
    assert rig.world.weather.precipitation == pytest.approx(applied.precipitation)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("'Drizzle'", "no preset 'Drizzle'"),
        ("{'hail': 3}", "unknown 'hail'"),
        ("7", "expected a preset's name or a dict"),
    ],
)
def test_an_invalid_weather_is_rejected_with_the_reason(rig: Rig, said: str, words: str) -> None:
    with pytest.raises(Ad2Error, match=words):
        rig.play(f"param weather = {said}\n{EGO}")


@pytest.mark.parametrize(
    ("weather", "lit"),
    [
        (Weather(), False),
        (Weather(sun_altitude_angle=5.0), True),
        (Weather(fog_density=60.0), True),
        (Weather(sun_altitude_angle=20.0), False),
        (Weather(sun_altitude_angle=20.0, cloudiness=75.0), True),
    ],
)
def test_headlights_are_on_when_it_is_dark(rig: Rig, weather: Weather, lit: bool) -> None:
    assert needs_headlights(weather) is lit
    truth = rig.play(EGO, weather=weather)
    assert bool(rig.body(0).lamps & int(light_state(frozenset({"headlights"})))) is lit
    assert "headlights" not in truth.ego.lamps  # switched on for appearance, not by the scenario


# -- the ego -----------------------------------------------------------------------------------------------------------
def test_the_ego_is_the_hero_in_the_leaderboard_s_car_and_is_on_the_ground(rig: Rig) -> None:
    truth = rig.play(EGO)
    ego = rig.body(0)
    assert (ego.type_id, ego.attributes["role_name"]) == ("vehicle.lincoln.mkz_2020", "hero")
    assert (truth.tick, truth.contacts, truth.crossed) == (0, (), ())
    assert truth.ego.speed == pytest.approx(0.0, abs=0.02)
    assert ego.z == pytest.approx(rig.world.road.facts["start_z"], abs=0.05)
    assert rig.body(0).control.brake == 0.0
    assert not rig.body(0).control.hand_brake
    assert rig.ticks(30, GO)[-1].ego.speed > 2
    assert math.dist((truth.ego.x, truth.ego.y), rig.route.points[0]) < 1.0


def test_a_parked_car_has_its_hand_brake_on_until_its_behaviour_drives_it(rig: Rig) -> None:
    behaviour = """behavior Later():
    for _ in range(4):
        wait
    take SetThrottleAction(0.5)
    take SetHandBrakeAction(True)
    while True:
        take SetThrottleAction(0.2)
"""
    rig.play(f"{behaviour}{EGO}new Car at stage.spot(40), facing stage.heading(40), with behavior Later()\n")
    held = [rig.body(1).control.hand_brake for _ in range(8) if rig.ticks(1)]
    assert held == [True] * 4 + [False] + [True] * 3


def test_a_blocked_ego_is_an_invalid_scene_and_other_blocked_actors_are_placed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = f"new Car at stage.spot(30), facing stage.heading(30), {FREE}\n" * 2
    first, second = rig.play(EGO + two).actors
    assert math.dist((first.x, first.y), (second.x, second.y)) < 0.2
    assert rig.body(2).z < 1.0  # spawned in the sky, then moved down
    monkeypatch.setattr(type(rig.stage), "blocked", lambda self, kind, where: True)
    with pytest.raises(InvalidScene, match="no room for vehicle"):
        rig.play(EGO)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("blueprint 'vehicle.moon.rover'", "no blueprint"),
        ("kind 'tank', with blueprint 'vehicle.audi.tt'", "no such kind"),
    ],
)
def test_an_unknown_blueprint_or_kind_is_an_invalid_scene_that_leaves_no_actors(
    rig: Rig, what: str, words: str
) -> None:
    with pytest.raises(InvalidScene, match=words):
        rig.play(f"{EGO}new Car at stage.spot(30), facing stage.heading(30), with {what}\n")
    assert not rig.server.state.actors


def test_an_invalid_bounding_box_is_replaced_by_the_size_in_the_program(rig: Rig) -> None:
    rig.play(EGO)

    class Box:
        extent = carla.Vector3D(math.inf, 0.0, 0.7)

    obj, actor = type("Obj", (), {"length": 3.0, "width": 2.0, "height": 9.0})(), type("A", (), {"bounding_box": Box})()
    body = body_of(obj, actor, ActorKind.CAR, "s1", rig.simulation.bodies[0].motion)
    assert (body.length, body.width, body.height) == pytest.approx((3.0, 2.0, 1.4))


# -- places ------------------------------------------------------------------------------------------------------------
def test_the_surface_under_the_ego_is_read_from_the_town(rig: Rig) -> None:
    surfaces = {0.0: rig.play(EGO).surface}
    path = rig.world.road.path
    for d in (4.0, -2.2, -30.0):
        surfaces[d] = rig.world._ground.surface(*path.pose(30.0, d)[:2], path.pose(30.0)[2])
    assert surfaces[0.0] == DrivingSurface.LANE
    assert surfaces[4.0] == DrivingSurface.ONCOMING
    assert surfaces[-2.2] == DrivingSurface.SHOULDER
    assert surfaces[-30.0] == DrivingSurface.OFF


def test_crossing_the_middle_line_is_reported_with_its_marking(rig: Rig) -> None:
    rig.play(EGO)
    rig.ticks(25, GO)
    crossed = [mark for truth in rig.ticks(30, Control(-0.25, 0.4)) for mark in truth.crossed]
    assert crossed
    assert set(crossed) <= set(carla.LaneMarkingType.names)


def test_a_change_of_town_and_back_gives_the_same_start(rig: Rig, data_dir: Path) -> None:
    first = rig.play(EGO)
    own = rig.route
    try:
        rig.route = straight_route("Town10HD", data_dir / "opendrive", 50.0)
        other = rig.play(EGO)
        assert rig.server.state.town == "Town10HD"
        assert rig.ticks(5, GO)[-1].ego.speed > 0.3
        assert (first.ego.x, first.ego.y) != (other.ego.x, other.ego.y)
    finally:
        rig.route = own
    assert rig.play(EGO) == first
    assert rig.server.state.town == "Town01"


# -- pictures ----------------------------------------------------------------------------------------------------------
def test_an_image_is_rgb_and_of_the_requested_tick(rig: Rig) -> None:
    red = f"new Car at stage.spot(9), facing stage.heading(9), {FREE}, with color (1, 0, 0)\n"
    camera = Camera("front", 64, 36, 70.0, 0.8, 0.0, 1.6)
    rig.play(EGO + red, cameras=(camera,))
    for _ in range(3):
        seen = rig.world.step(GO)
        image = seen.images("front")
        assert rig.simulation.actors.cameras["front"]._image.frame == rig.simulation.current_frame
    assert image.shape == (36, 64, 3)
    assert image.dtype == np.uint8
    assert image[20, 32].tolist() == [255, 0, 0]
    assert image[2, 2].tolist() == [130, 180, 220]  # the fake's sky
    with pytest.raises(Ad2Error, match="no camera 'back'"):
        seen.images("back")


# -- the end -----------------------------------------------------------------------------------------------------------
def test_all_actors_are_removed_even_if_a_sensor_is_gone_already(rig: Rig) -> None:
    rig.play(f"{EGO}new Pedestrian at stage.spot(30, -6), {FREE}\n", traffic=True)
    assert len(rig.server.state.actors) > 4
    rig.simulation.actors.event_sensors.actors[0].destroy()
    rig.clear()
    assert not rig.server.state.actors


def test_an_error_during_the_setup_leaves_no_actors(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    from closedloop_plugin.carla.world import simulation

    def broken(*_: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(simulation, "CarlaCamera", broken)
    with pytest.raises(Exception, match="out of memory"):
        rig.play(EGO, cameras=(Camera("front", 64, 36, 70.0, 0.8, 0.0, 1.6),))
    assert not rig.server.state.actors


def test_the_same_seed_gives_the_same_episode(rig: Rig) -> None:
    def episode() -> list[Any]:
        rig.play(EGO, seed=3, traffic=True)
        return rig.ticks(30, GO) + rig.ticks(10, FULL_BRAKE)

    assert episode() == episode()


def test_the_weather_of_a_setup_does_not_affect_the_next_episode(rig: Rig) -> None:
    rig.play(EGO, weather=STORM)
    rig.play(EGO)
    assert rig.stage.weather.precipitation == rig.route.weather.precipitation
    assert rig.world.weather == rig.route.weather
