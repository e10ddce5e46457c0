"""Renders the camera image of a vehicle in the sandbox. The floor is a texture warped by a homography; walls and
obstacles are flat faces, drawn back to front. Pinhole camera with pitch; no shadows, no lens distortion.

Projection of a point p (floor frame: x right, y up, z above the floor, m) for camera position c and unit axes
r (right in the image), d (down) and f (forward):
u = width / 2 + focal * (p - c).r / (p - c).f,  v = height / 2 + focal * (p - c).d / (p - c).f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np

from closedloop_plugin.robots.sandbox.track import LINE_WIDTH, SandboxTrack, TrackObstacle

PER_M = 400  # pixels per metre of the floor texture
COARSE = 4  # the far part uses a texture so many times coarser, against flickering lines
COARSE_M = 1.0  # from this distance along the floor
NEAR_M = 0.02  # near clipping plane
WALL_M = 0.25  # height of the sandbox's walls
GRASS, LANE, LINE = (104, 132, 96), (74, 76, 80), (246, 196, 28)  # RGB
ROOM, WALLS = (205, 208, 212), ((238, 236, 230), (214, 222, 232), (228, 226, 220), (206, 214, 224))
LIGHT = (0.45, 0.35, 0.82)  # direction towards the light, a unit vector


@dataclass(frozen=True)
class FloorCameraMount:
    """A camera mount: metres ahead of the vehicle's middle and above the floor; fov and downward pitch, degrees."""

    ahead: float
    up: float
    fov: float  # horizontal
    pitch: float = 0.0
    width: int = 640
    height: int = 480

    @property
    def focal(self) -> float:
        """Focal length, pixels."""
        return self.width / 2 / math.tan(math.radians(self.fov) / 2)


class FloorCamera:
    """Renders images of one track. RGB at the interface, BGR (OpenCV) inside."""

    def __init__(self, track: SandboxTrack, view: FloorCameraMount) -> None:
        self.track, self.view = track, view
        fine = floor_picture(track)[..., ::-1]
        size = fine.shape[1] // COARSE, fine.shape[0] // COARSE
        self._levels = (
            (np.ascontiguousarray(fine), PER_M),
            (cv2.resize(fine, size, interpolation=cv2.INTER_AREA), PER_M // COARSE),
        )

    def picture(self, x: float, y: float, yaw: float) -> np.ndarray:
        """(height, width, 3) uint8 RGB image for a vehicle whose middle is at this pose (m, rad)."""
        return np.ascontiguousarray(self._draw(x, y, yaw)[..., ::-1])

    def jpeg(self, x: float, y: float, yaw: float, quality: int = 80) -> bytes:
        done, data = cv2.imencode(".jpg", self._draw(x, y, yaw), [cv2.IMWRITE_JPEG_QUALITY, quality])
        if not done:
            raise RuntimeError("OpenCV could not encode a JPEG")
        return bytes(data)

    def _draw(self, x: float, y: float, yaw: float) -> np.ndarray:
        view = self.view
        lens = FloorCameraPose(view, x, y, yaw)
        image = np.full((view.height, view.width, 3), ROOM[::-1], np.uint8)
        horizon = view.height / 2 - view.focal * math.tan(math.radians(view.pitch))
        middle = horizon + lens.row_of(COARSE_M)
        self._floor(image, lens, max(0, math.ceil(horizon + 1)), round(middle), level=1)
        self._floor(image, lens, round(middle), view.height, level=0)
        for corners, colour in sorted(self._walls(), key=lambda wall: -lens.far(wall[0])):
            lens.fill(image, corners, colour)
        for box in sorted(self.track.obstacles, key=lambda b: -math.dist((b.x, b.y), lens.place[:2])):
            _draw_box(image, lens, box)
        return image

    def _floor(self, image: np.ndarray, lens: FloorCameraPose, top: int, bottom: int, level: int) -> None:
        """Draw the floor in the rows top..bottom, which must be below the horizon."""
        top, bottom = max(0, top), min(self.view.height, bottom)
        if top >= bottom:
            return
        texture, per_m = self._levels[level]
        height = self.track.size[1]
        metres = np.array([(1 / per_m, 0, 0.5 / per_m), (0, -1 / per_m, height - 0.5 / per_m), (0, 0, 1)])
        shift = np.array([(1, 0, 0), (0, 1, -top), (0, 0, 1)], dtype=float)
        image[top:bottom] = cv2.warpPerspective(
            texture,
            shift @ lens.ground() @ metres,
            (self.view.width, bottom - top),
            flags=cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_CONSTANT,
            borderValue=ROOM[::-1],
        )

    def _walls(self) -> list[tuple[np.ndarray, tuple[int, int, int]]]:
        w, h = self.track.size
        corners = ((0.0, 0.0), (w, 0.0), (w, h), (0.0, h))
        return [
            (np.array([(*a, 0), (*b, 0), (*b, WALL_M), (*a, WALL_M)]), colour)
            for a, b, colour in zip(corners, corners[1:] + corners[:1], WALLS, strict=True)
        ]


class FloorCameraPose:
    """Camera position and axes at one moment."""

    def __init__(self, view: FloorCameraMount, x: float, y: float, yaw: float) -> None:
        self.view = view
        c, s = math.cos(yaw), math.sin(yaw)
        cp, sp = math.cos(math.radians(view.pitch)), math.sin(math.radians(view.pitch))
        self.place = np.array((x + view.ahead * c, y + view.ahead * s, view.up))
        # Rows: right, down, forward axis in the floor frame; camera turned by yaw, then pitched down.
        self.axes = np.array([(s, -c, 0.0), (-c * sp, -s * sp, -cp), (c * cp, s * cp, -sp)])
        self.matrix = np.array([(view.focal, 0, view.width / 2), (0, view.focal, view.height / 2), (0, 0, 1)])

    def ground(self) -> np.ndarray:
        """(3, 3) homography K [R | -R c] for z = 0: floor (x, y, 1), m -> homogeneous pixels.

        OpenCV's pixel coordinates have their origin in the middle of the first pixel, hence the shift by 0.5.
        """
        shift = np.column_stack([(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), -self.place])
        half = np.array([(1, 0, -0.5), (0, 1, -0.5), (0, 0, 1)])
        return np.asarray(half @ self.matrix @ self.axes @ shift)

    def row_of(self, distance: float) -> float:
        """Rows between the horizon and the floor at this distance (m, along the floor)."""
        down, pitch = math.atan2(self.view.up, distance), math.radians(self.view.pitch)
        return self.view.focal * (math.tan(pitch) + math.tan(down - pitch))

    def far(self, corners: np.ndarray) -> float:
        """Distance to the middle of a face, m."""
        return float(np.linalg.norm(corners.mean(axis=0) - self.place))

    def pixels(self, corners: np.ndarray) -> np.ndarray:
        """Project a polygon: (n, 3) points -> (k, 2) pixels of the part in front of the camera; k may be 0."""
        local = (corners - self.place) @ self.axes.T
        local = _clipped(local)
        return (local[:, :2] / local[:, 2:]) * self.view.focal + (self.view.width / 2, self.view.height / 2)

    def fill(self, image: np.ndarray, corners: np.ndarray, colour: tuple[int, int, int]) -> None:
        """Draw a convex face with an RGB colour."""
        pixels = self.pixels(corners)
        if len(pixels) > 2:
            fixed = np.rint(np.clip(pixels, -1e5, 1e5) * 16).astype(np.int32)
            cv2.fillConvexPoly(image, fixed, colour[::-1], cv2.LINE_AA, 4)


def _clipped(local: np.ndarray) -> np.ndarray:
    """Clip a closed polygon (n, 3) in camera axes (right, down, forward) at forward = NEAR_M."""
    kept: list[np.ndarray] = []
    for a, b in zip(local, np.roll(local, -1, axis=0), strict=True):
        if a[2] >= NEAR_M:
            kept.append(a)
        if (a[2] >= NEAR_M) != (b[2] >= NEAR_M):
            kept.append(a + (NEAR_M - a[2]) / (b[2] - a[2]) * (b - a))
    return np.array(kept).reshape(-1, 3)


def _draw_box(image: np.ndarray, lens: FloorCameraPose, box: TrackObstacle) -> None:
    """Draw the faces that point to the camera; those of one box never overlap."""
    foot = np.column_stack([box.corners, np.zeros(4)])
    head = np.column_stack([box.corners, np.full(4, box.height)])
    faces = [(head, (0.0, 0.0, 1.0))]
    for i in range(4):
        k = (i + 1) % 4
        along = foot[k] - foot[i]
        normal = np.array((along[1], -along[0], 0.0)) / np.linalg.norm(along)
        faces.append((np.array([foot[i], foot[k], head[k], head[i]]), tuple(normal)))
    for corners, normal in faces:
        if float(np.dot(lens.place - corners[0], normal)) > 0:
            shade = 0.55 + 0.45 * max(0.0, float(np.dot(normal, LIGHT)))
            r, g, b = (round(c * shade) for c in box.colour)
            lens.fill(image, corners, (r, g, b))


def floor_picture(track: SandboxTrack) -> np.ndarray:
    """The floor seen from above, y up: (rows, columns, 3) uint8 RGB, PER_M pixels per metre."""
    w, h = (round(side * PER_M) for side in track.size)
    image = np.empty((h, w, 3), np.uint8)
    image[:] = GRASS
    left, right = (_fixed(line, track) for line in (track.left, track.right))
    cv2.fillPoly(image, [left, right], LANE, cv2.LINE_AA, 4)
    for line in (left, right):
        cv2.polylines(image, [line], True, LINE, round(LINE_WIDTH * PER_M), cv2.LINE_AA, 4)
    # Grain, so that motion is visible in images of the plain floor.
    grain = np.random.default_rng(5).normal(0.0, 6.0, (h // 8, w // 8)).astype(np.float32)
    wide = cv2.resize(grain, (w, h), interpolation=cv2.INTER_CUBIC)[..., None]
    return np.clip(image + wide, 0, 255).astype(np.uint8)


def _fixed(line: np.ndarray, track: SandboxTrack) -> np.ndarray:
    """Metres -> pixels, in OpenCV's fixed-point format with 4 fractional bits."""
    xy = np.column_stack([line[:, 0], track.size[1] - line[:, 1]]) * PER_M - 0.5
    return np.rint(xy * 16).astype(np.int32)
