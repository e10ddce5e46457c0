"""Cars, vans, trucks, buses and the emergency services as meshes, with lamps, windows and doors."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from closedloop_plugin.core.state import Actor, ActorKind
from closedloop_plugin.worlds.embedded.camera.canvas import Canvas, Colour
from closedloop_plugin.worlds.embedded.camera.mesh import GLASS, Mesh, MeshBuilder, draw_mesh

BLINK_HZ = 1.5
SIREN_HZ = 2.0
RED, AMBER, WHITE = (255.0, 26.0, 20.0), (255.0, 160.0, 10.0), (255.0, 252.0, 235.0)
BLUE = (40.0, 80.0, 255.0)
Lit = frozenset[str]


def lit_lamps(actor: Actor, time_s: float, dark: bool) -> Lit:
    """Lamps that are lit at `time_s`: indicators and sirens blink; tail lamps and headlights are on in the dark, except
    on a parked vehicle."""
    lamps = set(actor.lamps & {"brake", "headlights", "reverse"})
    if (time_s * BLINK_HZ) % 1.0 < 0.5:
        lamps |= {"left", "right"} if "hazard" in actor.lamps else actor.lamps & {"left", "right"}
    if "siren" in actor.lamps:
        lamps.add("siren a" if (time_s * SIREN_HZ) % 1.0 < 0.5 else "siren b")
    if (dark and not actor.parked) or "headlights" in actor.lamps:
        lamps |= {"headlights", "tail"}
    return frozenset(lamps)


def draw_vehicle(canvas: Canvas, actor: Actor, time_s: float) -> None:
    """Draw a motor vehicle of four wheels or more."""
    lit = lit_lamps(actor, time_s, canvas.beams > 0)
    size = round(actor.length, 3), round(actor.width, 3), round(actor.height, 3)
    parts = parts_of(actor.kind, size, actor.colour, lit, actor.doors)
    c, s = math.cos(actor.yaw), math.sin(actor.yaw)
    dx, dy = canvas.lens.x - actor.x, canvas.lens.y - actor.y
    ahead, left = dx * c + dy * s, -dx * s + dy * c
    # The farther parts first.
    for _, _, mesh in sorted(parts, key=lambda p: -math.hypot(p[0] - ahead, p[1] - left)):
        draw_mesh(canvas, mesh, actor.x, actor.y, actor.yaw)
    _glows(canvas, actor, lit)


def _glows(canvas: Canvas, actor: Actor, lit: Lit) -> None:
    """Halos of shining lamps, stronger in the dark."""
    strength = 0.25 + 0.55 * min(canvas.beams, 1.0)
    a, b, h = actor.length / 2, actor.width / 2 * 0.8, actor.height
    dx, dy = canvas.lens.x - actor.x, canvas.lens.y - actor.y
    behind = dx * math.cos(actor.yaw) + dy * math.sin(actor.yaw) < 0
    low = 0.5 * h if h < 2 else 0.3 * h
    spots: list[tuple[float, float, float, Colour, float, float]] = []
    for side, name in ((1.0, "left"), (-1.0, "right")):
        if name in lit:
            spots.append(((-a if behind else a), side * b * 1.1, low, AMBER, 0.5, 1.0))
        if "brake" in lit and behind:
            spots.append((-a, side * b, low, RED, 0.55, 1.0))
        elif "tail" in lit and behind:
            spots.append((-a, side * b, low, RED, 0.35, 0.5))
        if "headlights" in lit and not behind:
            spots.append((a, side * b, low, WHITE, 1.0, 1.0))
        if f"siren {'a' if side > 0 else 'b'}" in lit:
            spots.append((0.0, side * b * 0.5, h, BLUE if side > 0 else RED, 1.2, 1.3))
    c, s = math.cos(actor.yaw), math.sin(actor.yaw)
    for x, y, z, colour, radius, share in spots:
        canvas.shine((actor.x + x * c - y * s, actor.y + x * s + y * c, z), radius, colour, strength * share)


@lru_cache(maxsize=512)
def parts_of(
    kind: ActorKind, size: tuple[float, float, float], colour: tuple[int, int, int], lit: Lit, doors: frozenset[str]
) -> tuple[tuple[float, float, Mesh], ...]:
    """(ahead, left, mesh) of the parts of a vehicle; cached."""
    paint: Colour = (float(colour[0]), float(colour[1]), float(colour[2]))
    if kind is ActorKind.TRUCK:
        parts = _truck(size, paint, (205.0, 203.0, 196.0), lit)
    elif kind is ActorKind.FIRETRUCK:
        parts = _truck(size, (196.0, 22.0, 18.0), (190.0, 24.0, 20.0), lit, stripe=(245.0, 240.0, 225.0))
    elif kind is ActorKind.BUS:
        parts = [(0.0, 0.0, _bus(size, paint, lit))]
    elif kind is ActorKind.AMBULANCE:
        parts = [(0.0, 0.0, _van(size, (240.0, 240.0, 236.0), lit, cross=True))]
    elif kind is ActorKind.VAN:
        parts = [(0.0, 0.0, _van(size, paint, lit))]
    else:
        parts = [(0.0, 0.0, _car(size, paint, lit, police=kind is ActorKind.POLICE))]
    parts += [_door(size, paint, side) for side in sorted(doors & {"left", "right"})]
    return tuple(parts)


def _lamps(
    b: MeshBuilder, back: np.ndarray, front: np.ndarray, lit: Lit, v: tuple[float, float], w: float = 0.2
) -> None:
    """Add lamp clusters to the end faces. `v`: heights, `w`: width, as shares. Left is the car's left."""
    tail: Colour = RED if "brake" in lit else (200.0, 12.0, 10.0) if "tail" in lit else (126.0, 18.0, 18.0)
    shine = bool(lit & {"brake", "tail"})
    middle = v[0] + 0.55 * (v[1] - v[0])
    for side, (u0, u1) in (("left", (0.03, 0.03 + w)), ("right", (0.97 - w, 0.97))):
        outer = (u0, u0 + w * 0.45) if side == "left" else (u1 - w * 0.45, u1)
        b.on(back, (u0, u1, v[0], v[1]), tail, shine)
        b.on(back, (*outer, v[0], middle), AMBER if side in lit else (168.0, 96.0, 40.0), side in lit)
        if "reverse" in lit:
            b.on(back, (u0, u1, v[0], v[0] + 0.3 * (v[1] - v[0])), WHITE, True)
    head: Colour = WHITE if "headlights" in lit else (214.0, 218.0, 222.0)
    for side, (u0, u1) in (("right", (0.04, 0.04 + w)), ("left", (0.96 - w, 0.96))):
        outer = (u0, u0 + w * 0.35) if side == "right" else (u1 - w * 0.35, u1)
        b.on(front, (u0, u1, v[0], v[1]), head, "headlights" in lit)
        b.on(front, (*outer, v[0], v[1]), AMBER if side in lit else (196.0, 150.0, 90.0), side in lit)


def _plates(b: MeshBuilder, back: np.ndarray, front: np.ndarray, top: float) -> None:
    for quad in (back, front):
        b.on(quad, (0.36, 0.64, 0.16 * top, 0.38 * top), (232.0, 232.0, 222.0))


def _dark(colour: Colour, share: float) -> Colour:
    return colour[0] * share, colour[1] * share, colour[2] * share


def _car(size: tuple[float, float, float], paint: Colour, lit: Lit, police: bool) -> Mesh:
    length, width, height = size
    a, w = length / 2, width / 2
    b = MeshBuilder()
    if police:
        paint = (238.0, 240.0, 244.0)
    belt, sill, roof = 0.6 * height, 0.15 * height, height if not police else 0.94 * height
    r = min(0.225 * height, 0.36)
    axles = (-0.3 * length, 0.31 * length)
    b.treads(axles, w, r)
    skirt = b.box((-a, a), w * 0.98, (sill, 0.34 * height), _dark(paint, 0.8))
    body = b.box((-a, a), w, (0.34 * height, belt), paint, (-a * 0.97, a * 0.93, w * 0.95))
    stripe = (24.0, 60.0, 150.0)
    for name in ("left", "right"):
        if police:
            b.on(body[name], (0.05, 0.95, 0.15, 0.75), stripe)
        for u in (0.34, 0.5, 0.7):  # door gaps
            b.on(body[name], (u, u + 0.006, 0.0, 1.0), _dark(paint, 0.45))
        b.on(skirt[name], (0.0, 1.0, 0.0, 0.35), (40.0, 40.0, 42.0))
    b.on(skirt["back"], (0.0, 1.0, 0.0, 0.6), (52.0, 52.0, 54.0))
    b.on(skirt["front"], (0.0, 1.0, 0.0, 0.6), (46.0, 46.0, 48.0))
    b.on(body["front"], (0.27, 0.73, 0.15, 0.65), (34.0, 34.0, 36.0))
    _plates(b, skirt["back"], skirt["front"], 2.2)
    _lamps(b, body["back"], body["front"], lit, (0.35, 0.9), 0.21)
    b.discs(axles, w, r)
    cabin = b.box(
        (-0.42 * length, 0.24 * length), w * 0.93, (belt, roof), paint, (-0.3 * length, 0.06 * length, w * 0.74)
    )
    b.on(cabin["back"], (0.08, 0.92, 0.14, 0.86), GLASS)
    if "brake" in lit:
        b.on(cabin["back"], (0.38, 0.62, 0.84, 0.95), RED, True)
    b.on(cabin["front"], (0.06, 0.94, 0.08, 0.9), GLASS)
    for name in ("left", "right"):
        b.on(cabin[name], (0.08, 0.48, 0.1, 0.86), GLASS)
        b.on(cabin[name], (0.52, 0.9, 0.1, 0.86), GLASS)
    if police:
        _bar(b, (-0.14 * length, -0.08 * length), w * 0.55, (roof, height + 0.06), lit)
    return b.mesh()


def _bar(b: MeshBuilder, x: tuple[float, float], half: float, z: tuple[float, float], lit: Lit) -> None:
    """Add a light bar: left half blue, right half red, lit alternately."""
    on, off = ("siren a" in lit, "siren b" in lit), 0.5
    for (y0, y1), colour, shines in (((0.0, half), BLUE, on[0]), ((-half, 0.0), RED, on[1])):
        shade = colour if shines else _dark(colour, off)
        (x0, x1), (z0, z1) = x, z
        b.face([(x0, y1, z0), (x0, y0, z0), (x0, y0, z1), (x0, y1, z1)], shade, shines)
        b.face([(x1, y0, z0), (x1, y1, z0), (x1, y1, z1), (x1, y0, z1)], shade, shines)
        b.face([(x0, y0, z1), (x1, y0, z1), (x1, y1, z1), (x0, y1, z1)], shade, shines)
    for y, shade, shines in ((half, BLUE, on[0]), (-half, RED, on[1])):
        line = [(x[1], y), (x[0], y)] if y > 0 else [(x[0], y), (x[1], y)]
        low, high = [(*p, z[0]) for p in line], [(*p, z[1]) for p in line[::-1]]
        b.face([*low, *high], shade if shines else _dark(shade, off), shines)


def _van(size: tuple[float, float, float], paint: Colour, lit: Lit, cross: bool = False) -> Mesh:
    length, width, height = size
    a, w = length / 2, width / 2
    b = MeshBuilder()
    sill, belt = 0.14 * height, 0.5 * height
    roof = 0.93 * height if cross else height
    axles, r = (-0.3 * length, 0.31 * length), min(0.17 * height, 0.37)
    b.treads(axles, w, r)
    body = b.box((-a, a), w, (sill, belt), paint, (-a, a * 0.96, w))
    b.discs(axles, w, r)
    _lamps(b, body["back"], body["front"], lit, (0.45, 0.92), 0.15)
    _plates(b, body["back"], body["front"], 0.9)
    b.on(body["front"], (0.25, 0.75, 0.4, 0.75), (36.0, 36.0, 38.0))
    for name in ("back", "front"):
        b.on(body[name], (0.0, 1.0, 0.0, 0.16), (48.0, 48.0, 50.0))
    cabin = b.box((-a, a * 0.8), w, (belt, roof), paint, (-a * 0.98, a * 0.5, w * 0.9))
    b.on(cabin["front"], (0.06, 0.94, 0.1, 0.86), GLASS)
    for u in (0.1, 0.54):
        b.on(cabin["back"], (u, u + 0.36, 0.3, 0.85), GLASS)
    b.on(body["back"], (0.495, 0.505, 0.1, 1.0), _dark(paint, 0.5))
    b.on(cabin["left"], (0.06, 0.28, 0.12, 0.82), GLASS)
    b.on(cabin["right"], (0.72, 0.94, 0.12, 0.82), GLASS)
    red = (206.0, 24.0, 24.0)
    if cross:
        for name in ("left", "right"):
            b.on(body[name], (0.0, 1.0, 0.72, 0.95), red)
            b.on(cabin[name], (0.44, 0.5, 0.2, 0.8), red)
            b.on(cabin[name], (0.39, 0.55, 0.4, 0.6), red)
        b.on(body["back"], (0.0, 1.0, 0.94, 1.0), red)
        _bar(b, (0.1 * length, 0.16 * length), w * 0.7, (roof, height), lit)
    return b.mesh()


def _bus(size: tuple[float, float, float], paint: Colour, lit: Lit) -> Mesh:
    length, width, height = size
    a, w = length / 2, width / 2
    b = MeshBuilder()
    axles = (-0.28 * length, 0.33 * length)
    b.treads(axles, w, 0.48)
    body = b.box((-a, a), w, (0.1 * height, height), paint)
    panes = max(4, int(length / 1.5))
    for name in ("left", "right"):
        b.on(body[name], (0.0, 1.0, 0.0, 0.12), (50.0, 50.0, 54.0))
        for i in range(panes):
            b.on(body[name], ((i + 0.06) / panes, (i + 0.94) / panes, 0.45, 0.84), GLASS)
    b.on(body["right"], (0.88, 0.96, 0.06, 0.86), (60.0, 72.0, 84.0))
    b.on(body["front"], (0.05, 0.95, 0.36, 0.84), GLASS)
    b.on(body["front"], (0.2, 0.8, 0.87, 0.97), (250.0, 170.0, 40.0), True)
    b.on(body["back"], (0.12, 0.88, 0.5, 0.84), GLASS)
    b.on(body["back"], (0.0, 1.0, 0.0, 0.08), (50.0, 50.0, 54.0))
    _lamps(b, body["back"], body["front"], lit, (0.12, 0.24), 0.12)
    _plates(b, body["back"], body["front"], 0.35)
    b.discs(axles, w, 0.48)
    return b.mesh()


def _truck(
    size: tuple[float, float, float], paint: Colour, load: Colour, lit: Lit, stripe: Colour | None = None
) -> list[tuple[float, float, Mesh]]:
    """A cab and a cargo box behind it, as two parts."""
    length, width, height = size
    a, w = length / 2, width / 2
    cab_from = a - min(2.2, 0.3 * length)
    chassis, sill = 0.28 * height, 0.14 * height
    b = MeshBuilder()
    axles = (-0.36 * length, -0.36 * length + 1.15) if length > 7 else (-0.3 * length,)
    b.treads(axles, w, 0.47)
    rear = b.box((-a, cab_from - 0.15), w * 0.8, (sill, chassis), (52.0, 52.0, 54.0))
    box = b.box((-a, cab_from - 0.15), w, (chassis, height), load)
    for name in ("left", "right"):
        b.on(box[name], (0.0, 1.0, 0.0, 0.05), _dark(load, 0.6))
        if stripe:
            b.on(box[name], (0.0, 1.0, 0.2, 0.36), stripe)
            b.on(box[name], (0.06, 0.94, 0.84, 0.92), (186.0, 188.0, 192.0))
            for u in (0.08, 0.38, 0.68):
                b.on(box[name], (u, u + 0.25, 0.42, 0.78), (150.0, 152.0, 156.0))
    b.on(box["back"], (0.495, 0.505, 0.03, 0.97), _dark(load, 0.5))
    b.on(box["back"], (0.0, 1.0, 0.0, 0.04), RED if stripe is None else stripe)
    _lamps(b, box["back"], box["front"], lit, (0.05, 0.15), 0.16)
    b.on(rear["back"], (0.36, 0.64, 0.2, 0.7), (232.0, 232.0, 222.0))
    b.discs(axles, w, 0.47)
    c = MeshBuilder()
    cab_top, axle = min(0.86 * height, 2.9), cab_from + 0.5 * (a - cab_from)
    c.treads((axle,), w, 0.47)
    cab = c.box((cab_from, a), w * 0.97, (sill, cab_top), paint, (cab_from, a - 0.12, w * 0.93))
    c.on(cab["front"], (0.06, 0.94, 0.5, 0.88), GLASS)
    c.on(cab["front"], (0.2, 0.8, 0.2, 0.42), (36.0, 36.0, 38.0))
    c.on(cab["left"], (0.12, 0.7, 0.52, 0.86), GLASS)
    c.on(cab["right"], (0.3, 0.88, 0.52, 0.86), GLASS)
    _lamps(c, cab["back"], cab["front"], lit - {"brake", "tail"}, (0.08, 0.18), 0.16)
    c.discs((axle,), w, 0.47)
    if stripe:
        _bar(c, (cab_from + 0.4, cab_from + 0.8), w * 0.8, (cab_top, cab_top + 0.25), lit)
    return [(-0.15 * length, 0.0, b.mesh()), (axle, 0.0, c.mesh())]


def _door(size: tuple[float, float, float], paint: Colour, side: str) -> tuple[float, float, Mesh]:
    """A front door, hinged at its front edge, 65 degrees open; both faces are drawn."""
    length, width, height = size
    sign = 1.0 if side == "left" else -1.0
    x, y = 0.2 * length, sign * width / 2
    tip = x - 1.05 * math.cos(math.radians(65)), y + sign * 1.05 * math.sin(math.radians(65))
    z0, z1, z2 = 0.2 * height, 0.6 * height, 0.95 * height
    b = MeshBuilder()
    for panel, glass in ((paint, GLASS), (_dark(paint, 0.6), GLASS)):
        low = [(x, y, z0), (*tip, z0), (*tip, z1), (x, y, z1)]
        high = [(x, y, z1), (*tip, z1), (*tip, z2), (0.6 * x + 0.4 * tip[0], 0.6 * y + 0.4 * tip[1], z2)]
        if panel is not paint:
            low, high = low[::-1], high[::-1]
        b.face(low, panel)
        frame = b.face(high, panel)
        b.face(frame + 0.14 * (frame.mean(axis=0) - frame), glass)
    return (x + tip[0]) / 2, (y + tip[1]) / 2, b.mesh()
