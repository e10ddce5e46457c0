"""The simulated camera against projections computed by hand."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from PIL import Image

from closedloop_plugin.robots.sandbox.camera import LINE, PER_M, ROOM, FloorCamera, FloorCameraMount, floor_picture
from closedloop_plugin.robots.sandbox.scene import VIEWS, SandboxScene
from closedloop_plugin.robots.sandbox.track import sandbox
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES

TRACK = sandbox()
LEVEL = FloorCameraMount(ahead=0.1, up=0.18, fov=68.0)
TILTED = FloorCameraMount(ahead=0.05, up=0.15, fov=90.0, pitch=20.0)


def pixel(
    view: FloorCameraMount, pose: tuple[float, float, float], x: float, y: float, z: float = 0.0
) -> tuple[float, float]:
    """Column and row of a point, computed with angles instead of matrices."""
    px, py, yaw = pose
    dx, dy = x - px - view.ahead * math.cos(yaw), y - py - view.ahead * math.sin(yaw)
    forward, left = dx * math.cos(yaw) + dy * math.sin(yaw), -dx * math.sin(yaw) + dy * math.cos(yaw)
    down, pitch = view.up - z, math.radians(view.pitch)
    depth = forward * math.cos(pitch) + down * math.sin(pitch)
    drop = down * math.cos(pitch) - forward * math.sin(pitch)
    return view.width / 2 - view.focal * left / depth, view.height / 2 + view.focal * drop / depth


def is_line(colour: np.ndarray) -> bool:
    return bool(np.abs(colour.astype(int) - LINE).max() < 45)


@pytest.mark.parametrize("view", [LEVEL, TILTED], ids=["level", "tilted"])
@pytest.mark.parametrize("name", ["route1", "route3", "route8"])
def test_the_yellow_lines_are_where_a_pinhole_projects_them(view: FloorCameraMount, name: str) -> None:
    pose = TRACK.segment(name).start
    picture = FloorCamera(TRACK, view).picture(*pose)
    s, _ = TRACK.lap.locate(*pose[:2])
    seen = 0
    for ahead in np.arange(0.3, 0.9, 0.02):
        for side in (-1, 1):
            x, y, _ = TRACK.lap.pose(float(s + ahead), side * TRACK.half_width)
            u, v = pixel(view, pose, x, y)
            if 2 < u < view.width - 2 and 2 < v < view.height - 2:
                assert is_line(picture[int(v), int(u)]), f"{ahead:.2f} m ahead, column {u:.0f}, row {v:.0f}"
                seen += 1
    assert seen > 10


def test_no_floor_is_drawn_above_the_horizon() -> None:
    picture = FloorCamera(TRACK, LEVEL).picture(*TRACK.segments[0].start)
    assert (picture[:100] == ROOM).all()


def test_an_obstacle_is_drawn_at_its_position() -> None:
    box = next(b for b in TRACK.obstacles if b.name == "box")
    pose = TRACK.segment("route7").start
    picture = FloorCamera(TRACK, LEVEL).picture(*pose)
    u, v = pixel(LEVEL, pose, box.x, box.y, box.height / 2)
    red, green, blue = picture[int(v), int(u)].astype(int)
    assert red > 1.8 * green and red > 1.8 * blue
    assert not is_line(picture[int(v), int(u)])


def test_an_obstacle_behind_the_camera_is_not_drawn() -> None:
    x, y, yaw = TRACK.segment("route7").start
    assert any(b.name == "left cone" for b in TRACK.obstacles)
    ahead = FloorCamera(TRACK, LEVEL).picture(x, y - 0.9, yaw).astype(int)
    behind = FloorCamera(TRACK, LEVEL).picture(x, y, yaw).astype(int)

    def orange(p: np.ndarray) -> int:
        return int(((p[..., 0] > 100) & (p[..., 1] < p[..., 0] * 0.55) & (p[..., 2] < p[..., 1] * 0.6)).sum())

    assert orange(ahead) > 1000
    assert orange(behind) == 0


def test_the_picture_changes_only_if_the_camera_moves() -> None:
    camera, (x, y, yaw) = FloorCamera(TRACK, LEVEL), TRACK.segments[0].start
    before = camera.picture(x, y, yaw)
    assert (camera.picture(x, y, yaw) == before).all()
    assert (camera.picture(x, y - 0.02, yaw)[300:] != before[300:]).mean() > 0.3


def test_the_jpeg_shows_the_picture() -> None:
    camera, pose = FloorCamera(TRACK, LEVEL), TRACK.segments[2].start
    data = camera.jpeg(*pose, quality=90)
    read = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
    assert read.shape == (480, 640, 3)
    assert np.abs(read - camera.picture(*pose)).mean() < 4
    assert len(camera.jpeg(*pose, quality=30)) < len(data)


def test_every_platform_sees_yellow_lines_from_every_start() -> None:
    """Otherwise the lane could not be followed. A bend may hide the near part of one line, never all yellow."""
    for name in ("limo-ackermann", "jetbot-waveshare"):
        scene = SandboxScene(VEHICLES[name])
        for segment in TRACK.segments:
            picture = scene.picture(segment.start).astype(int)
            yellow = (picture[..., 0] > 180) & (picture[..., 1] > 130) & (picture[..., 2] < 110)
            assert yellow.sum() > 800, f"{name} at {segment.name}"


def test_every_platform_has_a_camera() -> None:
    assert {v.platform for v in VEHICLES.values()} == set(VIEWS)


def test_the_floor_from_above_has_its_first_row_at_the_top() -> None:
    picture = floor_picture(TRACK)
    assert picture.shape == (3 * PER_M, 4 * PER_M, 3)
    x, y, _ = TRACK.lap.pose(0.5, TRACK.half_width)
    assert is_line(picture[round((3.0 - y) * PER_M), round(x * PER_M)])
