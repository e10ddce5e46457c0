"""Contents of camera frames: occlusion, lamps, signals, weather, reproducibility, robustness."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.routes import Weather
from closedloop_plugin.core.state import Actor, ActorKind, SignalState
from closedloop_plugin.worlds.embedded.camera.render import CameraRenderer, SceneView
from closedloop_plugin.worlds.embedded.camera.scenery import (
    GroundArea,
    RoadMarking,
    StaticScenery,
    TrafficControlDevice,
)

FRONT = Camera("front", 400, 226, 70.0, forward=0.0, right=0.0, up=1.6)
NOON = Weather(cloudiness=0.0, fog_density=0.0, sun_altitude_angle=60.0)
NIGHT = replace(NOON, sun_altitude_angle=-40.0)
LINE = "line"


def _strip(y0: float, y1: float, surface: str) -> GroundArea:
    return GroundArea(surface, (np.array([[-40.0, y0], [200.0, y0], [200.0, y1], [-40.0, y1]]),))


def _street() -> StaticScenery:
    """A straight road to the east, two lanes, sidewalks, a house and a tree, a signal 20 m ahead."""
    return StaticScenery(
        areas=(_strip(3.5, 6.5, "sidewalk"), _strip(-6.5, -3.5, "sidewalk"), _strip(-3.5, 3.5, "asphalt")),
        markings=(
            RoadMarking(np.array([[-40.0, 0.0], [200.0, 0.0]]), "yellow", "dashed"),
            RoadMarking(np.array([[-40.0, -3.4], [200.0, -3.4]])),
            RoadMarking(np.array([[-40.0, 3.4], [200.0, 3.4]]), "white", "double"),
        ),
        kerbs=np.array([[200.0, -3.5, 100.0, -3.5], [-40.0, 3.5, 60.0, 3.5]]),
        crosswalks=np.array([[24.0, 0.0, 0.0, 7.0, 2.6]]),
        stop_lines=np.array([[20.0, -1.75, 0.0, 3.5]]),
        words=np.array([[14.0, -1.75, 0.0]]),
        teeth=np.array([[30.0, 1.75, math.pi, 3.5]]),
        buildings=np.array([[40.0, -20.0, math.pi / 2, 12.0, 16.0, 10.0, 180.0, 120.0, 90.0]]),
        trees=np.array([[15.0, 9.0, 6.0, 1.8]]),
        lamps=np.array([[25.0, 8.0, -math.pi / 2]]),
        signs=(
            TrafficControlDevice("signal", LINE, 20.0, -4.5, 0.0, 3.0),
            TrafficControlDevice("stop", "s", 30.0, -4.5, 0.0, 2.2),
            TrafficControlDevice("yield", "y", 35.0, -4.5, 0.0, 2.2),
        ),
    )


@pytest.fixture(scope="module")
def street() -> CameraRenderer:
    return CameraRenderer(_street())


@pytest.fixture(scope="module")
def empty() -> CameraRenderer:
    return CameraRenderer(StaticScenery(areas=(_strip(-30.0, 30.0, "asphalt"),)))


def _car(x: float, y: float = 0.0, name: str = "car", **more: object) -> Actor:
    given_: dict = {
        "colour": (20, 40, 220),
        "length": 4.5,
        "width": 1.9,
        "height": 1.5,
        "kind": ActorKind.CAR,
        "yaw": 0.0,
    }
    return Actor(id=name, x=x, y=y, speed=0.0, **{**given_, **more})  # type: ignore[arg-type]


def _view(*actors: Actor, weather: Weather = NOON, **more: object) -> SceneView:
    return SceneView(0.0, 0.0, 0.0, tuple(actors), weather=weather, **more)  # type: ignore[arg-type]


def _focal(camera: Camera) -> float:
    return camera.width / 2 / math.tan(math.radians(camera.fov) / 2)


def _pixel(image: np.ndarray, camera: Camera, x: float, y: float, z: float) -> np.ndarray:
    """RGB at the projection of (x, y, z), for an ego at the origin heading east, without the renderer's code."""
    u = camera.width / 2 - _focal(camera) * y / x
    v = camera.height / 2 + _focal(camera) * (camera.up - z) / x
    return image[int(v), int(u)].astype(int)


def test_frames_have_the_requested_size_and_type(street: CameraRenderer) -> None:
    for size, fov in (((800, 450), 70.0), ((1600, 900), 110.0), ((33, 21), 90.0), ((1, 1), 60.0), ((64, 3), 110.0)):
        image = street.render(replace(FRONT, width=size[0], height=size[1], fov=fov), _view(_car(12.0)))
        assert image.shape == (size[1], size[0], 3)
        assert image.dtype == np.uint8


def test_white_line_and_stop_line_are_drawn_at_their_positions(street: CameraRenderer) -> None:
    image = street.render(FRONT, _view())
    paint, road = _pixel(image, FRONT, 12.0, -3.4, 0.0), _pixel(image, FRONT, 12.0, -2.9, 0.0)
    assert paint.min() > road.max() + 50
    assert _pixel(image, FRONT, 20.0, -1.75, 0.0).min() > road.max() + 40


def test_a_nearer_car_hides_a_farther_one(empty: CameraRenderer) -> None:
    red, blue = _car(10.0, name="r", colour=(220, 20, 20)), _car(20.0, name="b")
    for order in ((red, blue), (blue, red)):
        seen = _pixel(empty.render(FRONT, _view(*order)), FRONT, 7.76, 0.0, 0.75)
        assert seen[0] > 1.5 * seen[2]


def test_a_person_in_front_of_the_far_end_of_a_truck_is_visible(empty: CameraRenderer) -> None:
    truck = _car(12.0, -4.25, "t", kind=ActorKind.TRUCK, length=12.0, width=2.5, height=3.5)
    walker = _car(17.0, -2.6, "w", kind=ActorKind.PEDESTRIAN, length=0.5, width=0.5, height=1.8, colour=(250, 0, 250))
    with_truck = _pixel(empty.render(FRONT, _view(truck, walker)), FRONT, 17.0, -2.6, 1.2)
    assert with_truck[0] > 120 and with_truck[1] < 60


def test_brake_lamps_are_redder(empty: CameraRenderer) -> None:
    off, on = (
        _pixel(empty.render(FRONT, _view(_car(12.0, lamps=lamps))), FRONT, 9.75, 0.58, 0.76)
        for lamps in (frozenset(), frozenset({"brake"}))
    )
    assert on[0] > off[0] + 60
    assert on[0] > 3 * max(on[1], on[2])


def test_indicators_blink_at_one_and_a_half_hertz(empty: CameraRenderer) -> None:
    car = _car(12.0, lamps=frozenset({"left"}))
    shots = [empty.render(FRONT, _view(car, time_s=t)) for t in (0.0, 0.2, 0.4, 0.7)]
    amber = [int((shot[..., 0].astype(int) - shot[..., 2] > 150).sum()) for shot in shots]
    assert amber[0] == amber[1] == amber[3] > amber[2]
    right = empty.render(FRONT, _view(replace(car, lamps=frozenset({"right"}))))
    change = np.abs(shots[0].astype(int) - right).sum(axis=(0, 2))
    assert change[:200].sum() > 0 and change[200:].sum() > 0


@pytest.mark.parametrize(
    ("state", "z", "strong", "weak"),
    [(SignalState.RED, 3.36, 0, 1), (SignalState.GREEN, 2.64, 1, 0), (SignalState.YELLOW, 3.0, 0, 2)],
)
def test_the_lamp_of_the_signal_state_is_lit(
    street: CameraRenderer, state: SignalState, z: float, strong: int, weak: int
) -> None:
    image = street.render(FRONT, _view(signals={LINE: state}))
    lamp = _pixel(image, FRONT, 19.84, -4.5, z)
    assert lamp[strong] > 180 and lamp[weak] < 0.5 * lamp[strong]
    dark = _pixel(street.render(FRONT, _view()), FRONT, 19.84, -4.5, z)
    assert dark.max() < 80


def test_stop_sign_is_red(street: CameraRenderer) -> None:
    image = street.render(FRONT, _view())
    edge = _pixel(image, FRONT, 29.9, -4.5, 2.5)
    assert edge[0] > 2 * edge[1] and edge[0] > 2 * edge[2]


def test_fog_reduces_contrast_with_distance(empty: CameraRenderer) -> None:
    def contrast(distance: float, fog: float) -> float:
        image = empty.render(FRONT, _view(_car(distance), weather=replace(NOON, fog_density=fog)))
        rear = distance - 2.25
        return float(np.ptp(_pixel(image, FRONT, rear, 0.0, 0.75)))

    assert contrast(10, 0) > contrast(10, 60) > contrast(30, 60) > contrast(60, 60)
    assert contrast(10, 100) < 0.7 * contrast(10, 0)


def test_night_is_darker_and_headlights_light_the_road(street: CameraRenderer) -> None:
    day, night = street.render(FRONT, _view()), street.render(FRONT, _view(weather=NIGHT))
    assert night.mean() < 0.5 * day.mean()
    side = street.render(replace(FRONT, yaw=180.0), _view(weather=NIGHT))
    row = int(226 / 2 + _focal(FRONT) * 1.6 / 8)
    assert night[row, 180:220].mean() > side[row, 180:220].mean() + 10


def test_wet_road_is_darker_and_rain_is_visible(street: CameraRenderer) -> None:
    dry = street.render(FRONT, _view())
    wet = street.render(FRONT, _view(weather=replace(NOON, wetness=100.0)))
    assert wet[200:, 150:250].mean() < dry[200:, 150:250].mean() - 8
    rain = replace(NOON, precipitation=80.0)
    a, b = (street.render(FRONT, _view(weather=rain, time_s=t)) for t in (1.0, 1.05))
    assert (a != b).any(axis=2).mean() > 0.005


def test_frames_do_not_depend_on_earlier_frames() -> None:
    views = [
        _view(_car(12.0, lamps=frozenset({"hazard"})), signals={LINE: SignalState.RED}, time_s=0.35),
        _view(_car(9.0, kind=ActorKind.BICYCLE), weather=NIGHT, time_s=2.0),
        _view(weather=replace(NOON, precipitation=60.0, fog_density=30.0), time_s=7.25),
    ]
    first, second = CameraRenderer(_street()), CameraRenderer(_street())
    forward = [first.render(FRONT, v).tobytes() for v in views]
    backward = [second.render(replace(FRONT, yaw=y), v).tobytes() for v in views[::-1] for y in (90.0, 0.0)][1::2]
    assert forward == backward[::-1]
    assert forward == [first.render(FRONT, v).tobytes() for v in views]


@pytest.mark.parametrize("kind", list(ActorKind))
def test_every_kind_of_actor_is_visible(empty: CameraRenderer, kind: ActorKind) -> None:
    bare = empty.render(FRONT, _view())
    actor = _car(10.0, kind=kind, length=1.8, width=0.8, height=1.6, lamps=frozenset({"siren", "brake"}))
    turned = [empty.render(FRONT, _view(replace(actor, yaw=yaw))) for yaw in (0.0, 1.57, 3.14)]
    assert all((shot != bare).any(axis=2).sum() > 150 for shot in turned)


@pytest.mark.parametrize("side", ["left", "right"])
def test_an_open_door_is_visible_at_its_side(empty: CameraRenderer, side: str) -> None:
    closed, opened = (empty.render(FRONT, _view(_car(12.0, doors=frozenset(d)))) for d in ((), (side,)))
    columns = np.flatnonzero((closed != opened).any(axis=(0, 2)))
    edge = 200 - (1 if side == "left" else -1) * _focal(FRONT) * 1.2 / 12.9
    assert columns.min() <= edge <= columns.max()


@settings(max_examples=examples(60), deadline=None)
@given(
    kind=st.sampled_from(list(ActorKind)),
    x=st.floats(-8, 8),
    y=st.floats(-8, 8),
    yaw=st.floats(-7, 7),
    size=st.tuples(st.floats(0.05, 20), st.floats(0.05, 4), st.floats(0.05, 5)),
    fov=st.floats(20, 110),
    turn=st.sampled_from([0.0, 55.0, -110.0, 180.0]),
    altitude=st.floats(-90, 90),
    wet=st.floats(0, 100),
)
def test_any_actor_near_the_camera_can_be_rendered(
    street: CameraRenderer,
    kind: ActorKind,
    x: float,
    y: float,
    yaw: float,
    size: tuple[float, float, float],
    fov: float,
    turn: float,
    altitude: float,
    wet: float,
) -> None:
    lamps = frozenset({"brake", "hazard", "siren", "headlights", "reverse"})
    actor = _car(
        x, y, kind=kind, yaw=yaw, length=size[0], width=size[1], height=size[2], lamps=lamps, doors=frozenset({"left"})
    )
    weather = Weather(sun_altitude_angle=altitude, wetness=wet, precipitation=wet, fog_density=100 - wet)
    camera = replace(FRONT, width=96, height=54, fov=fov, yaw=turn)
    image = street.render(camera, _view(actor, replace(actor, id="b", x=0.0, y=0.0), weather=weather))
    assert image.shape == (54, 96, 3)


def test_an_empty_world_has_sky_and_ground() -> None:
    image = CameraRenderer(StaticScenery()).render(FRONT, _view())
    assert image[0].mean(axis=0)[2] > image[0].mean(axis=0)[0]  # blue above
    assert np.ptp(image[-1].mean(axis=0)) < 80
