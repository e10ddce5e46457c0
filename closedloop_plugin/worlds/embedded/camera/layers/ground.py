"""Ground layer: surfaces, paint, kerbs, shadows, reflections on a wet road. Vector graphics, projected in every frame.

All ground points in a row of a level camera have the same depth, so fog and reflection are factors per row. Surfaces
are sharp at any distance and need no texture; a small repeating grain, warped onto the plane, structures the asphalt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import cv2
import numpy as np

from closedloop_plugin.worlds.embedded.camera.canvas import SHIFT, Canvas, fixed
from closedloop_plugin.worlds.embedded.camera.lens import NEAR, PinholeLens, clip_near
from closedloop_plugin.worlds.embedded.camera.lighting import SceneLighting
from closedloop_plugin.worlds.embedded.camera.scenery import RoadMarking, StaticScenery

KERB = 0.16  # m, height of a sidewalk
GRAIN_SIZE = 512
GRAIN_PER_M = 16.0
GRAIN_FAR = 45.0  # m: grain would alias beyond
PERIOD = GRAIN_SIZE / GRAIN_PER_M  # m
TILES = 4  # repetitions of the grain: 128 m, more than GRAIN_FAR in any direction
SURFACES = {
    "asphalt": (92.0, 93.0, 97.0),
    "junction": (92.0, 93.0, 97.0),
    "shoulder": (108.0, 107.0, 105.0),
    "parking": (112.0, 108.0, 106.0),
    "bicycle": (150.0, 84.0, 74.0),
    "sidewalk": (172.0, 167.0, 158.0),
}
KERBSTONE = (205.0, 203.0, 196.0)
GRASS = np.array([104.0, 128.0, 72.0])
PAVING = np.array([140.0, 138.0, 126.0])
PAINTS = {"white": np.array([236.0, 236.0, 232.0]), "yellow": np.array([240.0, 190.0, 30.0])}


@lru_cache(maxsize=1)
def grain() -> np.ndarray:
    """Seamless noise texture, GRAIN_SIZE pixels square, uint8 around 128; repeated TILES times in each direction.

    Sampling within a texture is twice as fast as across its border.
    """
    rng = np.random.default_rng(7)
    out = np.zeros((GRAIN_SIZE, GRAIN_SIZE), np.float32)
    for size, weight in ((512, 8.0), (128, 5.0), (16, 7.0)):
        noise = np.pad(rng.normal(0, weight, (size, size)).astype(np.float32), 2, mode="wrap")
        step = GRAIN_SIZE // size
        big = cv2.resize(noise, None, fx=step, fy=step, interpolation=cv2.INTER_LINEAR)
        out += big[2 * step : 2 * step + GRAIN_SIZE, 2 * step : 2 * step + GRAIN_SIZE]
    return np.tile(np.clip(np.rint(128 + out), 60, 196).astype(np.uint8), (TILES, TILES))


class GroundLayer:
    """The scenery's ground. `paint`: instead of the scenery's own."""

    def __init__(self, scenery: StaticScenery, paint: tuple[PaintStrokes, ...] | None = None) -> None:
        self.areas = scenery.areas
        low = np.array([a.rings[0].min(axis=0) for a in scenery.areas]).reshape(-1, 2)
        high = np.array([a.rings[0].max(axis=0) for a in scenery.areas]).reshape(-1, 2)
        self.middle = (low + high) / 2
        self.radius = np.hypot(*(high - low).T) / 2
        self.raised = np.array([a.surface == "sidewalk" for a in scenery.areas], dtype=bool)
        self.kerbs = scenery.kerbs
        self.paint: tuple[PaintStrokes, ...] = paint_of(scenery) if paint is None else paint
        self.base = GRASS + (PAVING - GRASS) * 0.35 * scenery.urban

    def draw(self, canvas: Canvas, shadows: list[np.ndarray]) -> None:
        """Draw everything at ground level over the lower half. `shadows`: convex (N, 2) map polygons."""
        lens, far = canvas.lens, canvas.light.far
        top = (lens.height + 1) // 2
        cv2.rectangle(canvas.image, (0, top), (lens.width, lens.height), self.base.tolist(), -1)
        seen = lens.in_view(lens.local(self.middle), self.radius, far)
        flat = np.flatnonzero(seen & ~self.raised)
        colours = [SURFACES[self.areas[i].surface] for i in flat]
        self._areas(canvas, flat, 0.0, colours)
        for paint in self.paint:
            quads = paint.quads(lens, far)
            if len(quads):
                cv2.fillPoly(canvas.image, list(fixed(quads)), paint.rgb, cv2.LINE_AA, SHIFT)
        self._shade(canvas, shadows, top)
        # Sidewalks are above the road: they are drawn over it, after its light and fog.
        high = np.flatnonzero(seen & self.raised)
        self._areas(canvas, high, KERB, self._pavement(canvas, high))
        self._kerbs(canvas, min(far, 90.0))

    def _pavement(self, canvas: Canvas, which: np.ndarray) -> list[list[float]]:
        """Colour of each piece of sidewalk, with the light and fog at its centre."""
        middle = self.middle[which]
        away = np.maximum(2.0, np.hypot(middle[:, 0] - canvas.lens.x, middle[:, 1] - canvas.lens.y))
        gain = canvas.light.ambient + canvas.light.direct * max(0.0, float(canvas.light.sun[2]))
        lamps = np.array([0.6 * canvas.lamp_light(x, y) for x, y in middle.tolist()]).reshape(-1, 1)
        gain = gain * (1 - 0.2 * canvas.light.wet) + lamps
        return canvas.tint(np.array(SURFACES["sidewalk"]), gain, away[:, None]).tolist()

    def _areas(self, canvas: Canvas, which: np.ndarray, height: float, colours: Sequence[Sequence[float]]) -> None:
        """Fill areas at a height (m), projected in one call; rings across the near plane are clipped one by one."""
        rings = [(k, ring) for k, i in enumerate(which) for ring in self.areas[i].rings]
        if not rings:
            return
        local = canvas.lens.local(np.concatenate([ring for _, ring in rings]))
        pixels = fixed(canvas.lens.pixels(np.maximum(local, (NEAR, -np.inf)), height))
        ends = np.cumsum([len(ring) for _, ring in rings])
        starts = np.append(0, ends[:-1])
        nearest = np.minimum.reduceat(local[:, 0], starts).tolist()
        farthest = np.maximum.reduceat(local[:, 0], starts).tolist()
        contours: list[list[np.ndarray]] = [[] for _ in which]
        for j, (start, stop) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            if nearest[j] >= NEAR:
                contours[rings[j][0]].append(pixels[start:stop])
            elif farthest[j] >= NEAR:
                cut, _ = clip_near(local[start:stop], np.zeros(stop - start))
                if len(cut) > 2:
                    contours[rings[j][0]].append(fixed(canvas.lens.pixels(cut, height)))
        for contour, colour in zip(contours, colours, strict=True):
            if contour:
                cv2.fillPoly(canvas.image, contour, colour, cv2.LINE_AA, SHIFT)

    def _kerbs(self, canvas: Canvas, far: float) -> None:
        lens = canvas.lens
        a, b = lens.local(self.kerbs[:, :2]), lens.local(self.kerbs[:, 2:])
        middle = (a + b) / 2
        seen = lens.in_view(middle, 5.0, far) & (np.maximum(a[:, 0], b[:, 0]) > NEAR)
        # The sidewalk is on the left of a -> b, so a camera on the right sees its face. In the left-handed (ahead,
        # right) coordinates that means a positive cross product of (b - a) and (camera - a).
        facing = (b[:, 0] - a[:, 0]) * -a[:, 1] - (b[:, 1] - a[:, 1]) * -a[:, 0] > 0
        chosen = np.flatnonzero(seen & facing)
        chosen = chosen[np.argsort(-middle[chosen, 0], kind="stable")]
        if not len(chosen):
            return
        lines = np.stack([a[chosen], b[chosen], b[chosen], a[chosen]], axis=1)
        z = np.array([0.0, 0.0, KERB, KERB])
        pixels = fixed(lens.pixels(np.maximum(lines, (NEAR, -np.inf)), z))
        whole = lines[..., 0].min(axis=1) >= NEAR
        gain = np.broadcast_to(canvas.light.ambient * 0.9, (len(chosen), 3))
        if canvas.beams > 0:
            places = ((self.kerbs[chosen, :2] + self.kerbs[chosen, 2:]) / 2).tolist()
            gain = gain + 0.6 * np.array([canvas.lamp_light(*place) for place in places])[:, None]
        shades = canvas.tint(np.array(KERBSTONE), gain, np.hypot(*middle[chosen].T)[:, None]).tolist()
        for k, shade in enumerate(shades):
            if whole[k]:
                canvas.fill_fixed(pixels[k], shade)
            else:
                line, height = clip_near(lines[k], z)
                canvas.fill_fixed(fixed(lens.pixels(line, height)), shade)

    def _shade(self, canvas: Canvas, shadows: list[np.ndarray], top: int) -> None:
        """Apply light, grain, shadows, wetness and fog: one factor and one addend per pixel."""
        lens, light = canvas.lens, canvas.light
        part = canvas.image[top:]
        if not len(part):
            return
        depth = ground_depth(lens.height, lens.focal, lens.up)
        near = int(np.searchsorted(-depth, -GRAIN_FAR))
        factor = np.empty(part.shape[:2], np.uint8)
        factor[:near] = 128
        if near < len(factor):
            factor[near:] = _grain(lens, top + near, len(factor) - near)
        start = near  # rows above have the factor 1
        for shape in shadows:
            local, _ = clip_near(lens.local(shape), np.zeros(len(shape)))
            if len(local) > 2:
                pixels = lens.pixels(local, 0.0) - (0, top)
                cv2.fillConvexPoly(factor, fixed(pixels), 74, cv2.LINE_AA, SHIFT)
                start = min(start, max(0, int(pixels[:, 1].min()) - 2))
        grained = part[start:]
        if len(grained):
            cv2.multiply(grained, cv2.cvtColor(factor[start:], cv2.COLOR_GRAY2RGB), dst=grained, scale=1 / 128)
        wide, add = _row_light(light, lens.width, lens.height, lens.focal, lens.up)
        if canvas.beams > 0:
            wide = cv2.add(wide, _beam(canvas, depth, light.clear(depth)))
        cv2.multiply(part, wide, dst=part, scale=1.5 / 255)
        cv2.add(part, add, dst=part)


@lru_cache(maxsize=4)  # six cameras have two fields of view
def _row_light(light: SceneLighting, width: int, height: int, focal: float, up: float) -> tuple[np.ndarray, np.ndarray]:
    """Factor (1.5 is 255) and addend of the ground, (rows, width, 3) uint8 each: light, wetness and fog by row."""
    depth = ground_depth(height, focal, up)
    gain = light.ambient + light.direct * max(0.0, float(light.sun[2]))
    gain = gain * (1 - 0.38 * light.wet)
    clear = light.clear(depth)
    # Wet asphalt reflects the sky, more at a small grazing angle atan(height / depth).
    shine = light.wet * 0.55 * np.exp(-np.arctan2(up, depth) / 0.13)
    keep = (clear * (1 - shine))[:, None] * gain[None]
    add = clear[:, None] * shine[:, None] * light.horizon + (1 - clear)[:, None] * light.fog
    rows = np.clip(keep * 255 * 2 / 3, 0, 255)  # factors up to 1.5 scaled to a byte
    return _wide(rows, width), _wide(add, width)


def _wide(rows: np.ndarray, width: int) -> np.ndarray:
    """(rows, 3) floats -> (rows, width, 3) uint8."""
    return np.repeat(np.rint(rows).astype(np.uint8)[:, None], width, axis=1)


@lru_cache(maxsize=8)
def ground_depth(height: int, focal: float, up: float) -> np.ndarray:
    """(rows,) depth in m of the ground in each row below the horizon, at pixel centres: focal * up / (v - H / 2)."""
    rows = np.arange((height + 1) // 2, height) + 0.5 - height / 2
    return focal * up / np.maximum(rows, 0.25)


def _plane(lens: PinholeLens, top: int) -> np.ndarray:
    """Homography (3, 3): (column, row - top, 1) -> homogeneous map coordinates of the ground.

    With u, v relative to the principal point and h = lens.up, the ground point is
    position + h focal / v * ahead + h u / v * right; multiplied by v each component is linear in u and v.
    """
    u0, v0 = 0.5 - lens.width / 2, top + 0.5 - lens.height / 2
    h = lens.up
    rows = [
        [h * lens.right[i], place, place * v0 + lens.focal * h * lens.ahead[i] + u0 * h * lens.right[i]]
        for i, place in enumerate((lens.x, lens.y))
    ]
    return np.array([*rows, [0.0, 1.0, v0]])


def _grain(lens: PinholeLens, top: int, rows: int) -> np.ndarray:
    """(rows, W) uint8: the grain of the ground from row `top` on, sampled at every second pixel."""
    # Smallest x and y of the ground in view, nearer than GRAIN_FAR, moved into a period: keeps numbers small.
    side = GRAIN_FAR * lens.width / 2 / lens.focal
    low = [min(0.0, GRAIN_FAR * lens.ahead[i] - side * abs(lens.right[i])) for i in (0, 1)]
    x, y = lens.x + low[0], lens.y + low[1]
    near = replace(lens, x=lens.x - PERIOD * math.floor(x / PERIOD), y=lens.y - PERIOD * math.floor(y / PERIOD))
    warp = _plane(near, top) @ np.array([[2.0, 0.0, 0.5], [0.0, 2.0, 0.5], [0.0, 0.0, 1.0]])  # every second pixel
    warp[:2] *= GRAIN_PER_M
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    size = (lens.width + 1) // 2, (rows + 1) // 2
    half = cv2.warpPerspective(grain(), warp, size, flags=flags, borderMode=cv2.BORDER_WRAP)
    return cv2.resize(half, (2 * size[0], 2 * size[1]), interpolation=cv2.INTER_LINEAR)[:rows, : lens.width]


def _beam(canvas: Canvas, depth: np.ndarray, clear: np.ndarray) -> np.ndarray:
    """(rows, W, 3) addend to the ground's light factor from headlights and street lamps."""
    lens = canvas.lens
    step = 8  # light is smooth: computed on a coarse grid
    rows = depth[::step]
    columns = (np.arange(0, lens.width + step, step) + 0.5 - lens.width / 2) / lens.focal
    side = rows[:, None] * columns[None]
    x = lens.x + rows[:, None] * lens.ahead[0] + side * lens.right[0]
    y = lens.y + rows[:, None] * lens.ahead[1] + side * lens.right[1]
    dx, dy = x - canvas.ego[0], y - canvas.ego[1]
    c, s = math.cos(canvas.ego[2]), math.sin(canvas.ego[2])
    ahead, left = dx * c + dy * s, -dx * s + dy * c
    with np.errstate(over="ignore", under="ignore"):
        beam = np.exp(-np.maximum(ahead, 0) / 30) * np.exp(-((left / (1.6 + 0.3 * np.maximum(ahead, 0))) ** 2))
        beam = np.where(ahead > 0.5, 0.8 * beam, 0.0)
        for px, py in canvas.posts:
            beam = beam + 0.42 * np.exp(-((x - px) ** 2 + (y - py) ** 2) / 90)
    light = np.minimum(beam, 0.95) * canvas.beams * clear[::step, None] * (255 / 1.5)
    wide = cv2.resize(light.astype(np.float32), (light.shape[1] * step, len(rows) * step))
    part = cv2.convertScaleAbs(wide[: len(depth), : lens.width])  # rounded as np.rint
    warm = (part, cv2.convertScaleAbs(part, alpha=0.93), cv2.convertScaleAbs(part, alpha=0.76))
    return cv2.merge(warm)


# Road paint as short straight strokes, so that a frame projects all of one colour in one call.
DASH, GAP = 3.0, 5.0  # m
PIECE = 6.0  # m: longest stroke of a solid line
# Strokes of the letters of STOP in a box 1 wide and 1 high, y up.
LETTERS = {
    "S": ((1, 1, 0, 1), (0, 1, 0, 0.5), (0, 0.5, 1, 0.5), (1, 0.5, 1, 0), (1, 0, 0, 0)),
    "T": ((0, 1, 1, 1), (0.5, 1, 0.5, 0)),
    "O": ((0, 0, 0, 1), (0, 1, 1, 1), (1, 1, 1, 0), (1, 0, 0, 0)),
    "P": ((0, 0, 0, 1), (0, 1, 1, 1), (1, 1, 1, 0.5), (1, 0.5, 0, 0.5)),
}


@dataclass(frozen=True)
class PaintStrokes:
    """Strokes of one colour, (n, 5): x0 y0 x1 y1 width, m. They must not cross: see paint_of."""

    colour: str
    strokes: np.ndarray
    faded: float = 0.0  # share of the way from the paint's colour to the road's

    @property
    def rgb(self) -> list[float]:
        paint = PAINTS[self.colour]
        return (paint + (np.array(SURFACES["asphalt"]) - paint) * self.faded).tolist() if self.faded else paint.tolist()

    def quads(self, lens: PinholeLens, far: float) -> np.ndarray:
        """(k, 4, 2) pixel quads of the strokes in view."""
        a, b = lens.local(self.strokes[:, :2]), lens.local(self.strokes[:, 2:4])
        half = self.strokes[:, 4] / 2
        reach = np.hypot(*(b - a).T) / 2
        seen = lens.in_view((a + b) / 2, reach + half, far)
        seen &= np.maximum(a[:, 0], b[:, 0]) > NEAR + 0.02
        a, b, half = a[seen], b[seen], half[seen]
        along = b - a
        # Clip each stroke at the near plane.
        span = np.where(np.abs(along[:, 0]) < 1e-9, 1e-9, along[:, 0])
        t = np.clip((NEAR + 0.02 - a[:, 0]) / span, 0.0, 1.0)[:, None]
        cut = a + t * along
        a, b = np.where(a[:, :1] < NEAR + 0.02, cut, a), np.where(b[:, :1] < NEAR + 0.02, cut, b)
        length = np.maximum(np.hypot(*along.T), 1e-9)
        side = np.column_stack([-along[:, 1], along[:, 0]]) / length[:, None] * half[:, None]
        corners = np.stack([a + side, b + side, b - side, a - side], axis=1)
        corners[..., 0] = np.maximum(corners[..., 0], NEAR)
        return lens.pixels(corners, 0.0)


def paint_of(scenery: StaticScenery) -> tuple[PaintStrokes, ...]:
    """All paint of a scenery. Strokes that cross are in separate groups: even-odd filling would leave holes."""
    lines: dict[str, list[np.ndarray]] = {"white": [], "yellow": []}
    for marking in scenery.markings:
        lines[marking.colour] += _line(marking)
    marks = []
    for x, y, yaw, width in scenery.stop_lines.tolist():
        dx, dy = math.sin(yaw) * width / 2, -math.cos(yaw) * width / 2
        marks.append(np.array([[x - dx, y - dy, x + dx, y + dy, 0.45]]))
    marks += [
        _bars(x, y, yaw, width=width, depth=0.7, bar=0.45, period=0.9) for x, y, yaw, width in scenery.teeth.tolist()
    ]
    marks += [_stop(x, y, yaw) for x, y, yaw in scenery.words.tolist()]
    stripes = [
        _bars(x, y, yaw, width=width, depth=depth, bar=0.5, period=1.0)
        for x, y, yaw, width, depth in scenery.crosswalks.tolist()
    ]
    groups = (("white", lines["white"]), ("yellow", lines["yellow"]), ("white", stripes), ("white", marks))
    return tuple(PaintStrokes(colour, np.concatenate(group)) for colour, group in groups if group)


def _line(marking: RoadMarking) -> list[np.ndarray]:
    points = np.asarray(marking.points, dtype=float)
    if marking.style != "double":
        return [_strokes(points, marking.style == "dashed", marking.width)]
    along = np.gradient(points, axis=0)
    normal = np.column_stack([-along[:, 1], along[:, 0]]) / np.maximum(np.hypot(*along.T), 1e-9)[:, None]
    return [_strokes(points + side * marking.width * normal, False, marking.width) for side in (-1.0, 1.0)]


def _strokes(points: np.ndarray, dashed: bool, width: float) -> np.ndarray:
    along = np.r_[0.0, np.cumsum(np.hypot(*np.diff(points, axis=0).T))]
    period, dash = (DASH + GAP, DASH) if dashed else (PIECE, PIECE)
    start = np.arange(0.0, along[-1], period)
    stop = np.minimum(start + dash, along[-1])
    ends = [np.column_stack([np.interp(s, along, points[:, i]) for i in (0, 1)]) for s in (start, stop)]
    return np.column_stack([*ends, np.full(len(start), width)])


def _bars(x: float, y: float, yaw: float, width: float, depth: float, bar: float, period: float) -> np.ndarray:
    """Stripes along `yaw`, side by side across the road."""
    count = max(1, int(width / period))
    side = (np.arange(count) - (count - 1) / 2) * period
    cx, cy = x + side * math.sin(yaw), y - side * math.cos(yaw)
    dx, dy = math.cos(yaw) * depth / 2, math.sin(yaw) * depth / 2
    return np.column_stack([cx - dx, cy - dy, cx + dx, cy + dy, np.full(count, bar)])


def _stop(x: float, y: float, yaw: float) -> np.ndarray:
    """The word STOP, 2.4 m wide and 2.2 m long: stretched, since it is seen at a small angle."""
    place = [[(i * 0.66 - 1.2, -1.1)] * 2 for i, letter in enumerate("STOP") for _ in LETTERS[letter]]
    unit = np.array([stroke for letter in "STOP" for stroke in LETTERS[letter]], dtype=float).reshape(-1, 2, 2)
    p = unit * (0.42, 2.2) + np.array(place)  # (strokes, ends, right and ahead)
    px = x + p[..., 0] * math.sin(yaw) + p[..., 1] * math.cos(yaw)
    py = y - p[..., 0] * math.cos(yaw) + p[..., 1] * math.sin(yaw)
    return np.column_stack([px[:, 0], py[:, 0], px[:, 1], py[:, 1], np.full(len(p), 0.13)])
