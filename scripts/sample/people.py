"""People, cyclists and animals: flat figures that face the camera, in metres."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.sample.air import RGB
from scripts.sample.camera import Camera, Point3
from scripts.sample.canvas import Canvas
from scripts.sample.scene import Thing
from scripts.sample.vehicles import PAINTS

SKINS: tuple[RGB, ...] = ((232, 190, 160), (196, 146, 110), (128, 86, 60))
TROUSERS, SHOE, HAIR, VEST, STRIPE = (54, 60, 80), (30, 28, 28), (48, 36, 30), (248, 214, 32), (240, 240, 230)


class Figure:
    """A flat figure at an object's position: u metres to the camera's right, v metres up."""

    def __init__(self, canvas: Canvas, thing: Thing, size: float = 1.0, flip: bool = False) -> None:
        self.canvas, self.thing, self.size, self.sign = canvas, thing, size, -1 if flip else 1
        self.right = _right_of(canvas.camera)

    def p(self, u: float, v: float) -> Point3:
        u *= self.size * self.sign
        return (self.thing.x + u * self.right[0], v * self.size, self.thing.z + u * self.right[1])

    def shape(self, points: Sequence[tuple[float, float]], color: RGB) -> None:
        self.canvas.face([self.p(u, v) for u, v in points], color, lit=False)

    def limb(self, a: tuple[float, float], b: tuple[float, float], width: float, color: RGB) -> None:
        """A thick line with round ends."""
        du, dv = b[0] - a[0], b[1] - a[1]
        n = (du * du + dv * dv) ** 0.5 or 1.0
        pu, pv = -dv / n * width / 2, du / n * width / 2
        self.shape(
            [(a[0] + pu, a[1] + pv), (b[0] + pu, b[1] + pv), (b[0] - pu, b[1] - pv), (a[0] - pu, a[1] - pv)], color
        )
        for u, v in (a, b):
            self.ball(u, v, width / 2, color)

    def ball(self, u: float, v: float, radius: float, color: RGB) -> None:
        self.canvas.disc(self.p(u, v), radius * self.size, color)

    def ground(self, half: float) -> None:
        x, z, h = self.thing.x, self.thing.z, half * self.size
        ring = [
            (x + h * a, 0.0, z + h * 0.5 * b) for a, b in ((-1, -0.6), (0, -1), (1, -0.6), (1, 0.6), (0, 1), (-1, 0.6))
        ]
        self.canvas.shadow(ring, self.canvas.air.shadow)


def _right_of(camera: Camera) -> tuple[float, float]:
    """World (x, z) of one metre to the right in the image."""
    ex, ez = camera.turn((1.0, 0.0, 0.0)), camera.turn((0.0, 0.0, 1.0))
    return ex[0], ez[0]


def draw_person(canvas: Canvas, thing: Thing, number: int) -> None:
    """A pedestrian, child or road worker; the pose depends on `state`; with an umbrella in rain."""
    figure = Figure(canvas, thing, 0.66 if thing.kind == "child" else 1.0, flip=thing.heading > 180)
    figure.ground(0.4)
    canvas.label(number)
    skin = SKINS[sum(map(ord, thing.key)) % 3]
    shirt = VEST if thing.kind == "worker" else PAINTS[thing.color or "blue"]
    stride = 0.26 if thing.state in ("crossing", "moving", "walking") else 0.09
    for foot, hip in ((-stride, -0.07), (stride, 0.07)):
        figure.limb((hip, 0.86), (foot, 0.08), 0.17, TROUSERS)
        figure.limb((foot - 0.02, 0.05), (foot + 0.1, 0.05), 0.1, SHOE)
    far, near = ((-0.3, 1.02), (0.27, 0.98)) if stride > 0.2 else ((-0.27, 0.86), (0.27, 0.86))
    figure.limb((-0.2, 1.38), far, 0.12, _dim(shirt))
    figure.shape([(-0.22, 1.45), (0.22, 1.45), (0.19, 0.82), (-0.19, 0.82)], shirt)
    if thing.kind == "worker":
        figure.shape([(-0.21, 1.18), (0.21, 1.18), (0.205, 1.1), (-0.205, 1.1)], STRIPE)
    figure.limb((0.2, 1.38), near, 0.12, _dim(shirt))
    figure.limb((0, 1.45), (0, 1.54), 0.12, skin)
    figure.ball(0, 1.65, 0.13, skin)
    cap = VEST if thing.kind == "worker" else HAIR
    figure.shape([(-0.135, 1.66), (-0.11, 1.76), (0, 1.8), (0.11, 1.76), (0.135, 1.66), (0.08, 1.7), (-0.1, 1.7)], cap)
    if canvas.air.rain and thing.kind == "pedestrian":
        figure.limb((0.2, 1.1), (0.12, 2.0), 0.03, SHOE)
        cover = [(-0.5, 1.86), (-0.4, 2.06), (-0.12, 2.2), (0.12, 2.23), (0.36, 2.2), (0.64, 2.06), (0.74, 1.86)]
        figure.shape(cover, PAINTS["black" if thing.color != "black" else "red"])


def draw_cyclist(canvas: Canvas, thing: Thing, number: int) -> None:
    """A cyclist, from the side if crossing the view, else from behind or from the front."""
    turn = (thing.heading - canvas.camera.yaw) % 360
    across = 45 < turn < 135 or 225 < turn < 315
    figure = Figure(canvas, thing, 1.0, flip=turn > 180)
    figure.ground(0.8 if across else 0.35)
    canvas.label(number)
    skin = SKINS[sum(map(ord, thing.key)) % 3]
    shirt = PAINTS[thing.color or "orange"]
    if across:
        _side_cyclist(figure, shirt, skin)
    else:
        _end_cyclist(figure, shirt, skin, seen_from_behind=turn < 90 or turn > 270)


def _side_cyclist(f: Figure, shirt: RGB, skin: RGB) -> None:
    for u in (-0.52, 0.52):
        f.ball(u, 0.34, 0.34, SHOE)
        f.ball(u, 0.34, 0.27, f.canvas.air.haze if f.canvas.air.dark < 0.4 else (60, 60, 66))
        f.ball(u, 0.34, 0.05, SHOE)
    frame = (40, 92, 150)
    for a, b in (
        ((-0.52, 0.34), (-0.15, 0.85)),
        ((-0.15, 0.85), (0.38, 0.8)),
        ((0.38, 0.8), (0.02, 0.32)),
        ((0.02, 0.32), (-0.52, 0.34)),
        ((0.02, 0.32), (-0.15, 0.85)),
        ((0.52, 0.34), (0.36, 0.98)),
    ):
        f.limb(a, b, 0.05, frame)
    f.limb((-0.15, 0.95), (0.16, 0.72), 0.15, TROUSERS)
    f.limb((0.16, 0.72), (0.05, 0.28), 0.13, TROUSERS)
    f.limb((-0.13, 1.0), (0.12, 1.45), 0.26, shirt)
    f.limb((0.13, 1.42), (0.38, 1.05), 0.1, _dim(shirt))
    f.ball(0.2, 1.68, 0.13, skin)
    f.shape([(0.05, 1.7), (0.1, 1.82), (0.22, 1.86), (0.33, 1.8), (0.36, 1.7)], PAINTS["red"])


def _end_cyclist(f: Figure, shirt: RGB, skin: RGB, seen_from_behind: bool) -> None:
    f.limb((0, 0.06), (0, 0.62), 0.08, SHOE)
    for side in (-1, 1):
        f.limb((0.1 * side, 0.95), (0.14 * side, 0.55), 0.15, TROUSERS)
        f.limb((0.14 * side, 0.55), (0.11 * side, 0.28 + 0.1 * side), 0.12, TROUSERS)
        f.limb((0.2 * side, 1.4), (0.31 * side, 1.08), 0.1, _dim(shirt))
    f.limb((-0.32, 1.05), (0.32, 1.05), 0.04, SHOE)
    f.shape([(-0.2, 1.46), (0.2, 1.46), (0.16, 0.88), (-0.16, 0.88)], shirt)
    f.ball(0, 1.64, 0.13, HAIR if seen_from_behind else skin)
    f.shape([(-0.15, 1.66), (-0.12, 1.78), (0, 1.83), (0.12, 1.78), (0.15, 1.66)], PAINTS["red"])
    if seen_from_behind:
        f.ball(0, 0.72, 0.05, (255, 40, 36))
        if f.canvas.air.dark > 0.4:
            f.canvas.glow(f.p(0, 0.72), 0.1, (200, 20, 16))


def draw_dog(canvas: Canvas, thing: Thing, number: int) -> None:
    figure = Figure(canvas, thing, 1.0, flip=thing.heading > 180)
    figure.ground(0.45)
    canvas.label(number)
    fur = (148, 102, 62)
    for u in (-0.3, -0.2, 0.2, 0.3):
        figure.limb((u, 0.36), (u + 0.03, 0.03), 0.08, _dim(fur))
    figure.limb((-0.28, 0.45), (0.28, 0.46), 0.27, fur)
    figure.limb((-0.36, 0.52), (-0.54, 0.7), 0.06, fur)
    figure.limb((0.28, 0.52), (0.42, 0.7), 0.16, fur)
    figure.ball(0.46, 0.73, 0.12, fur)
    figure.limb((0.5, 0.7), (0.63, 0.68), 0.09, fur)
    figure.limb((0.4, 0.8), (0.35, 0.66), 0.07, (84, 56, 36))


def _dim(color: RGB) -> RGB:
    return (int(color[0] * 0.86), int(color[1] * 0.86), int(color[2] * 0.86))
