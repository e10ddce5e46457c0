"""Static objects on and beside a road: signs, lights, cones, barriers, boxes, lamps, trees, houses."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from scripts.sample.air import RGB
from scripts.sample.camera import Point3, inside
from scripts.sample.canvas import Canvas
from scripts.sample.characters import columns
from scripts.sample.people import Figure
from scripts.sample.scene import Thing

POST, WHITE, BLACK, RED = (120, 124, 128), (240, 240, 236), (26, 26, 28), (204, 30, 34)
LAMP_COLORS: dict[str, RGB] = {"red": (255, 44, 36), "yellow": (255, 190, 30), "green": (40, 226, 120)}
OFF: dict[str, RGB] = {"red": (70, 22, 22), "yellow": (70, 54, 16), "green": (16, 62, 36)}
CONE, BLUE, GREEN = (238, 96, 28), (28, 84, 168), (24, 116, 72)


def _ring(radius: float, up: float, corners: int, turn: float = 0.0) -> list[tuple[float, float]]:
    steps = [turn + k * 2 * math.pi / corners for k in range(corners)]
    return [(radius * math.sin(t), up + radius * math.cos(t)) for t in steps]


def draw_speed_sign(canvas: Canvas, thing: Thing, number: int) -> None:
    f = _post(canvas, thing, number, 2.2)
    f.shape(_ring(0.46, 2.6, 28), RED)
    f.shape(_ring(0.36, 2.6, 28), WHITE)
    canvas.text(f.p(0, 2.6), 0.40, thing.text, BLACK)


def draw_stop_sign(canvas: Canvas, thing: Thing, number: int) -> None:
    f = _post(canvas, thing, number, 2.2)
    f.shape(_ring(0.52, 2.6, 8, math.pi / 8), WHITE)
    f.shape(_ring(0.48, 2.6, 8, math.pi / 8), RED)
    canvas.text(f.p(0, 2.6), 0.3, thing.text or "STOP", WHITE)


def draw_warning_sign(canvas: Canvas, thing: Thing, number: int) -> None:
    """A red triangle; `text` is the hazard: "!" or "works"."""
    f = _post(canvas, thing, number, 2.0)
    f.shape(_ring(0.62, 2.5, 3), RED)
    f.shape(_ring(0.42, 2.49, 3), WHITE)
    if thing.text == "works":
        f.ball(-0.02, 2.6, 0.05, BLACK)
        f.limb((-0.02, 2.55), (-0.08, 2.42), 0.07, BLACK)
        f.limb((-0.08, 2.42), (-0.13, 2.31), 0.05, BLACK)
        f.limb((0.0, 2.53), (0.16, 2.32), 0.03, BLACK)
        f.shape([(0.06, 2.29), (0.24, 2.29), (0.15, 2.38)], BLACK)
    else:
        canvas.text(f.p(0, 2.47), 0.5, thing.text or "!", BLACK)


def draw_panel(canvas: Canvas, thing: Thing, number: int) -> None:
    """A direction panel on two posts; lines of `text` are separated by "/"."""
    lines = thing.text.split("/")
    half = 0.17 * max(columns(line) for line in lines) + 0.2
    foot, top = 2.3, 2.45 + 0.55 * len(lines)
    f = Figure(canvas, thing)
    canvas.label(number)
    for u in (-half * 0.7, half * 0.7):
        f.shape([(u - 0.05, 0), (u + 0.05, 0), (u + 0.05, top), (u - 0.05, top)], POST)
    f.shape([(-half, foot), (half, foot), (half, top), (-half, top)], WHITE)
    back = GREEN if thing.color == "green" else BLUE
    f.shape(
        [
            (-half + 0.05, foot + 0.05),
            (half - 0.05, foot + 0.05),
            (half - 0.05, top - 0.05),
            (-half + 0.05, top - 0.05),
        ],
        back,
    )
    for i, line in enumerate(lines):
        canvas.text(f.p(0, top - 0.36 - 0.55 * i), 0.42, line, WHITE)


def _post(canvas: Canvas, thing: Thing, number: int, top: float) -> Figure:
    f = Figure(canvas, thing)
    canvas.label(number)
    f.shape([(-0.04, 0), (0.04, 0), (0.04, top), (-0.04, top)], POST)
    return f


def draw_traffic_light(canvas: Canvas, thing: Thing, number: int) -> None:
    """A mast with an arm over the road (towards x = 0); `state` is the lamp that is on."""
    f = Figure(canvas, thing)
    canvas.label(0)
    f.shape([(-0.08, 0), (0.08, 0), (0.08, 5.0), (-0.08, 5.0)], POST)
    reach = -thing.x + (1.6 if thing.x > 0 else -1.6)
    f.shape([(0, 4.85), (reach, 4.85), (reach, 4.98), (0, 4.98)], POST)
    canvas.label(number)
    for u in (reach, 0.0):
        low, high = (4.1, 5.2) if u else (2.5, 3.6)
        f.shape([(u - 0.24, low), (u + 0.24, low), (u + 0.24, high), (u - 0.24, high)], (30, 32, 34))
        for k, name in enumerate(("green", "yellow", "red")):
            on = name == thing.state
            spot = f.p(u, low + 0.2 + 0.35 * k)
            canvas.disc(spot, 0.14, (LAMP_COLORS if on else OFF)[name], glowing=on)
            if on:
                canvas.glow(spot, 0.22, LAMP_COLORS[name])


def draw_cone(canvas: Canvas, thing: Thing, number: int) -> None:
    f = Figure(canvas, thing)
    f.ground(0.3)
    canvas.label(number)
    f.shape([(-0.26, 0), (0.26, 0), (0.26, 0.06), (-0.26, 0.06)], (40, 40, 42))
    f.shape([(-0.2, 0.06), (0.2, 0.06), (0.04, 0.8), (-0.04, 0.8)], CONE)
    f.shape([(-0.145, 0.3), (0.145, 0.3), (0.1, 0.5), (-0.1, 0.5)], WHITE)


def draw_barrier(canvas: Canvas, thing: Thing, number: int) -> None:
    """A works barrier: two striped boards on feet."""
    f = Figure(canvas, thing)
    f.ground(0.7)
    canvas.label(number)
    for u in (-0.75, 0.75):
        f.shape([(u - 0.05, 0), (u + 0.05, 0), (u + 0.05, 1.1), (u - 0.05, 1.1)], POST)
    for low in (0.5, 0.85):
        f.shape([(-0.95, low), (0.95, low), (0.95, low + 0.25), (-0.95, low + 0.25)], WHITE)
        for k in range(4):
            u = -0.9 + 0.48 * k
            f.shape([(u, low), (u + 0.22, low), (u + 0.36, low + 0.25), (u + 0.14, low + 0.25)], RED)


def draw_carton(canvas: Canvas, thing: Thing, number: int) -> None:
    """A cardboard box on the road."""
    f = Figure(canvas, thing)
    f.ground(0.45)
    canvas.label(number)
    x, z, h = thing.x, thing.z, 0.36
    front = [(x - h, 0.0, z - h), (x + h, 0.0, z - h), (x + h, 0.55, z - h), (x - h, 0.55, z - h)]
    top = [(x - h, 0.55, z - h), (x + h, 0.55, z - h), (x + h, 0.55, z + h), (x - h, 0.55, z + h)]
    edge = x - h if x > 0 else x + h
    canvas.face([(edge, 0.0, z - h), (edge, 0.0, z + h), (edge, 0.55, z + h), (edge, 0.55, z - h)], (150, 110, 66))
    canvas.face(top, (206, 164, 110))
    canvas.face(front, (182, 138, 86))
    canvas.face(inside(front, 0.44, 0.56, 0, 1), (214, 186, 140))


# --- scenery, without questions ---


def draw_lamp(canvas: Canvas, x: float, z: float) -> None:
    """A street lamp, 7 m, its arm towards the road; on when it is dark."""
    canvas.label(0)
    f = Figure(canvas, Thing("lamp", "lamp", x, z))
    f.shape([(-0.07, 0), (0.07, 0), (0.05, 7), (-0.05, 7)], (86, 90, 96))
    reach = -1.5 if x > 0 else 1.5
    f.shape([(0, 6.95), (reach, 7.15), (reach, 7.25), (0, 7.05)], (86, 90, 96))
    on = canvas.air.dark > 0.4
    head = f.p(reach, 7.1)
    f.shape([(reach - 0.4, 7.05), (reach + 0.4, 7.05), (reach + 0.3, 7.25), (reach - 0.3, 7.25)], (70, 72, 76))
    if on:
        canvas.disc(head, 0.18, (255, 232, 180), glowing=True)
        canvas.glow(head, 0.45, (255, 206, 130), streak=False)


def draw_tree(canvas: Canvas, x: float, z: float, rng: random.Random) -> None:
    """A round-headed tree, white on top when it snows."""
    canvas.label(0)
    height = rng.uniform(4.2, 6.5)
    f = Figure(canvas, Thing("tree", "tree", x, z), height / 5)
    f.shape([(-0.14, 0), (0.14, 0), (0.09, 2.4), (-0.09, 2.4)], (88, 68, 50))
    green = rng.choice(((62, 98, 54), (76, 110, 58), (54, 88, 60)))
    if canvas.air.sand:
        green = (112, 108, 66)
    blobs = []
    for _ in range(16):
        turn, out = rng.uniform(0, 2 * math.pi), rng.uniform(0.2, 1.0)
        blobs.append((1.05 * out * math.cos(turn), 3.5 + 1.0 * out * math.sin(turn), rng.uniform(0.42, 0.72)))
    for u, v, r in sorted(blobs, key=lambda b: b[1]):
        lift = (v - 2.5) / 2  # lighter, or whiter, towards the top
        cover = canvas.air.white * max(0.0, lift) * 0.85
        red, grn, blue = (c * (0.78 + 0.3 * lift) for c in green)
        f.ball(
            u, v, r, (int(red + (236 - red) * cover), int(grn + (240 - grn) * cover), int(blue + (244 - blue) * cover))
        )


WALLS: tuple[RGB, ...] = (
    (170, 128, 104),
    (186, 176, 158),
    (148, 152, 160),
    (196, 164, 120),
    (132, 112, 108),
    (206, 198, 186),
)
PANE, PANE_LIT = (84, 98, 112), (250, 212, 130)


def draw_house(canvas: Canvas, x0: float, z0: float, z1: float, height: float, rng: random.Random, side: int) -> None:
    """A block of flats from z0 to z1 whose front at x0 faces the road; side -1: left of it, 1: right."""
    canvas.label(0)
    wall = rng.choice(WALLS)
    depth = x0 + side * 10
    front: list[Point3] = [(x0, 0, z0), (x0, 0, z1), (x0, height, z1), (x0, height, z0)]
    faces: list[tuple[list[Point3], int]] = [(front, max(1, round((z1 - z0) / 3)))]
    # The gables are perpendicular to the road: the near one occludes the far one.
    for z, seen in ((z0, z0 > 0), (z1, z1 < 0)):
        if seen:
            faces.insert(0, ([(depth, 0, z), (x0, 0, z), (x0, height, z), (depth, height, z)], 3))
    for face, panes in faces:
        canvas.face(face, wall)
        canvas.face(inside(face, 0, 1, 0.965, 1), (96, 92, 90) if not canvas.air.white else (236, 240, 244), lit=False)
        near = min(math.hypot(p[0], p[2]) for p in face)
        if near < 75:
            _windows(canvas, face, panes, height, rng)


def _windows(canvas: Canvas, face: list[Point3], columns: int, height: float, rng: random.Random) -> None:
    floors = max(2, int(height / 3.1))
    night = canvas.air.dark > 0.4
    for floor in range(floors):
        v0 = (floor + 0.28) / floors * 0.96
        for column in range(columns):
            lit = night and rng.random() < 0.42
            u0 = (column + 0.24) / columns
            pane = inside(face, u0, u0 + 0.52 / columns, v0, v0 + 0.5 / floors)
            canvas.face(pane, PANE_LIT if lit else PANE, lit=False, glowing=lit)


def draw_guardrail(canvas: Canvas, x: float, near: float, far: float) -> None:
    """A steel rail along the road, in pieces, so that haze is computed for each."""
    canvas.label(0)
    step = 1.35
    z = far
    while z > near:
        back = max(near, z / step)
        canvas.face([(x, 0.45, z), (x, 0.45, back), (x, 0.8, back), (x, 0.8, z)], (168, 172, 176), lit=False)
        f = Figure(canvas, Thing("post", "post", x, back))
        f.shape([(-0.05, 0), (0.05, 0), (0.05, 0.7), (-0.05, 0.7)], POST)
        z = back if back > near else near


Drawer = Callable[[Canvas, Thing, int], None]
FURNITURE: dict[str, Drawer] = {
    "speed_sign": draw_speed_sign,
    "stop_sign": draw_stop_sign,
    "warning_sign": draw_warning_sign,
    "direction_sign": draw_panel,
    "traffic_light": draw_traffic_light,
    "traffic_cone": draw_cone,
    "barrier": draw_barrier,
    "carton": draw_carton,
}
