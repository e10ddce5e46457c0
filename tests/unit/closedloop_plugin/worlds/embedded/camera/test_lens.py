"""Projection and clipping, rows of the ground, and light, with expected values computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.routes import Weather
from closedloop_plugin.worlds.embedded.camera.layers.ground import _plane, ground_depth
from closedloop_plugin.worlds.embedded.camera.lens import clip_near, lens_of
from closedloop_plugin.worlds.embedded.camera.lighting import light_of

# fov 90: the focal length is half the width, 400 pixels.
FRONT = Camera("front", 800, 450, 90.0, forward=1.0, right=0.0, up=1.5)


def test_a_point_is_projected_to_the_hand_computed_pixel() -> None:
    """10 m ahead of the camera, 2.5 m to the right, on the ground: u = 400 + 400*2.5/10, v = 225 + 400*1.5/10."""
    lens = lens_of(FRONT, 5.0, 7.0, 0.0)
    uv, depth = lens.project(np.array([[16.0, 4.5, 0.0]]))
    assert uv[0] == pytest.approx([500.0, 285.0])
    assert depth[0] == pytest.approx(10.0)
    assert lens.project_point(16.0, 4.5, 0.0) == pytest.approx((500.0, 285.0, 10.0))


def test_camera_yaw_is_clockwise_and_its_offset_is_to_the_right() -> None:
    """The ego faces north, its camera is turned 90 degrees clockwise and faces east."""
    side = Camera("right", 800, 450, 90.0, forward=0.0, right=0.5, up=1.5, yaw=90.0)
    lens = lens_of(side, 0.0, 0.0, math.pi / 2)
    assert (lens.x, lens.y) == pytest.approx((0.5, 0.0))
    assert lens.ahead == pytest.approx((1.0, 0.0))
    assert lens.right == pytest.approx((0.0, -1.0))


def test_clip_keeps_what_is_ahead() -> None:
    square = np.array([[-1.0, 0.0], [3.0, 0.0], [3.0, 2.0], [-1.0, 2.0]])
    cut, z = clip_near(square, np.array([0.0, 4.0, 4.0, 0.0]), 1.0)
    assert sorted(map(tuple, cut.tolist())) == [(1.0, 0.0), (1.0, 2.0), (3.0, 0.0), (3.0, 2.0)]
    assert sorted(z.tolist()) == pytest.approx([2.0, 2.0, 4.0, 4.0])
    assert len(clip_near(square, np.zeros(4), 5.0)[0]) == 0


# fov 90: the focal length is half the width, 400 pixels.
FRONT = Camera("front", 800, 450, 90.0, forward=1.0, right=0.0, up=1.5)


def test_ground_rows_and_ground_homography_agree_with_projection() -> None:
    lens = lens_of(FRONT, 5.0, 7.0, 0.7)
    top = 225
    assert ground_depth(lens.height, lens.focal, lens.up)[60] == pytest.approx(400 * 1.5 / 60.5)
    x, y, w = _plane(lens, top) @ np.array([100.0, 60.0, 1.0])
    uv, _ = lens.project(np.array([[x / w, y / w, 0.0]]))
    assert uv[0] == pytest.approx([100.5, 285.5])


@pytest.mark.parametrize(("altitude", "day"), [(-10.0, 0.0), (3.0, 0.5), (45.0, 1.0)])
def test_daylight_depends_on_the_altitude_of_the_sun(altitude: float, day: float) -> None:
    """3 degrees is half way from -6 to 12."""
    assert light_of(Weather(sun_altitude_angle=altitude)).day == pytest.approx(day)


def test_visibility_decreases_exponentially_with_fog() -> None:
    clear, thick = light_of(Weather(fog_density=0.0)), light_of(Weather(fog_density=100.0))
    assert float(clear.clear(100.0)) == pytest.approx(math.exp(-0.11))
    assert float(thick.clear(50.0)) == pytest.approx(math.exp(-0.0611 * 50))
    assert thick.far < 100.0 < clear.far
