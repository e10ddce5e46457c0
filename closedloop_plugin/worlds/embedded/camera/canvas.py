"""Canvas: primitives for drawing one frame (polygons, bars, spheres, textured quads, glows), with light and fog.

DrawnBodies measures which pixels show which body.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np

from closedloop_plugin.core.visibility import VisibleExtent
from closedloop_plugin.worlds.embedded.camera.lens import NEAR, PinholeLens, clip_near
from closedloop_plugin.worlds.embedded.camera.lighting import SceneLighting

SHIFT = 4  # fractional bits of OpenCV's coordinates: 1/16 pixel
MAX_PIXEL = 60000.0  # a bar or plate with an end beyond is too close to the camera and is not drawn
Colour = tuple[float, float, float]
Place = tuple[float, float, float]


def fixed(uv: np.ndarray) -> np.ndarray:
    """Continuous pixels, origin at the corner -> OpenCV's fixed point, origin at the first pixel's centre."""
    return np.rint((uv - 0.5) * (1 << SHIFT)).astype(np.int32)


@dataclass
class Canvas:
    """One frame being drawn. `image`: (H, W, 3) uint8 RGB."""

    image: np.ndarray
    lens: PinholeLens
    light: SceneLighting
    ego: tuple[float, float, float]  # x, y (m), yaw (rad), map frame: its headlights light the road
    beams: float = 0.0  # strength of the ego's headlights
    posts: tuple[tuple[float, float], ...] = ()  # x, y of lit street lamps nearby

    def lamp_light(self, x: float, y: float) -> float:
        """Light from headlights and street lamps at (x, y), in addition to sun and sky: 0..1."""
        if self.beams <= 0:
            return 0.0
        dx, dy = x - self.ego[0], y - self.ego[1]
        c, s = math.cos(self.ego[2]), math.sin(self.ego[2])
        ahead, left = dx * c + dy * s, abs(-dx * s + dy * c)
        beam = 0.0
        if ahead > 0.5:
            beam = math.exp(-ahead / 38) * max(0.0, 1.0 - (left / (2.5 + 0.42 * ahead)) ** 2)
        near = 0.0
        if self.posts:
            gap = min((px - x) ** 2 + (py - y) ** 2 for px, py in self.posts)
            near = 0.45 * math.exp(-min(gap, 2000.0) / 120)
        return self.beams * min(1.0, 0.9 * beam + near)

    def tint(self, colour: np.ndarray, gain: np.ndarray | float, distance: np.ndarray | float) -> np.ndarray:
        """Colours (..., 3) times `gain`, seen through `distance` m of air: c exp(-k d) + fog (1 - exp(-k d))."""
        clear = np.exp(-self.light.thickness * distance)
        return np.minimum(colour * gain * clear + self.light.fog * (1 - clear), 255.0)

    def flat(self, colour: Colour, x: float, y: float, distance: float) -> Colour:
        """Shaded colour of an object without a surface normal (a limb, a tree's crown) at (x, y)."""
        return self.flats((colour,), x, y, distance)[0]

    def flats(self, colours: Sequence[Colour], x: float, y: float, distance: float) -> list[Colour]:
        """Shaded colours of the parts of one object, as `flat`."""
        lamps, clear = self.lamp_light(x, y), math.exp(-self.light.thickness * distance)
        k0, k1, k2 = self.upright
        k0, k1, k2 = k0 + lamps, k1 + lamps, k2 + lamps
        mist = 1 - clear
        f0, f1, f2 = self.fog
        f0, f1, f2 = f0 * mist, f1 * mist, f2 * mist
        return [
            (min(255.0, r * k0 * clear + f0), min(255.0, g * k1 * clear + f1), min(255.0, b * k2 * clear + f2))
            for r, g, b in colours
        ]

    @cached_property
    def fog(self) -> list[float]:
        """Colour of distant objects, per channel."""
        return self.light.fog.tolist()

    @cached_property
    def upright(self) -> list[float]:
        """Light from sun and sky on an object without a surface normal, per channel."""
        return (self.light.ambient + 0.55 * self.light.direct).tolist()

    def glowing(self, colour: Colour, distance: float) -> Colour:
        """Colour of a lamp: independent of other light, and visible farther through fog than surfaces."""
        clear = math.exp(-0.4 * self.light.thickness * distance)
        r, g, b = (min(255.0, c * clear + f * (1 - clear)) for c, f in zip(colour, self.fog, strict=True))
        return r, g, b

    def fill_fixed(self, pixels: np.ndarray, colour: Sequence[float]) -> None:
        """Fill a convex polygon (N, 2) of pixels in OpenCV's fixed point."""
        cv2.fillConvexPoly(self.image, pixels, colour, cv2.LINE_AA, SHIFT)

    def polygon(self, points: np.ndarray, colour: Colour) -> None:
        """Fill a convex polygon (N, 3), map frame. `colour`: after shading, here and below."""
        local = self.lens.local(points[:, :2])
        z = points[:, 2]
        if local[:, 0].min() < NEAR:
            local, z = clip_near(local, z)
        if len(local) > 2:
            self.fill_fixed(fixed(self.lens.pixels(local, z)), colour)

    def limb(self, a: Place, b: Place, radius: float, colour: Colour) -> None:
        """Draw a round bar from a to b, map frame."""
        u0, v0, d0 = self.lens.project_point(*a)
        u1, v1, d1 = self.lens.project_point(*b)
        self._bar((u0, v0, d0), (u1, v1, d1), radius, colour)

    def _bar(self, a: Place, b: Place, radius: float, colour: Colour) -> None:
        """Draw a round bar between two projected points: u, v, depth."""
        (u0, v0, d0), (u1, v1, d1) = a, b
        if min(d0, d1) < NEAR or max(abs(u0), abs(v0), abs(u1), abs(v1)) > MAX_PIXEL:
            return
        width = int(min(4 * radius * self.lens.focal / (d0 + d1) + 0.5, 4000.0))
        p, q = (round(u0 * 16) - 8, round(v0 * 16) - 8), (round(u1 * 16) - 8, round(v1 * 16) - 8)
        cv2.line(self.image, p, q, colour, max(width, 1), cv2.LINE_AA, SHIFT)

    def capsules(self, ends: np.ndarray, parts: Sequence[tuple[float, bool, Colour]]) -> None:
        """Draw bars and spheres in order. `ends`: (2, n, 3) map points; `parts`: radius, whether a sphere, colour."""
        u, v, depth = self.lens.project_each(ends.reshape(-1, 3))
        places = list(zip(u.tolist(), v.tolist(), depth.tolist(), strict=True))
        for a, b, (radius, round_, colour) in zip(places, places[len(parts) :], parts, strict=False):
            if round_:
                self._disc(a, radius, colour)
            else:
                self._bar(a, b, radius, colour)

    def ball(self, centre: Place, radius: float, colour: Colour) -> None:
        """Draw a sphere."""
        self._disc(self.lens.project_point(*centre), radius, colour)

    def _disc(self, centre: Place, radius: float, colour: Colour) -> None:
        """Draw a sphere around a projected point: u, v, depth."""
        u, v, depth = centre
        if depth < NEAR or max(abs(u), abs(v)) > MAX_PIXEL:
            return
        size = min(radius * self.lens.focal / depth, 4000.0)
        p = round(u * 16) - 8, round(v * 16) - 8
        cv2.circle(self.image, p, max(int(size * 16), 8), colour, -1, cv2.LINE_AA, SHIFT)

    def ring(self, points: np.ndarray, radius: float, colour: Colour) -> None:
        """Draw a closed tube through (N, 3) map points."""
        uv, depth = self.lens.project(points)
        if depth.min() < NEAR or np.abs(uv).max() > MAX_PIXEL:
            return
        width = max(1, int(2 * radius * self.lens.focal / float(depth.mean()) + 0.5))
        cv2.polylines(self.image, [fixed(uv)], True, colour, min(width, 255), cv2.LINE_AA, SHIFT)

    def plate(self, corners: np.ndarray, picture: np.ndarray, gain: float = 1.0) -> None:
        """Draw a picture (h, w, 4) RGBA on a quad (4, 3): top left, top right, bottom right, bottom left."""
        uv, depth = self.lens.project(corners)
        if depth.min() < NEAR or np.abs(uv).max() > MAX_PIXEL:
            return
        h, w = self.image.shape[:2]
        x0, y0 = np.floor(np.maximum(uv.min(axis=0), 0)).astype(int).tolist()
        x1, y1 = np.ceil(np.minimum(uv.max(axis=0), (w, h))).astype(int).tolist()
        if x1 <= x0 or y1 <= y0:
            return
        size = picture.shape[1], picture.shape[0]
        while min(size) > 2.5 * max(x1 - x0, y1 - y0, 8):  # a mip level: small plates alias otherwise
            size = size[0] // 2, size[1] // 2
        if size[0] != picture.shape[1]:
            picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        corner = np.array([[0, 0], [size[0], 0], [size[0], size[1]], [0, size[1]]], np.float32) - 0.5
        target = (uv - (x0, y0) - 0.5).astype(np.float32)
        tx, ty = target[:, 0], target[:, 1]
        # Twice the signed area by the shoelace formula, pixels2.
        if abs(float(np.dot(tx, np.roll(ty, -1)) - np.dot(ty, np.roll(tx, -1)))) / 2 < 1.0:
            return
        warp = cv2.getPerspectiveTransform(corner, target)
        shown = cv2.warpPerspective(picture, warp, (x1 - x0, y1 - y0)).astype(np.float32)
        x, y = float(corners[:, 0].mean()), float(corners[:, 1].mean())
        light = self.light.ambient + 0.55 * self.light.direct + self.lamp_light(x, y)
        alpha = shown[..., 3:] / 255
        colour = self.tint(shown[..., :3] / np.maximum(alpha, 1e-3), light * gain, float(depth.mean()))
        part = self.image[y0:y1, x0:x1]
        part[:] = np.rint(part + (colour - part) * alpha).astype(np.uint8)

    def shine(self, centre: Place, radius: float, colour: Colour, strength: float) -> None:
        """Draw a lamp's halo, and on a wet road its reflection, elongated towards the camera."""
        self._glow(centre, radius, colour, strength, 1.0)
        if self.light.wet > 0.15:
            self._glow((centre[0], centre[1], -centre[2]), 0.8 * radius, colour, 0.75 * strength * self.light.wet, 3.0)

    def _glow(self, centre: Place, radius: float, colour: Colour, strength: float, tall: float) -> None:
        right, down, depth = self.lens.project_point(*centre)
        if depth < NEAR or strength <= 0.02 or max(abs(right), abs(down)) > MAX_PIXEL:
            return
        size = int(min(radius * self.lens.focal / depth, self.lens.width / 6))
        long = int(size * tall)
        u, v = math.floor(right), math.floor(down)
        if size < 1:
            return
        x0, x1 = max(u - size, 0), min(u + size + 1, self.lens.width)
        y0, y1 = max(v - long, 0), min(v + long + 1, self.lens.height)
        if x1 <= x0 or y1 <= y0:
            return
        dx = (np.arange(x0, x1) - u) / size
        dy = (np.arange(y0, y1) - v) / long
        fall = np.maximum(0.0, 1.0 - np.hypot(dx[None], dy[:, None])) ** 2
        fall *= strength * float(self.light.clear(0.5 * depth))
        halo = np.rint(fall[..., None] * np.asarray(colour)).astype(np.uint8)
        part = self.image[y0:y1, x0:x1]
        part[:] = cv2.add(part, halo)


CONTRAST = 12  # of 255, in the channel that differs most


class DrawnBodies:
    """Measures during the drawing of a picture which of its pixels show which body.

    Call `drawn` after each body, from the back to the front, then read `extents`. `image`: (H, W, 3) uint8, the picture
    that is being drawn. A pixel belongs to the last body whose drawing changed it by CONTRAST or more: what has the
    colour of its background, in the dark or in fog, is not visible, and what is covered later is hidden.
    """

    def __init__(self, image: np.ndarray) -> None:
        self._before = image.copy()
        self._owner = np.zeros(image.shape[:2], np.int32)  # 0: no body that was asked about
        self._keys: list[str] = []
        self._whole: dict[str, np.ndarray] = {}  # pixels that each body changed
        self._lights: dict[str, np.ndarray] = {}

    def drawn(self, key: str | None, image: np.ndarray, unlit: np.ndarray | None = None) -> None:
        """Note the pixels that changed since the last call. key: of the body; None: it only hides others.

        unlit: the picture with the same signal, but without its light.
        """
        changed = _differ(self._before, image)
        np.copyto(self._before, image)
        if key is None:
            self._owner[changed] = 0
            return
        if key not in self._whole:
            self._keys.append(key)
            self._whole[key] = changed
        else:
            self._whole[key] = self._whole[key] | changed
        self._owner[changed] = self._keys.index(key) + 1
        if unlit is not None:
            light = _differ(unlit, image)
            self._lights[key] = self._lights.get(key, np.zeros_like(light)) | light

    def extents(self) -> Mapping[str, VisibleExtent]:
        """By key; bodies of which nothing was drawn are left out."""
        found = {}
        for number, key in enumerate(self._keys, 1):
            mine = self._owner == number
            pixels, whole = int(np.count_nonzero(mine)), int(np.count_nonzero(self._whole[key]))
            if not whole:
                continue
            lit = int(np.count_nonzero(mine & self._lights[key])) if key in self._lights else 0
            found[key] = VisibleExtent(_box(mine) if pixels else None, pixels, pixels / whole, lit)
        return found


def _differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(H, W) whether two pictures differ by CONTRAST or more in any channel."""
    alike = cv2.inRange(cv2.absdiff(a, b), (0, 0, 0), (CONTRAST - 1,) * 3)  # 255 where all channels are in the range
    return np.asarray(alike == 0)


def _box(mask: np.ndarray) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
