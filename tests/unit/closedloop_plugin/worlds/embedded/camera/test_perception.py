"""Conditions of the pictures: what they change, what they leave, and that they are reproducible."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.perception import PerceptionConditions
from closedloop_plugin.core.routes import Weather
from closedloop_plugin.core.state import Actor, ActorKind, SignalState
from closedloop_plugin.worlds.embedded.camera.layers import street
from closedloop_plugin.worlds.embedded.camera.layers.effects import draw_drops, worn
from closedloop_plugin.worlds.embedded.camera.layers.ground import paint_of
from closedloop_plugin.worlds.embedded.camera.layers.vehicles import lit_lamps
from closedloop_plugin.worlds.embedded.camera.render import CameraRenderer, SceneView
from closedloop_plugin.worlds.embedded.camera.scenery import (
    GroundArea,
    RoadMarking,
    StaticScenery,
    TrafficControlDevice,
)

FRONT = Camera("front", 320, 180, 70.0, forward=0.0, right=0.0, up=1.6)
NOON = Weather(cloudiness=0.0, fog_density=0.0, sun_altitude_angle=60.0)
LOW = replace(NOON, sun_altitude_angle=12.0, sun_azimuth_angle=0.0)  # straight ahead of a camera that looks east
NIGHT = replace(NOON, sun_altitude_angle=-40.0)
ROAD = GroundArea("asphalt", (np.array([[-40.0, -6.0], [200.0, -6.0], [200.0, 6.0], [-40.0, 6.0]]),))
STREET = StaticScenery(
    areas=(ROAD,),
    markings=(RoadMarking(np.array([[-40.0, 0.0], [200.0, 0.0]]), width=0.3),),
    crosswalks=np.array([[24.0, 0.0, 0.0, 7.0, 2.6]]),
    signs=(
        TrafficControlDevice("signal", "line", 20.0, -4.5, 0.0, 3.0),
        TrafficControlDevice("stop", "s", 14.0, 4.5, 0.0, 2.2),
    ),
)
CONDITIONS = (
    PerceptionConditions(worn_markings=60.0),
    PerceptionConditions(sun_glare=80.0),
    PerceptionConditions(lens_drops=30.0),
    PerceptionConditions(hidden_signs=60.0),
)


def car(x: float = 12.0, y: float = 0.0, **more: object) -> Actor:
    return Actor(id="car", kind=ActorKind.CAR, x=x, y=y, yaw=0.0, speed=0.0, length=4.5, width=1.9, height=1.5, **more)  # type: ignore[arg-type]


def picture(
    condition: PerceptionConditions = PerceptionConditions(),
    weather: Weather = LOW,
    seed: int = 3,
    scenery: StaticScenery = STREET,
    **view: object,
) -> np.ndarray:
    renderer = CameraRenderer(scenery, condition, seed)
    return renderer.render(FRONT, SceneView(0.0, 0.0, 0.0, weather=weather, **view))  # type: ignore[arg-type]


def pixel(x: float, y: float, z: float) -> tuple[int, int]:
    """Row and column of a point of the map."""
    focal = FRONT.width / 2 / math.tan(math.radians(FRONT.fov) / 2)
    return round(FRONT.height / 2 + focal * (FRONT.up - z) / x), round(FRONT.width / 2 - focal * y / x)


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda c: c.present[0])
def test_a_condition_changes_the_picture_reproducibly(condition: PerceptionConditions) -> None:
    once, again = picture(condition), picture(condition)
    assert np.array_equal(once, again)
    assert not np.array_equal(once, picture())
    if condition.present[0] in ("worn_markings", "lens_drops"):
        assert not np.array_equal(once, picture(condition, seed=4))


def test_without_conditions_the_seed_does_not_matter() -> None:
    plain = CameraRenderer(STREET).render(FRONT, SceneView(0.0, 0.0, 0.0, weather=LOW))
    assert np.array_equal(plain, picture(seed=3)) and np.array_equal(plain, picture(seed=4))


@pytest.mark.parametrize("percent", [0.0, 30.0, 70.0, 100.0])
def test_the_share_of_paint_that_is_gone(percent: float) -> None:
    def length(groups: tuple) -> float:
        return sum(float(np.hypot(*(g.strokes[:, 2:4] - g.strokes[:, :2]).T).sum()) for g in groups)

    paint = paint_of(STREET)
    left = length(worn(paint, percent, 1)) / length(paint)
    assert left == pytest.approx(1 - percent / 100, abs=0.02)


def test_worn_markings_are_darker_and_the_road_stays() -> None:
    plain, old = picture(weather=NOON), picture(PerceptionConditions(worn_markings=90.0), NOON)
    columns = slice(pixel(6.0, 0.1, 0.0)[1], pixel(6.0, -0.1, 0.0)[1] + 1)
    rows = slice(120, 178)  # the line from 3 to 12 m
    assert old[rows, columns].mean() < plain[rows, columns].mean() - 30
    assert np.array_equal(plain[:88], old[:88])


def test_glare_dazzles_around_the_sun_and_not_behind_a_truck() -> None:
    glare = PerceptionConditions(sun_glare=100.0)
    plain, dazzled = picture(), picture(glare)
    v, u = 90 - round(FRONT.width / 2 / math.tan(math.radians(35)) * math.tan(math.radians(12))), 160
    assert dazzled[v, u].min() > 220
    assert (dazzled.astype(int) - plain)[150, 160].mean() > 15  # a veil on the road
    assert (dazzled.astype(int) >= plain.astype(int) - 1)[plain < 220].all()
    truck = replace(car(9.0), kind=ActorKind.TRUCK, length=8.0, width=2.6, height=4.2)
    assert np.array_equal(picture(glare, actors=(truck,)), picture(actors=(truck,)))
    assert np.array_equal(picture(glare, NIGHT), picture(weather=NIGHT))
    behind = replace(LOW, sun_azimuth_angle=180.0)
    assert np.array_equal(picture(glare, behind), picture(weather=behind))


@pytest.mark.parametrize("percent", [10.0, 40.0])
def test_drops_cover_their_share(percent: float) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (180, 320, 3), np.uint8)
    image = noise.copy()
    draw_drops(image, percent, 1, "front")
    changed = (image != noise).any(axis=-1).mean() * 100
    assert percent - 1 < changed < percent + 14  # with soft edges
    other = noise.copy()
    draw_drops(other, percent, 1, "left")
    assert not np.array_equal(image, other)


@pytest.mark.parametrize("percent", [30.0, 60.0])
def test_leaves_hide_their_share_of_a_plate(percent: float) -> None:
    grid = np.stack(np.meshgrid(np.linspace(-0.45, 0.45, 90), np.linspace(-0.45, 0.45, 90)), axis=-1)
    tufts = street._tufts(0.45, 0.45, percent, 5)
    hidden = np.zeros(grid.shape[:2], bool)
    for right, up, _ in tufts:
        hidden |= np.hypot(grid[..., 0] - right, grid[..., 1] - up) < street.LEAF_M
    assert hidden.mean() * 100 == pytest.approx(percent, abs=5)


def test_leaves_hang_before_the_sign_only_for_its_traffic() -> None:
    state = {"line": SignalState.RED}
    leaves = PerceptionConditions(hidden_signs=80.0)
    row, column = pixel(14.0, 4.5, 2.2)
    plain, hidden = picture(weather=NOON, signals=state), picture(leaves, NOON, signals=state)
    red = (plain[row - 4 : row + 5, column - 4 : column + 5] - hidden[row - 4 : row + 5, column - 4 : column + 5]) != 0
    assert red.mean() > 0.4
    back = replace(FRONT, yaw=180.0)
    view = SceneView(40.0, 0.0, 0.0, weather=NOON)
    assert np.array_equal(CameraRenderer(STREET).render(back, view), CameraRenderer(STREET, leaves).render(back, view))


@pytest.mark.parametrize("kind", ["no_entry", "speed_90"])
def test_contradictory_plates_are_drawn(kind: str) -> None:
    signs = (TrafficControlDevice(kind, "", 10.0, -3.0, 0.0, 2.2),)
    row, column = pixel(10.0, -3.0, 2.2 + 0.37)
    seen = picture(weather=NOON, scenery=replace(STREET, signs=signs))[row, column].astype(int)
    assert seen[0] > seen[1] + 60  # the red ring or disc


# -- parked cars at night ----------------------------------------------------------------------------------------------


def test_parked_cars_are_dark_at_night_unless_a_lamp_is_on() -> None:
    assert lit_lamps(car(), 0.0, dark=True) == {"headlights", "tail"}
    assert lit_lamps(car(parked=True), 0.0, dark=True) == set()
    assert lit_lamps(car(parked=True, lamps=frozenset({"hazard"})), 0.0, dark=True) == {"left", "right"}
    assert lit_lamps(car(parked=True, lamps=frozenset({"headlights"})), 0.0, dark=True) == {"headlights", "tail"}
    lit, dark = picture(weather=NIGHT, actors=(car(),)), picture(weather=NIGHT, actors=(car(parked=True),))
    assert lit[60:140].astype(int).sum() > dark[60:140].astype(int).sum() + 1000
