"""Objects beside the road: trees, lamp posts, signs, traffic lights."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np

from closedloop_plugin.core.state import SignalState
from closedloop_plugin.worlds.embedded.camera.canvas import SHIFT, Canvas, Colour, Place, fixed
from closedloop_plugin.worlds.embedded.camera.lens import NEAR
from closedloop_plugin.worlds.embedded.camera.mesh import Mesh, MeshBuilder, draw_mesh
from closedloop_plugin.worlds.embedded.camera.scenery import TrafficControlDevice

# Leaves that hang before a sign or light and hide a share of it from the traffic that it controls.

LEAF_M = 0.11  # radius of a tuft of leaves
GREENS = ((58.0, 92.0, 44.0), (72.0, 112.0, 52.0), (90.0, 132.0, 64.0))
BARK = (86.0, 68.0, 52.0)
BEFORE_M = 0.3  # towards the traffic
GRID = 40  # samples of the hidden share, per side


def draw_leaves(canvas: Canvas, centre: Place, yaw: float, half: tuple[float, float], percent: float) -> None:
    """Hide `percent` of a plate around `centre`, half[0] m to either side and half[1] m up and down.

    `yaw`: direction of the traffic. Drawn only for a camera on the side of the traffic, after the plate.
    """
    c, s = math.cos(yaw), math.sin(yaw)
    if percent <= 0 or (canvas.lens.x - centre[0]) * c + (canvas.lens.y - centre[1]) * s > 0:
        return
    x, y = centre[0] - BEFORE_M * c, centre[1] - BEFORE_M * s
    distance = math.hypot(x - canvas.lens.x, y - canvas.lens.y)
    tones = canvas.flats((*GREENS, BARK), x, y, distance)
    seed = round(abs(centre[0]) * 10 + abs(centre[1]) * 7) & 0xFFFF
    # A twig from above on the right, where trees stand.
    tip = x + 0.8 * half[0] * s, y - 0.8 * half[0] * c, centre[2] + 0.7 * half[1]
    canvas.limb(tip, (x + 1.6 * s, y - 1.6 * c, centre[2] + half[1] + 0.7), 0.03, tones[3])
    for right, up, tone in _tufts(round(half[0], 3), round(half[1], 3), round(min(percent, 100.0), 1), seed):
        canvas.ball((x + right * s, y - right * c, centre[2] + up), LEAF_M, tones[tone])


@lru_cache(maxsize=256)
def _tufts(half_width: float, half_height: float, percent: float, seed: int) -> tuple[tuple[float, float, int], ...]:
    """(m to the right, m up, tone) of tufts that together cover a share of the plate, and some beside it."""
    rng = np.random.default_rng([seed, 31])
    spots = np.column_stack([
        rng.uniform(-half_width, half_width + 0.5, 600), rng.uniform(-half_height, half_height + 0.3, 600)
    ])  # fmt: skip
    # From the twig's side on, unevenly.
    spots = spots[np.argsort(-spots[:, 0] / half_width - spots[:, 1] / half_height + rng.normal(0, 0.6, 600))]
    grid = np.stack(
        np.meshgrid(np.linspace(-half_width, half_width, GRID), np.linspace(-half_height, half_height, GRID))
    )
    hidden = np.zeros((GRID, GRID), bool)
    found: list[tuple[float, float, int]] = []
    for right, up in spots.tolist():
        if hidden.mean() * 100 >= percent:
            break
        hidden |= np.hypot(grid[0] - right, grid[1] - up) < LEAF_M
        found.append((right, up, int(rng.integers(0, 3))))
    return tuple(found)


STEEL = (96.0, 100.0, 104.0)
LAMP_ON = {
    SignalState.RED: (255.0, 30.0, 24.0),
    SignalState.YELLOW: (255.0, 190.0, 20.0),
    SignalState.GREEN: (30.0, 240.0, 110.0),
}
LAMP_OFF = ((66.0, 16.0, 14.0), (66.0, 52.0, 14.0), (12.0, 54.0, 30.0))
ORDER = (SignalState.RED, SignalState.YELLOW, SignalState.GREEN)  # from the top
HEAD = 0.36  # m between two lamps of a signal
SIMPLE_FROM = 45.0  # m: beyond, a signal is a dark bar with one lit lamp


# Parts of a crown: size, shift up and to the left, brightness.
SHARES, LIFTS, TONES = np.array([1.0, 0.74, 0.42]), np.array([0.0, 0.2, 0.38]), (0.72, 0.95, 1.18)


@lru_cache(maxsize=1)
def _outlines() -> np.ndarray:
    """(4, 24, 2) outlines of crowns, radius about 1."""
    angle = np.arange(24) * (math.tau / 24)
    radius = 1.0 + np.stack([np.random.default_rng([shape, 5]).uniform(-0.13, 0.13, 24) for shape in range(4)])
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1) * radius[..., None]


class TreeOutline(NamedTuple):
    """One tree in one frame: its trunk, and the three parts of its crown from the darkest to the lightest."""

    row: tuple[float, float, float, float]  # x, y, height, crown radius
    crown: np.ndarray  # (3, 24, 2) fixed-point pixels
    depth: float
    tones: list[Colour]  # of the trunk, then of the crown


def trees_of(canvas: Canvas, rows: np.ndarray) -> list[TreeOutline]:
    """The trees (n, 4) of a frame, projected together."""
    x, y, height, radius = rows.T
    u, v, depth = canvas.lens.project_each(np.column_stack([x, y, height - radius]))
    size = radius * canvas.lens.focal / np.maximum(depth, NEAR)
    shapes = np.abs(x * 13 + y * 7).astype(int) % 4
    across, up = u[:, None] - (0.12 * size)[:, None] * LIFTS, v[:, None] - size[:, None] * LIFTS
    middles = np.stack([across, up], axis=-1)  # (n, 3, 2)
    crowns = (size[:, None] * SHARES)[..., None, None] * _outlines()[shapes][:, None] + middles[:, :, None]
    crowns = fixed(np.minimum(np.maximum(crowns, -1e6), 1e6))
    out = []
    for k, (row, shape, away) in enumerate(zip(rows.tolist(), shapes.tolist(), depth.tolist(), strict=True)):
        leaves = [((64.0 + 6 * shape) * tone, (104.0 + 4 * shape) * tone, 52.0 * tone) for tone in TONES]
        distance = math.hypot(row[0] - canvas.lens.x, row[1] - canvas.lens.y)
        tones = canvas.flats([(96.0, 74.0, 54.0), *leaves], row[0], row[1], distance)
        out.append(TreeOutline(tuple(row), crowns[k], away, tones))
    return out


def draw_tree(canvas: Canvas, tree: TreeOutline) -> None:
    """Draw a trunk and a crown that is lighter above."""
    x, y, height, radius = tree.row
    canvas.limb((x, y, 0.0), (x, y, height - radius), 0.16, tree.tones[0])
    if tree.depth < 0.8:
        return
    for part, tone in zip(tree.crown, tree.tones[1:], strict=True):
        cv2.fillPoly(canvas.image, [part], tone, cv2.LINE_AA, SHIFT)


def draw_post(canvas: Canvas, row: np.ndarray) -> None:
    """Draw a street lamp, lit in the dark."""
    x, y, yaw = row.tolist()
    distance = math.hypot(x - canvas.lens.x, y - canvas.lens.y)
    colour = canvas.flat(STEEL, x, y, distance)
    c, s = math.cos(yaw), math.sin(yaw)
    tip = x + 1.8 * c, y + 1.8 * s, 6.9
    canvas.limb((x, y, 0.0), (x, y, 6.7), 0.07, colour)
    canvas.limb((x, y, 6.7), tip, 0.05, colour)
    lit = canvas.beams > 0
    bulb = canvas.glowing((255.0, 226.0, 170.0), distance) if lit else colour
    canvas.limb((tip[0] - 0.25 * c, tip[1] - 0.25 * s, 6.87), (tip[0], tip[1], 6.87), 0.09, bulb)
    if lit:
        canvas.shine(tip, 1.6, (255.0, 214.0, 150.0), 0.6 * canvas.beams)


def draw_sign(canvas: Canvas, sign: TrafficControlDevice, state: SignalState | None, hidden: float = 0.0) -> None:
    """Draw a pole with a plate, or a signal with its lamps (none lit if the state is unknown).

    `hidden`: percentage of the plate or head behind leaves, seen from the traffic that it controls.
    """
    distance = math.hypot(sign.x - canvas.lens.x, sign.y - canvas.lens.y)
    steel = canvas.flat(STEEL, sign.x, sign.y, distance)
    c, s = math.cos(sign.yaw), math.sin(sign.yaw)
    top = sign.x, sign.y, sign.height + (0.3 if sign.kind == "signal" else 0.0)
    canvas.limb((sign.x, sign.y, 0.0), top, 0.07, steel)
    if sign.kind == "signal":
        head = sign.x - sign.arm * s, sign.y + sign.arm * c
        if sign.arm > 0:
            canvas.limb(top, (*head, top[2]), 0.06, steel)
        _signal(canvas, head, sign, state)
        draw_leaves(canvas, (*head, sign.height), sign.yaw, (0.27, 1.5 * HEAD + 0.1), hidden)
        return
    half = 0.45
    x, y = sign.x - 0.08 * c, sign.y - 0.08 * s  # on the side of the traffic that it controls
    left, right = (x - half * s, y + half * c), (x + half * s, y - half * c)
    z0, z1 = sign.height - half, sign.height + half
    eye = (canvas.lens.x - sign.x) * c + (canvas.lens.y - sign.y) * s
    plate = np.array([(*left, z1), (*right, z1), (*right, z0), (*left, z0)])
    if eye < 0:
        canvas.plate(plate, sign_plate(sign.kind), 1.2)
        draw_leaves(canvas, (x, y, sign.height), sign.yaw, (half, half), hidden)
    else:
        inset = 0.3 * half
        back = plate + np.array([[0, 0, -inset], [0, 0, -inset], [0, 0, inset], [0, 0, inset]])
        canvas.polygon(back, canvas.flat((150.0, 152.0, 154.0), sign.x, sign.y, distance))


@lru_cache(maxsize=4)
def _housing(state: SignalState | None) -> Mesh:
    """A signal's head around (0, 0, 0), facing -x, towards approaching traffic."""
    b = MeshBuilder()
    tall = 1.5 * HEAD + 0.1
    box = b.box((-0.14, 0.14), 0.27, (-tall, tall), (34.0, 36.0, 38.0))
    b.on(box["back"], (0.0, 1.0, 0.0, 1.0), (18.0, 18.0, 20.0))
    angle = -np.arange(16) * (math.tau / 16)
    for i, lamp in enumerate(ORDER):
        z = (1 - i) * HEAD
        on = lamp is state
        ring = [(-0.15, 0.165 * math.cos(a), z + 0.165 * math.sin(a)) for a in angle]
        colour: Colour = LAMP_ON[lamp] if on else LAMP_OFF[i]
        b.face(ring, colour, on)
    return b.mesh()


def _signal(canvas: Canvas, head: tuple[float, float], sign: TrafficControlDevice, state: SignalState | None) -> None:
    c, s = math.cos(sign.yaw), math.sin(sign.yaw)
    behind = (canvas.lens.x - head[0]) * c + (canvas.lens.y - head[1]) * s < 0
    distance = math.hypot(canvas.lens.x - head[0], canvas.lens.y - head[1])
    if distance < SIMPLE_FROM:
        draw_mesh(canvas, _raised(state, sign.height), head[0], head[1], sign.yaw)
    else:
        case = canvas.flat((24.0, 26.0, 28.0), *head, distance)
        canvas.limb((*head, sign.height - HEAD), (*head, sign.height + HEAD), 0.27, case)
    if state is None or not behind:
        return
    lamp = head[0] - 0.16 * c, head[1] - 0.16 * s, sign.height + (1 - ORDER.index(state)) * HEAD
    if distance >= SIMPLE_FROM:
        canvas.ball(lamp, 0.17, canvas.glowing(LAMP_ON[state], distance))
    canvas.shine(lamp, 0.5, LAMP_ON[state], 0.22 + 0.4 * min(canvas.beams, 1.0))


@lru_cache(maxsize=64)
def _raised(state: SignalState | None, height: float) -> Mesh:
    mesh = _housing(state)
    up = np.array([0.0, 0.0, height])
    return Mesh(mesh.points + up, mesh.starts, mesh.normals, mesh.middles + up, mesh.colours, mesh.shining)


# Pictures of road signs: drawn large, then averaged down.

SIZE = 128
BIG = 4 * SIZE
RED, WHITE, BLACK = (196, 22, 28, 255), (246, 246, 244, 255), (20, 20, 22, 255)


@lru_cache(maxsize=8)
def sign_plate(kind: str) -> np.ndarray:
    """(SIZE, SIZE, 4) uint8 RGBA, premultiplied alpha. kind: stop, yield, warning, no_entry, or speed_N for a limit."""
    big = np.zeros((BIG, BIG, 4), np.uint8)
    middle = BIG // 2, BIG // 2
    if kind == "stop":
        for radius, colour in ((0.535, WHITE), (0.495, RED)):
            angle = (np.arange(8) + 0.5) * (math.tau / 8)
            octagon = BIG / 2 + radius * BIG * np.column_stack([np.cos(angle), np.sin(angle)])
            cv2.fillConvexPoly(big, np.rint(octagon).astype(np.int32), colour)
        _write(big, "STOP", 5.3, 24, WHITE)
    elif kind == "yield":  # on its tip
        _triangle(big, ((0.02, 0.08), (0.98, 0.08), (0.5, 0.94)), 0.6)
    elif kind == "warning":  # on its base, with an exclamation mark
        _triangle(big, ((0.02, 0.96), (0.98, 0.96), (0.5, 0.04)), 0.62)
        x = BIG // 2
        cv2.line(big, (x, int(0.46 * BIG)), (x, int(0.66 * BIG)), BLACK, int(0.07 * BIG))
        cv2.circle(big, (x, int(0.78 * BIG)), int(0.045 * BIG), BLACK, -1)
    elif kind == "no_entry":
        cv2.circle(big, middle, int(0.49 * BIG), WHITE, -1)
        cv2.circle(big, middle, int(0.46 * BIG), RED, -1)
        cv2.rectangle(big, (int(0.16 * BIG), int(0.42 * BIG)), (int(0.84 * BIG), int(0.58 * BIG)), WHITE, -1)
    else:
        cv2.circle(big, middle, int(0.49 * BIG), RED, -1)
        cv2.circle(big, middle, int(0.38 * BIG), WHITE, -1)
        _write(big, str(int(kind.removeprefix("speed_"))), 7.5, 34, BLACK)
    return cv2.resize(big, (SIZE, SIZE), interpolation=cv2.INTER_AREA)


def _write(big: np.ndarray, text: str, scale: float, width: int, colour: tuple[int, int, int, int]) -> None:
    (w, h), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, width)
    place = (BIG - w) // 2, (BIG + h) // 2
    cv2.putText(big, text, place, cv2.FONT_HERSHEY_SIMPLEX, scale, colour, width, cv2.LINE_AA)


def _triangle(big: np.ndarray, points: tuple[tuple[float, float], ...], inner: float) -> None:
    """Draw a white triangle with a red border; inner: size of the white part, as a share."""
    p = np.array(points)
    middle = p.mean(axis=0)
    for share, colour in ((1.0, RED), (inner, WHITE)):
        cv2.fillConvexPoly(big, np.rint((middle + (p - middle) * share) * BIG).astype(np.int32), colour)
