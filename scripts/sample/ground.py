"""Sky and ground of an image, computed per pixel: road, lines, crossing, pavements, snow and sand.

Edges are blurred by the number of metres that a pixel covers, so that lines are smooth up to the horizon. Colours are
arrays of shape (3, rows, columns), 0..255.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from PIL import Image

from scripts.sample.air import HEADLIGHTS, Air
from scripts.sample.camera import EYE, FOCAL, HEIGHT, HORIZON, WIDTH, Camera
from scripts.sample.scene import EGO_LEFT, EGO_RIGHT, LANE, Scene

Array = np.ndarray  # float32 throughout

ASPHALT, PAVEMENT, GRASS, CURB = (84, 86, 90), (158, 154, 148), (98, 128, 72), (186, 184, 178)
PAINT, YELLOW = (232, 232, 226), (226, 184, 62)
SNOW, SAND = (238, 241, 246), (206, 172, 116)
FAR = 400.0  # metres


def backdrop(scene: Scene, air: Air, camera: Camera, rng: np.random.Generator) -> Image.Image:
    """Sky above the horizon and ground below it, WIDTH x HEIGHT, without objects."""
    top = math.ceil(HORIZON)
    planes = np.concatenate([_sky(air, top, camera, rng), _ground(scene, air, top, camera, rng)], axis=1)
    np.clip(planes, 0, 255, out=planes)
    return Image.merge("RGB", [Image.fromarray(p) for p in planes.astype(np.uint8)])


def _sky(air: Air, rows: int, camera: Camera, rng: np.random.Generator) -> Array:
    k = (np.linspace(0, 1, rows, dtype=np.float32) ** 1.4)[:, None]
    sky = np.repeat(_rgb(air.sky_top) * (1 - k) + _rgb(air.sky_low) * k, WIDTH, axis=2)
    if air.clouds:
        cover = np.clip((_noise(rng, rows, WIDTH, (3, 6, 12)) - 0.52) * 3.2, 0, 1) * air.clouds * (1 - 0.75 * k)
        bright = 0.55 if air.dark > 0.4 else 1.06
        _paint(sky, cover, (air.sky_low[0] * bright, air.sky_low[1] * bright, air.sky_low[2] * bright))
    if air.sun and abs(camera.yaw) < 1:
        y, x = np.mgrid[0:rows, 0:WIDTH].astype(np.float32)
        d = np.hypot(x - 330, (y - (rows - 46)) * 1.1)
        sky += np.exp(-d / 90) * _rgb((120, 84, 30)) + np.clip((19 - d) / 3, 0, 1) * 110
    if air.dark > 0.5:
        stars = rng.random((rows, WIDTH)) > 0.9994
        sky += stars * (np.arange(rows)[:, None] < rows * 0.6) * np.float32(120)
    return sky


def _ground(scene: Scene, air: Air, top: int, camera: Camera, rng: np.random.Generator) -> Array:
    x, z, depth, size = _plane(camera.yaw, top)
    color = _surface(scene, air, x, z, size)
    color *= 1 + (_grain(HEIGHT - top) - 0.5) * 0.12
    if air.wet:
        on_road = _band(x, *scene.road, size) * air.wet
        mirror = np.clip(1 - depth / 60, 0, 1) * 0.10 + 0.16
        if air.rain:
            mirror += np.clip((_noise(rng, HEIGHT - top, WIDTH, (4, 9)) - 0.6) * 9, 0, 1) * 0.3
        _paint(color, on_road * mirror, air.sky_low)
    # The ego car's headlights, then the air in between.
    lamp = np.exp(-depth / air.reach)
    clear = lamp.copy()
    if air.dark:
        cone = np.clip(1.5 - np.abs(x) / (2.0 + 0.24 * np.maximum(z, 0)), 0, 1) * (z > 0)
        lamp *= 1 - air.dark * (1 - 0.9 * cone * np.exp(-depth / HEADLIGHTS))
    for plane, tint, haze in zip(color, air.tint, air.haze, strict=True):
        plane *= lamp * tint
        plane += haze * (1 - clear)
    return color


@cache
def _plane(yaw: float, top: int) -> tuple[Array, Array, Array, Array]:
    """World x, z, depth, and lateral metres per pixel, of every ground pixel."""
    rows = np.arange(top, HEIGHT, dtype=np.float32)[:, None] + 0.5
    depth = np.minimum(FOCAL * EYE / (rows - HORIZON), FAR)
    across = (np.arange(WIDTH, dtype=np.float32)[None, :] + 0.5 - WIDTH / 2) * depth / FOCAL
    depth = np.broadcast_to(depth, across.shape)
    a = math.radians(yaw)
    x, z = across * math.cos(a) + depth * math.sin(a), depth * math.cos(a) - across * math.sin(a)
    # A pixel covers more ground along the view than across it; lines are mostly along the view.
    skew = abs(math.sin(a))
    return x, z, depth, depth / FOCAL * (1 - skew) + depth**2 / (FOCAL * EYE) * skew


def _surface(scene: Scene, air: Air, x: Array, z: Array, size: Array) -> Array:
    left, right = scene.road
    side = PAVEMENT if scene.setting == "city" else GRASS
    color = np.empty((3, *x.shape), np.float32)
    color[:] = _rgb(side)
    if scene.setting == "city":
        _paint(color, _band(x, left - 0.25, right + 0.25, size), CURB)
    road = _band(x, left, right, size)
    junction = None
    if scene.crossing is not None and scene.setting != "highway":
        along = np.maximum(size, z**2 / (FOCAL * EYE) * 0.6)
        junction = _band(z, scene.crossing + 4.5, scene.crossing + 12.5, along)
        road = np.maximum(road, junction)
    _paint(color, road, ASPHALT)
    cover = np.clip(air.white, 0, 1) + np.clip(air.dusty, 0, 1) * 0.9
    cap = SNOW if air.white else SAND
    if cover:
        tracks = sum(_band(x, lane + d - 0.3, lane + d + 0.3, size) for lane in _lanes(scene) for d in (-0.8, 0.8))
        _paint(color, np.clip((1 - road) * 1.0 + road * (0.55 - 0.45 * tracks), 0, 1) * cover, cap)
    lines = _lines(scene, x, z, size) * road * (1 - 0.45 * cover)
    if junction is not None:
        lines *= 1 - junction
    _paint(color, lines, PAINT)
    if scene.setting != "highway":
        _paint(color, _dashes(z, size) * _line(x, EGO_LEFT, size) * (1 - 0.45 * cover) * (
            1 if junction is None else 1 - junction), YELLOW)  # fmt: skip
    if scene.crossing is not None:
        _paint(color, _zebra(scene, x, z, size) * (1 - 0.4 * cover), PAINT)
    return color


def _lanes(scene: Scene) -> list[float]:
    left = -2 if scene.setting == "highway" else -1
    return [LANE * k for k in range(left, scene.right_lanes + 1)]


def _lines(scene: Scene, x: Array, z: Array, size: Array) -> Array:
    """White paint: the edges, and dashes between lanes of one direction."""
    left, right = scene.road
    edge = right - 2.4 if scene.setting == "city" else right - 0.3
    paint = np.maximum(_line(x, left + 0.25, size), _line(x, edge, size))
    dashed = [EGO_RIGHT + LANE * k for k in range(scene.right_lanes)]
    if scene.setting == "highway":
        dashed += [EGO_LEFT, EGO_LEFT - LANE]
    for at in dashed:
        paint = np.maximum(paint, _line(x, at, size) * _dashes(z, size))
    return paint


def _zebra(scene: Scene, x: Array, z: Array, size: Array) -> Array:
    left, right = scene.road
    assert scene.crossing is not None
    along = np.maximum(size, z**2 / (FOCAL * EYE) * 0.6)
    stripes = np.clip((0.25 - np.abs((x - left) % 1.0 - 0.5)) / np.maximum(size, 1e-3) + 0.5, 0, 1)
    zone = _band(z, scene.crossing - 1.6, scene.crossing + 1.6, along) * _band(x, left + 0.3, right - 0.3, size)
    stop = _band(z, scene.crossing - 3.1, scene.crossing - 2.7, along) * _band(x, EGO_LEFT, right - 0.3, size)
    return np.maximum(stripes * zone, stop)


def _band(v: Array, low: float, high: float, size: Array) -> Array:
    """1 between low and high, with edges blurred over one pixel."""
    half = (high - low) / 2
    return np.clip((half - np.abs(v - (low + half))) / np.maximum(size, 1e-3) + 0.5, 0, 1)


def _line(x: Array, at: float, size: Array) -> Array:
    return _band(x, at - 0.07, at + 0.07, size) * np.clip(0.14 / np.maximum(size, 1e-3), 0, 1)


def _dashes(z: Array, size: Array) -> Array:
    return np.clip((1.5 - np.abs(z % 8.0 - 4.0)) / np.maximum(size * 8, 1e-3) + 0.5, 0, 1)


def _paint(color: Array, cover: Array, paint: tuple[float, float, float]) -> None:
    for plane, value in zip(color, paint, strict=True):
        plane += cover * (np.float32(value) - plane)


def _rgb(color: tuple[float, float, float]) -> Array:
    """A colour as planes, shape (3, 1, 1)."""
    return np.asarray(color, np.float32)[:, None, None]


@cache
def _grain(rows: int) -> Array:
    """Fine road texture, the same in every picture."""
    return np.random.default_rng(7).random((rows, WIDTH), np.float32)


def _noise(rng: np.random.Generator, rows: int, columns: int, octaves: tuple[int, ...]) -> Array:
    """Smooth value noise, 0..1: `octaves` cells across the height."""
    total = np.zeros((rows, columns), np.float32)
    for i, cells in enumerate(octaves):
        coarse = Image.fromarray((rng.random((cells, cells * 2)) * 255).astype(np.uint8))
        fine = coarse.resize((columns, rows), Image.Resampling.BICUBIC)
        total += np.asarray(fine, np.float32) / 255 * 0.5**i
    return total / sum(0.5**i for i in range(len(octaves)))
