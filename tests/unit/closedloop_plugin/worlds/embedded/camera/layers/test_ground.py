"""Rows and homography of the ground agree with the projection."""

from __future__ import annotations

import numpy as np
import pytest

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.worlds.embedded.camera.layers.ground import _plane, ground_depth
from closedloop_plugin.worlds.embedded.camera.lens import lens_of

# fov 90: the focal length is half the width, 400 pixels.
FRONT = Camera("front", 800, 450, 90.0, forward=1.0, right=0.0, up=1.5)


def test_ground_rows_and_ground_homography_agree_with_projection() -> None:
    lens = lens_of(FRONT, 5.0, 7.0, 0.7)
    top = 225
    assert ground_depth(lens)[60] == pytest.approx(400 * 1.5 / 60.5)
    x, y, w = _plane(lens, top) @ np.array([100.0, 60.0, 1.0])
    uv, _ = lens.project(np.array([[x / w, y / w, 0.0]]))
    assert uv[0] == pytest.approx([100.5, 285.5])
