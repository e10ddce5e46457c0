"""Buildings: walls with windows, doors and cornices; some windows lit at night.

The corners of all walls are computed once; a frame projects those of the walls in view in one call.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np

from closedloop_plugin.worlds.embedded.camera.canvas import SHIFT, Canvas, fixed
from closedloop_plugin.worlds.embedded.camera.lens import PinholeLens, clip_near
from closedloop_plugin.worlds.embedded.camera.scenery import corners

FLOOR = 3.2  # m
BAY = 2.6  # m of wall per window
FIXED = 3  # quads of a wall before its windows: the wall, its cornice, its door
NEAR = 0.4  # m: near plane of walls, which are large
WINDOWS_TO = 150.0  # m
WINDOW = np.array([72.0, 88.0, 104.0])


class BuildingLayer:
    """The scenery's buildings. `rows`: (n, 9), as StaticScenery.buildings."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        self.foot = np.array([corners(*row[:5].tolist()) for row in rows]).reshape(-1, 4, 2)
        nxt = np.roll(self.foot, -1, axis=1)
        along = nxt - self.foot
        length = np.maximum(np.hypot(along[..., 0], along[..., 1]), 1e-9)
        self.normals = np.stack([along[..., 1], -along[..., 0]], axis=-1) / length[..., None]  # outward
        self.middles = (self.foot + nxt) / 2
        walls = [
            _quads(self.foot[k, side], nxt[k, side], float(row[5]), float(length[k, side]))
            for k, row in enumerate(rows)
            for side in range(4)
        ]
        self.starts = np.r_[0, np.cumsum([len(w) for w in walls])].astype(int)  # wall 4 * house + side -> its quads
        self.quads = np.concatenate(walls) if walls else np.zeros((0, 4, 3))

    def walls(self, canvas: Canvas, shown: np.ndarray) -> dict[int, list[BuildingWall]]:
        """Walls that face the camera, projected and shaded, by index of the building in `rows`."""
        lens, light = canvas.lens, canvas.light
        normals, middles = self.normals[shown], self.middles[shown]
        to_eye = np.array([lens.x, lens.y]) - middles
        which, side = np.nonzero((to_eye * normals).sum(axis=-1) > 0)
        if not len(which):
            return {}
        wall, distance = 4 * shown[which] + side, np.hypot(*to_eye[which, side].T)
        lamps = np.array([canvas.lamp_light(x, y) for x, y in middles[which, side].tolist()])
        sunny = np.maximum(0.0, normals[which, side] @ light.sun[:2])[:, None]
        gain = 0.95 * light.ambient + 1.2 * sunny * light.direct + 0.5 * np.reshape(lamps, (-1, 1))
        paint = self.rows[shown[which], 6:9]
        tones = np.stack([paint, 0.6 * paint, np.broadcast_to(WINDOW, paint.shape)], axis=1)
        shades = canvas.tint(tones, gain[:, None], distance[:, None, None]).tolist()
        a, b = self.starts[wall], self.starts[wall + 1]
        b = np.where(distance < WINDOWS_TO, b, a + 1)
        quads = np.concatenate([self.quads[i:j] for i, j in zip(a.tolist(), b.tolist(), strict=True)])
        local = lens.local(quads[..., :2])
        depth = local[..., 0].min(axis=1)
        pixels = fixed(lens.pixels(np.maximum(local, (NEAR, -np.inf)), quads[..., 2]))
        ahead, seen = depth >= NEAR, _in_picture(pixels, lens)
        dark = light.day < 0.5
        out: dict[int, list[BuildingWall]] = {}
        stop = 0
        for k, (house, size) in enumerate(zip(shown[which].tolist(), (b - a).tolist(), strict=True)):
            start, stop = stop, stop + size
            solids, panes = slice(start, min(start + FIXED, stop)), slice(min(start + FIXED, stop), stop)
            drawn = ahead[panes] & seen[panes]
            lit = drawn[:0]
            if dark:  # there is light behind some windows, counted from the first that is ahead
                number = np.cumsum(ahead[panes]) - 1
                lit = ((number * 2654435761 + int(wall[k]) * 40503) % 97 < 34)[drawn]
            found = BuildingWall(
                distance=float(distance[k]),
                shades=shades[k],
                solid=pixels[solids],
                panes=pixels[panes][drawn],
                lit=lit,
                near=(local[solids], quads[solids, :, 2]) if depth[start] < NEAR else None,
            )
            out.setdefault(house, []).append(found)
        return out


def _in_picture(quads: np.ndarray, lens: PinholeLens) -> np.ndarray:
    """(n,) whether upright fixed-point quads (n, 4, 2), as _quads orders their corners, can touch the picture."""
    border = 4 << SHIFT  # anti-aliased edges
    u, v = quads[:, :2, 0], quads[..., 1]
    right, bottom = (lens.width << SHIFT) + border, (lens.height << SHIFT) + border
    across = (np.maximum(u[:, 0], u[:, 1]) > -border) & (np.minimum(u[:, 0], u[:, 1]) < right)
    return across & (np.maximum(v[:, 0], v[:, 1]) > -border) & (np.minimum(v[:, 2], v[:, 3]) < bottom)


class BuildingWall(NamedTuple):
    """One wall in one frame."""

    distance: float
    shades: list[list[float]]  # of the wall, of its cornice and door, of its windows
    solid: np.ndarray  # (3, 4, 2) fixed-point pixels of wall, cornice, door; (1, 4, 2) far away
    panes: np.ndarray  # (n, 4, 2) fixed-point pixels of the windows in the picture
    lit: np.ndarray  # (n,) whether there is light behind a window; empty by day
    near: tuple[np.ndarray, np.ndarray] | None  # camera-frame corners and heights of a wall that crosses the near plane


def draw_wall(canvas: Canvas, wall: BuildingWall) -> None:
    """Draw a wall, its cornice, door and windows; at night about a third of the windows is lit."""
    solid = (wall.shades[0], wall.shades[1], wall.shades[1])
    if wall.near is None:
        for quad, shade in zip(wall.solid, solid, strict=False):
            canvas.fill_fixed(quad, shade)
    else:
        for local, z, shade in zip(*wall.near, solid, strict=False):
            line, heights = clip_near(local, z, NEAR)
            if len(line) > 2:
                canvas.fill_fixed(fixed(canvas.lens.pixels(line, heights)), shade)
    span = abs(int(wall.solid[0, 1, 0]) - int(wall.solid[0, 0, 0])) >> SHIFT
    if not len(wall.panes) or span <= 3:
        return
    cv2.fillPoly(canvas.image, list(wall.panes), wall.shades[2], cv2.LINE_AA, SHIFT)
    if wall.lit.any():
        warm = canvas.glowing((226.0, 178.0, 96.0), wall.distance)
        cv2.fillPoly(canvas.image, list(wall.panes[wall.lit]), warm, cv2.LINE_AA, SHIFT)


def _quads(a: np.ndarray, b: np.ndarray, height: float, length: float) -> np.ndarray:
    """(q, 4, 3) quads of a wall from a to b: wall, cornice, door, then windows floor by floor."""
    floors, bays = max(1, int(height / FLOOR)), max(2, int(length / BAY))
    u = (np.arange(bays)[:, None] + (0.22, 0.78)) / bays
    boxes = [(0.0, 1.0, 0.0, height), (0.0, 1.0, height - 0.5, height), (0.46, 0.54, 0.0, 2.3)]
    boxes += [(u0, u1, k * FLOOR + 1.0, k * FLOOR + 2.5) for k in range(floors) for u0, u1 in u.tolist()]
    box = np.array(boxes)
    share = box[:, [0, 1, 1, 0]]
    return np.concatenate([a + share[..., None] * (b - a), box[:, [2, 2, 3, 3], None]], axis=-1)


def visible(lens: PinholeLens, houses: BuildingLayer, far: float) -> np.ndarray:
    """Indices of the buildings in view that are not fully hidden by nearer ones, nearest first."""
    rows = houses.rows
    if not len(rows):
        return np.zeros(0, int)
    radius = np.hypot(rows[:, 3], rows[:, 4]) / 2
    seen = np.flatnonzero(lens.in_view(lens.local(rows[:, :2]), radius, far))
    flat = lens.local(houses.foot[seen])
    depth = flat[..., 0]
    low, high = depth.min(axis=1), depth.max(axis=1)
    u = lens.width / 2 + lens.focal * flat[..., 1] / np.maximum(depth, NEAR)
    first, last = u.min(axis=1), u.max(axis=1)
    skyline = np.zeros(lens.width)  # per column: tangent of the elevation angle that nearer buildings cover
    chosen = []
    for k in np.argsort(np.hypot(depth, flat[..., 1]).min(axis=1), kind="stable").tolist():
        if high[k] < NEAR:
            continue
        if low[k] < NEAR:
            chosen.append(seen[k])
            continue
        a, b = max(0, math.floor(first[k])), min(lens.width, math.ceil(last[k]))
        rise = float(rows[seen[k], 5]) - lens.up
        if a >= b or float(skyline[a:b].min()) >= rise / low[k]:
            continue
        chosen.append(seen[k])
        inner = slice(max(0, math.ceil(first[k])), max(0, min(lens.width, math.floor(last[k]))))
        skyline[inner] = np.maximum(skyline[inner], rise / high[k])
    return np.array(chosen, dtype=int)
