"""Polygon meshes in the body's frame: ahead, left, up (m), origin at the centre on the ground.

Faces are drawn in the order in which they were added, without those that face away. So a detail on a face (a window, a
lamp) is added after the face, and a part on top of a body after the body.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from closedloop_plugin.worlds.embedded.camera.canvas import Canvas, Colour, fixed
from closedloop_plugin.worlds.embedded.camera.lens import NEAR

GLASS = (38.0, 46.0, 56.0)


@dataclass(frozen=True)
class Mesh:
    """`points` (V, 3); face i is points[starts[i]:starts[i + 1]], seen from the side its normal points to."""

    points: np.ndarray
    starts: tuple[int, ...]
    normals: np.ndarray  # (F, 3)
    middles: np.ndarray  # (F, 3)
    colours: np.ndarray  # (F, 3)
    shining: np.ndarray  # (F,) bool: lamps, which are not shaded


class MeshBuilder:
    """Collects faces. Corners are counter-clockwise as seen from outside."""

    def __init__(self) -> None:
        self.faces: list[np.ndarray] = []
        self.colours: list[Colour] = []
        self.shining: list[bool] = []

    def face(
        self, corners: Sequence[Sequence[float]] | np.ndarray, colour: Colour, shining: bool = False
    ) -> np.ndarray:
        quad = np.asarray(corners, dtype=float)
        self.faces.append(quad)
        self.colours.append(colour)
        self.shining.append(shining)
        return quad

    def on(
        self, quad: np.ndarray, box: tuple[float, float, float, float], colour: Colour, shining: bool = False
    ) -> None:
        """Add a part of a quad: (u0, u1, v0, v1) are shares along its first edge and up its second."""
        u0, u1, v0, v1 = box
        a, b, c, d = quad
        at = [
            (1 - v) * ((1 - u) * a + u * b) + v * ((1 - u) * d + u * c)
            for u, v in ((u0, v0), (u1, v0), (u1, v1), (u0, v1))
        ]
        self.face(at, colour, shining)

    def box(
        self, x: tuple[float, float], half: float, z: tuple[float, float], colour: Colour, top: Sequence[float] = ()
    ) -> dict[str, np.ndarray]:
        """Add a box from x[0] to x[1], `half` wide to each side; `top`: x0, x1 and half width of a smaller top.

        Returns its quads by name (front, back, left, right, top), each from its lower left as seen from outside.
        """
        x0, x1 = x
        t0, t1, th = top or (x0, x1, half)
        z0, z1 = z
        low = {"br": (x0, -half, z0), "bl": (x0, half, z0), "fr": (x1, -half, z0), "fl": (x1, half, z0)}
        high = {"br": (t0, -th, z1), "bl": (t0, th, z1), "fr": (t1, -th, z1), "fl": (t1, th, z1)}
        sides = {"back": ("bl", "br"), "front": ("fr", "fl"), "left": ("fl", "bl"), "right": ("br", "fr")}
        quads = {n: self.face([low[a], low[b], high[b], high[a]], colour) for n, (a, b) in sides.items()}
        quads["top"] = self.face([high["br"], high["fr"], high["fl"], high["bl"]], colour)
        return quads

    def treads(self, axles: Sequence[float], half: float, radius: float, width: float = 0.24) -> None:
        """Add front and rear views of the wheels of axles. Call before adding the body, which covers most of them."""
        dark = (20.0, 20.0, 22.0)
        for x, (y0, y1) in product(axles, ((half - width, half), (-half, width - half))):
            for at, (p, q) in ((x - radius, (y1, y0)), (x + radius, (y0, y1))):
                self.face([(at, p, 0), (at, q, 0), (at, q, radius), (at, p, radius)], dark)

    def discs(self, axles: Sequence[float], half: float, radius: float) -> None:
        """Add the outer sides of the wheels of axles. Call after adding the body."""
        for x, y in product(axles, (half + 0.01, -half - 0.01)):
            angle = np.arange(14) * (math.tau / 14) * -math.copysign(1.0, y)  # counter-clockwise as seen from outside
            for size, colour in ((1.0, (24.0, 24.0, 26.0)), (0.6, (128.0, 130.0, 134.0)), (0.2, (60.0, 60.0, 62.0))):
                self.face(
                    [(x + size * radius * math.cos(a), y, radius + size * radius * math.sin(a)) for a in angle], colour
                )

    def mesh(self) -> Mesh:
        normals = []
        for quad in self.faces:
            after = np.roll(quad, -1, axis=0)
            normal = np.cross(quad, after).sum(axis=0)  # Newell's method: correct for any planar polygon
            normals.append(normal / max(float(np.linalg.norm(normal)), 1e-9))
        return Mesh(
            points=np.concatenate(self.faces),
            starts=tuple(np.r_[0, np.cumsum([len(f) for f in self.faces])].tolist()),
            normals=np.array(normals),
            middles=np.array([f.mean(axis=0) for f in self.faces]),
            colours=np.array(self.colours, dtype=float),
            shining=np.array(self.shining),
        )


def place(points: np.ndarray, x: float, y: float, yaw: float) -> np.ndarray:
    """(N, 3) points in a body's frame -> map frame: rotation by yaw, then translation."""
    c, s = math.cos(yaw), math.sin(yaw)
    out = points.copy()
    out[:, 0] = x + points[:, 0] * c - points[:, 1] * s
    out[:, 1] = y + points[:, 0] * s + points[:, 1] * c
    return out


def draw_mesh(canvas: Canvas, mesh: Mesh, x: float, y: float, yaw: float) -> None:
    """Draw the faces that are turned to the camera, with sun, lamps and fog."""
    lens, light = canvas.lens, canvas.light
    c, s = math.cos(yaw), math.sin(yaw)
    dx, dy = lens.x - x, lens.y - y
    eye = np.array([dx * c + dy * s, -dx * s + dy * c, lens.up])
    faces = np.flatnonzero(((mesh.middles - eye) * mesh.normals).sum(axis=1) < 0)
    if not len(faces):
        return
    world = place(mesh.points, x, y, yaw)
    uv, depth = lens.project(world)
    if float(depth.max()) < NEAR:
        return
    sun = np.array([light.sun[0] * c + light.sun[1] * s, -light.sun[0] * s + light.sun[1] * c, light.sun[2]])
    facing = np.maximum(0.0, mesh.normals[faces] @ sun)[:, None]
    up = 0.82 + 0.18 * np.maximum(0.0, mesh.normals[faces, 2:3])
    gain = light.ambient * up + light.direct * facing * 1.25 + canvas.lamp_light(x, y)
    distance = float(math.hypot(dx, dy))
    colours = canvas.tint(mesh.colours[faces], gain, distance)
    shining = mesh.shining[faces]
    if shining.any():
        colours[shining] = canvas.tint(mesh.colours[faces][shining], 1.0, 0.4 * distance)
    shades = colours.tolist()
    starts = mesh.starts
    if float(depth.min()) < NEAR:
        for face, shade in zip(faces.tolist(), shades, strict=True):
            canvas.polygon(world[starts[face] : starts[face + 1]], tuple(shade))
        return
    pixels = fixed(uv)
    for face, shade in zip(faces.tolist(), shades, strict=True):
        canvas.fill_fixed(pixels[starts[face] : starts[face + 1]], shade)
