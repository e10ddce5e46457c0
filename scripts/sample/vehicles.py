"""Cars, vans, trucks and buses: side outlines extruded to solids, with glass, lights, wheels and plates."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scripts.sample.air import RGB
from scripts.sample.camera import EYE, Placed, Point3, centre, inside, normal
from scripts.sample.canvas import Canvas
from scripts.sample.scene import Thing

PAINTS: dict[str, RGB] = {
    "white": (236, 236, 232),
    "black": (44, 45, 50),
    "silver": (176, 180, 186),
    "red": (190, 38, 40),
    "blue": (42, 84, 168),
    "yellow": (236, 190, 40),
    "green": (46, 122, 78),
    "orange": (228, 118, 34),
}
SKY_GLASS = (78, 92, 106)
GLASS, LIT_GLASS, TYRE, RIM, DARK = (52, 62, 74), (236, 214, 150), (28, 28, 30), (150, 152, 156), (46, 46, 50)
TAIL, BRAKE, HEAD, PLATE = (150, 24, 26), (255, 40, 36), (250, 246, 226), (238, 238, 232)


@dataclass(frozen=True)
class Body:
    """`outline`: (along from the rear, up) in metres, from the rear bottom over the roof to the front bottom.

    `parts` names the strip that starts at each point of the outline. `panes`: side windows, as outlines.
    """

    outline: tuple[tuple[float, float], ...]
    parts: tuple[str, ...]
    width: float
    panes: tuple[tuple[tuple[float, float], ...], ...]
    wheels: tuple[float, ...]
    wheel_radius: float
    start: float = 0.0  # along: where the body begins, for vehicles of two bodies
    cargo: bool = False  # a box, a shade lighter than its cab

    @property
    def length(self) -> float:
        return max(a for a, _ in self.outline)


_CAR = Body(
    ((0.0, 0.32), (0.02, 0.92), (0.50, 1.0), (1.12, 1.46), (2.55, 1.47), (3.35, 0.98), (4.30, 0.80), (4.38, 0.32)),
    ("back", "body", "glass", "body", "glass", "body", "front"),
    1.82,
    (((0.85, 1.0), (1.22, 1.36), (1.85, 1.38), (1.85, 1.0)), ((1.95, 1.0), (1.95, 1.38), (2.5, 1.37), (3.05, 1.0))),
    (0.82, 3.52),
    0.33,
)
_VAN = Body(
    ((0.0, 0.36), (0.0, 1.2), (0.12, 2.05), (3.7, 2.08), (4.45, 1.22), (5.0, 1.02), (5.05, 0.36)),
    ("back", "rear_glass", "body", "glass", "body", "front"),
    2.0,
    (((3.0, 1.2), (3.0, 1.82), (3.62, 1.82), (4.1, 1.2)),),
    (0.95, 4.1),
    0.36,
)
_CARGO = Body(
    ((0.0, 0.75), (0.0, 3.3), (5.4, 3.3), (5.4, 0.75)),
    ("doors", "body", "body"),
    2.45,
    (),
    (1.1, 2.1),
    0.48,
    cargo=True,
)
_CAB = Body(
    ((5.5, 0.5), (5.5, 2.75), (6.9, 2.75), (7.25, 1.6), (7.3, 0.5)),
    ("body", "body", "glass", "front"),
    2.4,
    (((6.0, 1.6), (6.0, 2.4), (6.7, 2.4), (7.0, 1.6)),),
    (6.4,),
    0.48,
    start=5.5,
)
_BUS = Body(
    ((0.0, 0.4), (0.0, 1.35), (0.05, 2.6), (0.1, 3.05), (10.9, 3.05), (11.0, 1.15), (11.0, 0.4)),
    ("back", "rear_glass", "body", "body", "glass", "front"),
    2.5,
    tuple(((a, 1.35), (a, 2.45), (a + 1.25, 2.45), (a + 1.25, 1.35)) for a in (0.5, 1.95, 3.4, 4.85, 6.3, 7.75, 9.2)),
    (2.4, 8.6),
    0.48,
)
_WAIST = 0.95  # metres: the sides are vertical below this height
BODIES: dict[str, tuple[Body, ...]] = {"car": (_CAR,), "van": (_VAN,), "truck": (_CARGO, _CAB), "bus": (_BUS,)}


def footprint(kind: str) -> tuple[float, float]:
    """Length and width in metres."""
    bodies = BODIES[kind]
    return max(b.length for b in bodies), max(b.width for b in bodies)


def draw_vehicle(canvas: Canvas, thing: Thing, number: int) -> None:
    """Draw the shadow, then the bodies from far to near, labelled `number`."""
    length, width = footprint(thing.kind)
    place = Placed(thing.x, thing.z, thing.heading)
    _shadow(canvas, place, length, width)
    canvas.label(number)
    bodies = sorted(BODIES[thing.kind], key=lambda b: -_distance(canvas, place, (b.start + b.length - length) / 2))
    for body in bodies:
        _Solid(canvas, thing, place, body, length).draw()
    _lamps(canvas, thing, place, length, width)


def _distance(canvas: Canvas, place: Placed, along: float) -> float:
    x, _, z = place.at(along, 0, 0)
    return canvas.camera.depth(x, z)


def _shadow(canvas: Canvas, place: Placed, length: float, width: float) -> None:
    for grow, share in ((0.3, 0.4), (0.16, 0.4), (0.04, 0.6)):
        a, w, cut = length / 2 + grow, width / 2 + grow, 0.15 + grow
        corners = [(-a, cut - w), (cut - a, -w), (a - cut, -w), (a, cut - w)]
        ring = [place.at(x, y, 0.0) for x, y in corners + [(x, -y) for x, y in reversed(corners)]]
        canvas.shadow(ring, canvas.air.shadow * share)


class _Solid:
    """One extruded body of a vehicle at its position."""

    def __init__(self, canvas: Canvas, thing: Thing, place: Placed, body: Body, length: float) -> None:
        self.canvas, self.thing, self.place, self.body, self.length = canvas, thing, place, body, length
        r, g, b = PAINTS[thing.color or "silver"]
        self.paint = ((r * 3 + 230) // 4, (g * 3 + 230) // 4, (b * 3 + 230) // 4) if body.cargo else (r, g, b)
        middle = (body.start + body.length) / 2
        self.middle = self.at(middle, 0, 1.0)

    def at(self, along: float, across: float, up: float) -> Point3:
        """A point of the body; cars and vans get narrower towards the roof."""
        if self.thing.kind in ("car", "van") and up > _WAIST:
            across *= 1 - 0.3 * (up - _WAIST)
        return self.place.at(along - self.length / 2, across, up)

    def faces_us(self, points: list[Point3]) -> bool:
        n, c = normal(points), centre(points)
        out = sum(k * (a - b) for k, a, b in zip(n, c, self.middle, strict=True))
        view = sum(k * (e - a) for k, a, e in zip(n, c, (0.0, EYE, 0.0), strict=True))
        return (view > 0) == (out > 0)

    def shows(self, side: float) -> bool:
        """Whether the camera is on the outer side of this plane."""
        a = math.radians(self.place.heading)
        ours = -self.place.x * math.cos(a) + self.place.z * math.sin(a)
        return ours > side if side > 0 else ours < side

    def draw(self) -> None:
        self.underside()
        half = self.body.width / 2
        strips = []
        for (a, b), part in zip(
            zip(self.body.outline, self.body.outline[1:], strict=False), self.body.parts, strict=True
        ):
            quad = [
                self.at(a[0], -half, a[1]),
                self.at(a[0], half, a[1]),
                self.at(b[0], half, b[1]),
                self.at(b[0], -half, b[1]),
            ]
            if part == "front":  # its outline runs downwards: keep the bottom edge first
                quad = [quad[3], quad[2], quad[1], quad[0]]
            if self.faces_us(quad):
                strips.append((quad, part))
        strips.sort(key=lambda s: -math.dist(centre(s[0]), (0.0, EYE, 0.0)))
        sides = [side for side in (-half, half) if self.shows(side)]
        end_on = [s for s in strips if s[1] in ("back", "front", "doors")]
        for quad, part in strips:
            if (quad, part) not in end_on:
                self.strip(quad, part)
        for side in sides:
            self.side(side)
        for quad, part in end_on:
            self.strip(quad, part)

    def underside(self) -> None:
        """The dark gap and the tyres under the body."""
        half = self.body.width / 2 - 0.12
        low = self.body.outline[0][1] + 0.06
        a0, a1 = self.body.start + 0.25, self.body.length - 0.25
        corners = [(a0, -half), (a0, half), (a1, half), (a1, -half)]
        for (a, w), (b, v) in zip(corners, corners[1:] + corners[:1], strict=True):
            self.canvas.face(
                [self.at(a, w, 0.16), self.at(b, v, 0.16), self.at(b, v, low), self.at(a, w, low)], (18, 18, 20)
            )
        r = self.body.wheel_radius
        for wheel in self.body.wheels:
            for side in (-half + 0.12, half - 0.12):
                for along in (wheel - r, wheel + r):
                    face = [
                        self.at(along, side - 0.11, 0),
                        self.at(along, side + 0.11, 0),
                        self.at(along, side + 0.11, r),
                        self.at(along, side - 0.11, r),
                    ]
                    self.canvas.face(face, TYRE)

    def side(self, side: float) -> None:
        face = [self.at(a, side, u) for a, u in self.body.outline]
        self.canvas.face(face, self.paint)
        sill = [self.at(a, side, u) for a, u in self._band(0.0, 0.16)]
        self.canvas.face(sill, tuple(int(c * 0.6) for c in self.paint))  # type: ignore[arg-type]
        lit = self.thing.kind == "bus" and self.canvas.air.dark > 0.4
        for pane in self.body.panes:
            self.canvas.face([self.at(a, side, u) for a, u in pane], LIT_GLASS if lit else GLASS, glowing=lit)
        if self.thing.kind == "bus":
            stripe = [self.at(a, side, u) for a, u in ((0.1, 0.75), (0.1, 0.98), (10.9, 0.98), (10.9, 0.75))]
            self.canvas.face(stripe, (238, 238, 232))
        out = side * 1.01
        for wheel in self.body.wheels:
            for radius, color in ((self.body.wheel_radius, TYRE), (self.body.wheel_radius * 0.58, RIM)):
                ring = [
                    self.at(wheel + radius * math.cos(t), out, self.body.wheel_radius + radius * math.sin(t))
                    for t in (k * math.pi / 8 for k in range(16))
                ]
                self.canvas.face(ring, color)

    def _band(self, low: float, high: float) -> list[tuple[float, float]]:
        """A strip along the foot of the side."""
        (a, u), (b, _) = self.body.outline[0], self.body.outline[-1]
        return [(a, u + low), (b, u + low), (b, u + high), (a, u + high)]

    def strip(self, quad: list[Point3], part: str) -> None:
        face, paint = self.canvas.face, self.paint
        face(quad, paint)
        if part == "glass":
            face(inside(quad, 0.07, 0.93, 0.06, 0.94), GLASS)
            face(inside(quad, 0.07, 0.93, 0.62, 0.94), SKY_GLASS)
        elif part == "rear_glass":
            face(inside(quad, 0.1, 0.9, 0.12, 0.85), GLASS)
        elif part == "doors":
            face(inside(quad, 0.495, 0.505, 0.04, 0.96), tuple(c // 2 for c in paint))  # type: ignore[arg-type]
            for u0, u1 in ((0.05, 0.16), (0.84, 0.95)):
                face(inside(quad, u0, u1, 0.02, 0.08), self.tail_color(), glowing=True)
            face(inside(quad, 0.0, 1.0, -0.06, 0.0), DARK)
        elif part == "back":
            self.rear(quad)
        elif part == "front":
            self.nose(quad)

    def tail_color(self) -> RGB:
        return BRAKE if self.thing.state == "braking" else TAIL

    def rear(self, quad: list[Point3]) -> None:
        face = self.canvas.face
        face(inside(quad, 0.0, 1.0, 0.0, 0.24), DARK)
        for u0, u1 in ((0.04, 0.24), (0.76, 0.96)):
            face(inside(quad, u0, u1, 0.6, 0.86), self.tail_color(), glowing=True)
        self.plate(inside(quad, 0.36, 0.64, 0.36, 0.58))

    def nose(self, quad: list[Point3]) -> None:
        face = self.canvas.face
        face(inside(quad, 0.0, 1.0, 0.0, 0.2), DARK)
        face(inside(quad, 0.3, 0.7, 0.5, 0.74), DARK)
        for u0, u1 in ((0.04, 0.25), (0.75, 0.96)):
            face(inside(quad, u0, u1, 0.52, 0.8), HEAD, glowing=True)
        self.plate(inside(quad, 0.38, 0.62, 0.24, 0.44))

    def plate(self, quad: list[Point3]) -> None:
        self.canvas.face(quad, PLATE, lit=False)
        if self.thing.text:
            height = abs(quad[3][1] - quad[0][1])
            self.canvas.text(centre(quad), height * 0.82, self.thing.text, (20, 30, 80), lit=True)


def _lamps(canvas: Canvas, thing: Thing, place: Placed, length: float, width: float) -> None:
    """Light halos of lamps that are on and face the camera."""
    air = canvas.air
    on = air.dark > 0.3 or air.rain > 0.3 or air.reach < 80
    for along, color, radius in ((-length / 2, BRAKE, 0.2), (length / 2, HEAD, 0.3)):
        middle = place.at(along, 0, 0.8)
        towards = sum(a * b for a, b in zip(place.at(along * 2, 0, 0), middle, strict=True))
        nearer = math.hypot(*place.at(along, 0, 0)[::2]) < math.hypot(place.x, place.z)
        if not nearer or towards == 0 or thing.state == "parked":
            continue
        braking = along < 0 and thing.state == "braking"
        if on or braking:
            k = 1.0 if braking or along > 0 else 0.4
            tone = (int(color[0] * k), int(color[1] * k), int(color[2] * k))
            for across in (-width * 0.4, width * 0.4):
                canvas.glow(place.at(along, across, 0.75), radius, tone)
