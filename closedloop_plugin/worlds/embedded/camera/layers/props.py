"""Static obstacles: cones, barriers, warning triangles, debris, containers and advertisements."""

from __future__ import annotations

import math
import zlib
from functools import lru_cache
from itertools import pairwise

import numpy as np

from closedloop_plugin.core.state import Actor, ActorKind
from closedloop_plugin.worlds.embedded.camera.canvas import Canvas, Colour
from closedloop_plugin.worlds.embedded.camera.layers.street import sign_plate
from closedloop_plugin.worlds.embedded.camera.mesh import Mesh, MeshBuilder, draw_mesh, place

ORANGE, WHITE, RED = (244.0, 98.0, 20.0), (240.0, 240.0, 236.0), (204.0, 28.0, 26.0)


def draw_prop(canvas: Canvas, actor: Actor) -> None:
    """Draw a static obstacle."""
    size = round(actor.length, 3), round(actor.width, 3), round(actor.height, 3)
    if actor.kind is ActorKind.WARNING_SIGN:
        _warning(canvas, actor)
        return
    mesh = mesh_of(actor.kind, size, actor.colour, zlib.crc32(actor.id.encode()) % 8)
    draw_mesh(canvas, mesh, actor.x, actor.y, actor.yaw)


@lru_cache(maxsize=256)
def mesh_of(kind: ActorKind, size: tuple[float, float, float], colour: tuple[int, int, int], pick: int) -> Mesh:
    """Mesh of an obstacle; cached. `pick` selects a variant."""
    b = MeshBuilder()
    if kind is ActorKind.CONE:
        _cone(b, size)
    elif kind is ActorKind.BARRIER:
        _barrier(b, size)
    elif kind is ActorKind.BLOCKER:
        _blocker(b, size, (float(colour[0]), float(colour[1]), float(colour[2])), pick)
    else:
        _debris(b, size, pick)
    return b.mesh()


def _cone(b: MeshBuilder, size: tuple[float, float, float]) -> None:
    length, width, height = size
    r = min(length, width) / 2
    b.box((-r, r), r, (0.0, 0.06 * height), (46.0, 44.0, 44.0))
    angle = np.arange(9) * (math.tau / 8)
    bands = ((0.06, 0.34, ORANGE), (0.34, 0.54, WHITE), (0.54, 0.7, ORANGE), (0.7, 0.82, WHITE), (0.82, 1.0, ORANGE))
    for low, high, colour in bands:
        r0, r1 = (r * 0.8 * (1 - 0.88 * t) for t in (low, high))
        for p, q in pairwise(angle):
            b.face(
                [
                    (r0 * math.cos(p), r0 * math.sin(p), low * height),
                    (r0 * math.cos(q), r0 * math.sin(q), low * height),
                    (r1 * math.cos(q), r1 * math.sin(q), high * height),
                    (r1 * math.cos(p), r1 * math.sin(p), high * height),
                ],
                colour,
            )


def _barrier(b: MeshBuilder, size: tuple[float, float, float]) -> None:
    """A red and white board on two feet, along its longer side."""
    length, width, height = size
    for x in (-0.36, 0.36) if length >= width else (0.0,):
        for y in (0.0,) if length >= width else (-0.36, 0.36):
            cx, half = x * length, min(width, length) * 0.4
            quad = b.box((cx - 0.04, cx + 0.04), half, (0.0, 0.62 * height), (70.0, 70.0, 74.0))
            for q in quad.values():
                q[:, 1] += y * width
    thin = 0.06
    span, half = ((-length / 2, length / 2), thin) if length >= width else ((-thin, thin), width / 2)
    stripes = max(4, int(max(length, width) / 0.35))
    for z in ((0.6, 1.0), (0.2, 0.46)):
        board = b.box(span, half, (z[0] * height, z[1] * height), WHITE)
        for name in ("left", "right") if length >= width else ("front", "back"):
            for i in range(0, stripes, 2):
                b.on(board[name], (i / stripes, (i + 1) / stripes, 0.0, 1.0), RED)


def _blocker(b: MeshBuilder, size: tuple[float, float, float], paint: Colour, pick: int) -> None:
    """A container with ribs, or, if it is short, an advertisement or vending machine with a picture."""
    length, width, height = size
    body = b.box((-length / 2, length / 2), width / 2, (0.0, height), paint)
    dark: Colour = (paint[0] * 0.72, paint[1] * 0.72, paint[2] * 0.72)
    for name, span in (("left", length), ("right", length), ("front", width), ("back", width)):
        if max(length, width) > 3.5:
            ribs = max(4, int(span / 0.4))
            for i in range(ribs):
                b.on(body[name], ((i + 0.1) / ribs, (i + 0.5) / ribs, 0.06, 0.94), dark)
        elif span > 0.35:
            poster: Colour = ((70.0, 150.0, 210.0), (236.0, 180.0, 50.0), (210.0, 80.0, 90.0), (90.0, 170.0, 110.0))[
                pick % 4
            ]
            b.on(body[name], (0.07, 0.93, 0.22, 0.95), (246.0, 246.0, 242.0))
            b.on(body[name], (0.11, 0.89, 0.5, 0.92), poster)
            b.on(body[name], (0.3, 0.7, 0.58, 0.84), (250.0, 240.0, 200.0))
            for v in (0.27, 0.34, 0.41):
                b.on(body[name], (0.16, 0.8 - 0.6 * (v - 0.27), v, v + 0.03), (60.0, 60.0, 66.0))


def _debris(b: MeshBuilder, size: tuple[float, float, float], pick: int) -> None:
    """A lost load: boards, a carton, a dark lump."""
    length, width, height = size
    rng = np.random.default_rng([pick, 3])
    shades: tuple[Colour, ...] = ((150.0, 112.0, 70.0), (186.0, 150.0, 104.0), (60.0, 58.0, 58.0), (126.0, 92.0, 58.0))
    for i in range(6):
        cx, cy = rng.uniform(-0.34, 0.34) * length, rng.uniform(-0.3, 0.3) * width
        a, h = rng.uniform(0.1, 0.22) * length, rng.uniform(0.08, 0.2) * width
        z = height * (1.0 if i == 0 else rng.uniform(0.3, 0.7))
        quads = b.box((cx - a, cx + a), h, (0.0, z), shades[i % 4], (cx - 0.8 * a, cx + 0.6 * a, 0.75 * h))
        for q in quads.values():
            q[:, 1] += cy


def _warning(canvas: Canvas, actor: Actor) -> None:
    """A warning triangle, on a stand if it is tall. Its face is drawn on both sides."""
    tall = actor.height > 1.2
    half = min(max(actor.width, 0.5), 1.2) / 2 if not tall else 0.5
    low, high = (actor.height - 2 * half, actor.height) if tall else (0.06, max(actor.height, 0.5))
    foot = place(
        np.array([[0.0, -0.3, 0.03], [0.0, 0.3, 0.03], [0, 0, 0.0], [0, 0, low + 0.1]]), actor.x, actor.y, actor.yaw
    )
    distance = math.hypot(actor.x - canvas.lens.x, actor.y - canvas.lens.y)
    dark = canvas.flat((60.0, 60.0, 62.0), actor.x, actor.y, distance)
    a, b, c, d = (tuple(p) for p in foot.tolist())
    canvas.limb(a, b, 0.03, dark)
    canvas.limb(c, d, 0.025, dark)
    side = 1.0  # +1: the left of the picture is to the left of the actor's yaw
    dx, dy = canvas.lens.x - actor.x, canvas.lens.y - actor.y
    if dx * math.cos(actor.yaw) + dy * math.sin(actor.yaw) > 0:
        side = -1.0
    local = [(0, side * half, high), (0, -side * half, high), (0, -side * half, low), (0, side * half, low)]
    canvas.plate(place(np.array(local, dtype=float), actor.x, actor.y, actor.yaw), sign_plate("warning"), 1.25)
