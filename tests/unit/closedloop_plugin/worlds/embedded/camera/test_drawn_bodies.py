"""Measured pictures: pixels of each body, hidden shares, darkness, lights of signals; drawing order of boxes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.routes import Weather
from closedloop_plugin.core.state import Actor, ActorKind, SignalState
from closedloop_plugin.core.visibility import FAR_HEAD, VisibleExtent
from closedloop_plugin.worlds.embedded.camera.canvas import DrawnBodies
from closedloop_plugin.worlds.embedded.camera.render import CameraRenderer, SceneView, back_to_front
from closedloop_plugin.worlds.embedded.camera.scenery import GroundArea, StaticScenery, TrafficControlDevice

FRONT = Camera("front", 160, 90, 70.0, forward=0.0, right=0.0, up=1.6)
NOON = Weather(cloudiness=0.0, fog_density=0.0, sun_altitude_angle=60.0)
ROAD = GroundArea("asphalt", (np.array([[-40.0, -6.0], [200.0, -6.0], [200.0, 6.0], [-40.0, 6.0]]),))
SIGNALS = (
    TrafficControlDevice("signal", "a", 15.0, -4.5, 0.0, 3.0),
    TrafficControlDevice("signal", "a", 35.0, 4.5, 0.0, 3.0),
    TrafficControlDevice("signal", "across", 20.0, -6.0, math.pi, 3.0),
)


def _renderer(**parts: object) -> CameraRenderer:
    return CameraRenderer(StaticScenery(areas=(ROAD,), **parts))  # type: ignore[arg-type]


def _body(name: str, kind: ActorKind, x: float, size: tuple[float, float, float], y: float = 0.0) -> Actor:
    length, width, height = size
    return Actor(id=name, kind=kind, x=x, y=y, yaw=0.0, speed=0.0, length=length, width=width, height=height)


PERSON = _body("person", ActorKind.PEDESTRIAN, 20.0, (0.5, 0.6, 1.75))
TRUCK = _body("truck", ActorKind.TRUCK, 10.0, (7.0, 2.5, 3.2))


def _measured(renderer: CameraRenderer, *actors: Actor, weather: Weather = NOON) -> dict[str, VisibleExtent]:
    view = SceneView(x=0.0, y=0.0, yaw=0.0, actors=actors, signals={"a": SignalState.RED}, weather=weather)
    picture, extents = renderer.render_measured(FRONT, view)
    assert np.array_equal(picture, renderer.render(FRONT, view))  # measuring changes no pixel
    return dict(extents)


def test_a_free_person_is_shown_at_the_projected_place() -> None:
    found = _measured(_renderer(), PERSON)["person"]
    assert found.shown and found.share == 1.0 and found.box is not None
    # focal = 80 / tan 35 deg = 114.25 px; at 20 m a person of 1.75 x 0.6 m is 10 px tall and 3.4 px wide, with its feet
    # at 45 + 114.25 * 1.6 / 20 = 54.1 px.
    x0, y0, x1, y1 = found.box
    assert abs((x0 + x1) / 2 - 80) <= 1.5 and abs(y1 - 54.1) <= 1.5 and abs((y1 - y0) - 10.0) <= 2


def test_a_person_behind_a_truck_is_not_shown() -> None:
    found = _measured(_renderer(), TRUCK, PERSON)
    assert found["truck"].shown and found["truck"].share == 1.0
    assert found["person"].share < 0.1 and not found["person"].shown


def test_half_a_person_beside_a_truck_is_shown_in_part() -> None:
    beside = replace(PERSON, y=-3.85)  # on the ray past the truck's right rear edge: -1.25 m at 6.5 m
    found = _measured(_renderer(), TRUCK, beside)["person"]
    assert 0.0 < found.share < 1.0


@pytest.mark.parametrize(
    "weather", [replace(NOON, sun_altitude_angle=-90.0), replace(NOON, fog_density=100.0)], ids=["night", "fog"]
)
def test_what_darkness_or_fog_hides_is_not_shown(weather: Weather) -> None:
    far = replace(PERSON, x=55.0, y=5.0)
    found = _measured(_renderer(), far, weather=weather).get("person", VisibleExtent())
    assert not found.shown


def test_the_light_of_a_signal_is_measured_for_its_traffic_only() -> None:
    found = _measured(_renderer(signs=SIGNALS))
    assert found["a"].state_pixels > 0 and found["a" + FAR_HEAD].state_pixels > 0
    assert found["a"].pixels > found["a" + FAR_HEAD].pixels  # the nearer head is larger
    assert found["across"].state_pixels == 0


def test_two_drawings_of_a_body_are_joined_and_later_ones_hide_it() -> None:
    image = np.zeros((4, 6, 3), np.uint8)
    bodies = DrawnBodies(image)
    image[0:2, 0:2] = 200
    bodies.drawn("a", image)
    image[3, 3] = 5  # too faint to be seen
    bodies.drawn("faint", image)
    image[2, 0] = 200
    bodies.drawn("a", image)
    image[0:2, 1:3] = 90
    bodies.drawn(None, image)
    found = bodies.extents()
    assert found == {"a": VisibleExtent((0, 0, 1, 3), 3, 3 / 5)}


def _boxes(*rows: tuple[float, float, float, float, float]) -> np.ndarray:
    return np.array(rows, dtype=float)


def test_farther_boxes_are_drawn_first() -> None:
    boxes = _boxes((10, 0, 0, 4, 2), (30, 0, 0, 4, 2), (20, 0, 0, 4, 2))
    assert back_to_front(boxes, np.ones(3, bool), (0.0, 0.0)) == [1, 2, 0]


def test_a_person_beside_the_far_end_of_a_truck_is_drawn_over_it() -> None:
    """Truck from 6 to 18 m ahead, 3 to 5.5 m to the right; the person stands at 17 m, in front of its side."""
    boxes = _boxes((12, -4.25, 0, 12, 2.5), (17, -2.6, 0, 0.5, 0.5))
    assert back_to_front(boxes, np.ones(2, bool), (0.0, 0.0)) == [0, 1]
    hidden = _boxes((12, -4.25, 0, 12, 2.5), (22, -5.0, 0, 0.5, 0.5))
    assert back_to_front(hidden, np.ones(2, bool), (0.0, 0.0)) == [1, 0]


def test_bodies_at_the_same_place_have_an_order() -> None:
    same = _boxes(*[(0, 0, 0.3, 4, 2)] * 4)
    assert sorted(back_to_front(same, np.ones(4, bool), (0.0, 0.0))) == [0, 1, 2, 3]
