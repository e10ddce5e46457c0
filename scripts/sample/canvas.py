"""The drawing surface, at twice the final size for smooth edges, with an instance mask.

The mask (one number per object) is drawn from the same outlines, so that boxes and visibility in the answers match the
pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont

from scripts.sample.air import RGB, Air
from scripts.sample.camera import FOCAL, HEIGHT, WIDTH, Camera, Point2, Point3, centre, normal
from scripts.sample.characters import STROKES, is_drawn

SCALE = 2
SUN = (-0.45, 0.8, -0.4)  # direction to the light, world frame


@dataclass(frozen=True)
class Seen:
    """An object in an image. `box`: x_min, y_min, x_max, y_max in pixels; `visible`: the share not occluded."""

    box: tuple[int, int, int, int]
    pixels: int
    visible: float

    @property
    def centre(self) -> tuple[int, int]:
        return (self.box[0] + self.box[2]) // 2, (self.box[1] + self.box[3]) // 2


@cache
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=size)


class Canvas:
    """Draws world polygons through a camera and the air. Outlines after `label(n)` belong to object n (0: none)."""

    def __init__(self, ground: Image.Image, camera: Camera, air: Air) -> None:
        self.camera, self.air = camera, air
        self.image = ground.resize((WIDTH * SCALE, HEIGHT * SCALE), Image.Resampling.BILINEAR)
        self.draw = ImageDraw.Draw(self.image, "RGBA")
        self.owners = Image.new("L", (WIDTH, HEIGHT), 0)
        self._owner_draw = ImageDraw.Draw(self.owners)
        self._owner = 0
        self._alone: dict[int, int] = {}
        self._glow = Image.new("RGB", (WIDTH // 2, HEIGHT // 2), 0)
        self._glow_draw = ImageDraw.Draw(self._glow)

    # --- instance mask ---

    def label(self, number: int) -> None:
        """The outlines that follow belong to object `number`; the previous object is complete."""
        if self._owner:
            self._alone[self._owner] = self._count(self._owner)
        self._owner = number

    def _count(self, number: int) -> int:
        return int(np.count_nonzero(np.asarray(self.owners) == number))

    def seen(self) -> dict[int, Seen]:
        """Every labelled object with at least one visible pixel."""
        self.label(0)
        owners = np.asarray(self.owners)
        found = {}
        for number, alone in self._alone.items():
            mask = owners == number
            rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
            if len(rows):
                box = (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)
                pixels = int(np.count_nonzero(mask))
                found[number] = Seen(box, pixels, pixels / alone)
        return found

    # --- drawing ---

    def flat(self, points: Sequence[Point2], color: tuple[int, ...]) -> None:
        """Draw a polygon given in pixels of the final image."""
        if len(points) < 3:
            return
        self.draw.polygon([(x * SCALE, y * SCALE) for x, y in points], fill=tuple(color))
        if self._owner or len(color) == 3:
            self._owner_draw.polygon(list(points), fill=self._owner)

    def face(self, points: Sequence[Point3], color: RGB, lit: bool = True, glowing: bool = False) -> None:
        """Draw a world polygon, shaded by its orientation to the light, its distance, and the air."""
        pixels = self.camera.polygon(points)
        if pixels:
            self.flat(pixels, self.tone(color, points, lit, glowing))

    def tone(self, color: RGB, points: Sequence[Point3], lit: bool = True, glowing: bool = False) -> RGB:
        x, _, z = centre(points)
        distance = (x * x + z * z) ** 0.5
        if lit:
            n = normal(points)
            k = 0.74 + 0.26 * abs(sum(a * b for a, b in zip(n, SUN, strict=True)))
            color = (int(color[0] * k), int(color[1] * k), int(color[2] * k))
        if glowing:
            t = max(self.air.clearness(distance), 0.55)
            r, g, b = (int(c * t + h * (1 - t)) for c, h in zip(color, self.air.haze, strict=True))
            return r, g, b
        return self.air.shade(color, distance, float(z > 0 and abs(x) < 3 + 0.45 * z))

    def shadow(self, points: Sequence[Point3], strength: float) -> None:
        """Darken the ground; not part of any object."""
        pixels = self.camera.polygon(points)
        if len(pixels) >= 3:
            owner, self._owner = self._owner, 0
            self.draw.polygon([(x * SCALE, y * SCALE) for x, y in pixels], fill=(0, 0, 0, int(255 * strength)))
            self._owner = owner

    def disc(self, p: Point3, radius: float, color: RGB, lit: bool = False, glowing: bool = False) -> None:
        """A circle of `radius` metres that faces the camera."""
        spot = self.camera.pixel(p)
        if spot is None:
            return
        depth = self.camera.depth(p[0], p[2])
        r = FOCAL * radius / depth
        fill = self.tone(color, [p, p, p], lit, glowing)
        x, y = spot
        self.draw.ellipse([(x - r) * SCALE, (y - r) * SCALE, (x + r) * SCALE, (y + r) * SCALE], fill=fill)
        self._owner_draw.ellipse([x - r, y - r, x + r, y + r], fill=self._owner)

    def glow(self, p: Point3, radius: float, color: RGB, streak: bool = True) -> None:
        """Light that spreads around a lamp, and its streak on a wet road."""
        spot = self.camera.pixel(p)
        if spot is None:
            return
        depth = self.camera.depth(p[0], p[2])
        t = max(self.air.clearness(depth), 0.35) * (0.35 + 0.65 * min(1.0, self.air.dark * 1.5 + self.air.wet * 0.3))
        fill = (int(color[0] * t), int(color[1] * t), int(color[2] * t))
        x, y = spot[0] / 2, spot[1] / 2
        r = max(1.0, FOCAL * radius / depth / 2)
        self._glow_draw.ellipse([x - r, y - r, x + r, y + r], fill=fill)
        mirrored = self.camera.pixel((p[0], -p[1], p[2]))
        if streak and self.air.wet > 0.3 and mirrored is not None:
            dim = tuple(int(c * 0.42 * self.air.wet) for c in fill)
            low = mirrored[1] / 2
            self._glow_draw.rectangle([x - r * 0.5, low - r * 5, x + r * 0.5, low + r * 7], fill=dim)

    def text(self, p: Point3, height: float, words: str, color: RGB, lit: bool = False) -> None:
        """Upright letters of `height` metres around a point, facing the camera."""
        spot = self.camera.pixel(p)
        if spot is None:
            return
        size = round(FOCAL * height / self.camera.depth(p[0], p[2]) * SCALE)
        if size < 5:
            return
        fill = self.tone(color, [p, p, p], lit, glowing=not lit and self.air.dark > 0.4)
        x, y = spot[0] * SCALE, spot[1] * SCALE
        if words.isascii():
            self.draw.text((x, y), words, fill=fill, font=font(size), anchor="mm")
            return
        widths = [size if is_drawn(one) else font(size).getlength(one) for one in words]
        x -= sum(widths) / 2
        for one, width in zip(words, widths, strict=True):
            if is_drawn(one):
                self._character(one, x, y - size / 2, size, fill)
            else:
                self.draw.text((x, y), one, fill=fill, font=font(size), anchor="lm")
            x += width

    def _character(self, one: str, x: float, y: float, size: float, fill: RGB) -> None:
        """A Chinese character in the square of `size` pixels at (x, y), with a small margin."""
        inner = 0.92 * size
        for stroke in STROKES[one]:
            points = [(x + 0.04 * size + inner * u, y + 0.04 * size + inner * v) for u, v in stroke]
            self.draw.line(points, fill=fill, width=max(1, round(0.095 * size)), joint="curve")

    def finish(self) -> Image.Image:
        """The image at its final size, with blurred light halos."""
        picture = self.image.reduce(SCALE)
        if self._glow.getbbox() is None:
            return picture
        soft = self._glow.filter(ImageFilter.GaussianBlur(3))
        wide = ImageChops.add(soft, self._glow.filter(ImageFilter.GaussianBlur(11)))
        return ImageChops.screen(picture, wide.resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR))
