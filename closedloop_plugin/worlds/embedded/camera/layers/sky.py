"""Sky layer: a panorama per weather, sampled by the direction of every pixel. Rain is drawn here too."""

from __future__ import annotations

import math
from functools import lru_cache

import cv2
import numpy as np

from closedloop_plugin.core.routes import Weather
from closedloop_plugin.worlds.embedded.camera.canvas import Canvas
from closedloop_plugin.worlds.embedded.camera.lens import PinholeLens
from closedloop_plugin.worlds.embedded.camera.lighting import light_of

AROUND = 1536  # columns for 360 degrees
RISE = 192  # rows from the horizon (last) to TOP
TOP = 1.15  # radians


@lru_cache(maxsize=8)
def panorama(weather: Weather) -> np.ndarray:
    """(RISE, 2 * AROUND, 3) uint8, two turns: column k has the map yaw -tau * k / AROUND."""
    light = light_of(weather)
    rise = (np.linspace(1.0, 0.0, RISE) * TOP)[:, None]
    turn = -np.arange(AROUND) * (math.tau / AROUND)
    share = np.sin(rise) ** 0.55
    sky = light.horizon + (light.zenith - light.horizon) * share[..., None]
    sky = np.repeat(sky, AROUND, axis=1)
    cover = _clouds(light.clouds) * np.clip(rise / 0.12, 0, 1)
    body = (0.16 + 0.84 * light.day) * np.array([238.0, 238.0, 240.0]) * (1 - 0.3 * light.clouds - 0.2 * light.rain)
    sky += (body - sky) * (cover * (0.35 + 0.45 * light.day))[..., None]
    if light.sun[2] > -0.1:
        level = np.cos(turn) * light.sun[0] + np.sin(turn) * light.sun[1]
        toward = np.cos(rise) * level + np.sin(rise) * light.sun[2]
        apart = np.arccos(np.clip(toward, -1, 1))
        shining = light.day * (1 - light.clouds) ** 0.7 * float(light.clear(150.0))
        halo = np.exp(-apart / 0.12) * 0.55 + (apart < 0.03)
        sky += (np.array([255.0, 244.0, 214.0]) - sky) * np.clip(halo * shining, 0, 1)[..., None]
    once = np.clip(np.rint(sky), 0, 255).astype(np.uint8)
    return np.concatenate([once, once], axis=1)


def _clouds(share: float) -> np.ndarray:
    """Cloud cover (RISE, AROUND) in 0..1, periodic; about `share` of the sky is covered."""
    rng = np.random.default_rng(11)
    out = np.zeros((RISE, AROUND))
    for columns, weight in ((8, 0.5), (16, 0.28), (32, 0.16), (96, 0.06)):
        noise = np.pad(rng.random((columns, columns)), ((2, 2), (2, 2)), mode="wrap")
        scale = AROUND // columns
        tall = max(scale // 4, 2)  # clouds are flat
        big = cv2.resize(noise, None, fx=scale, fy=tall, interpolation=cv2.INTER_CUBIC)
        out += weight * big[tall : tall + RISE, 2 * scale : 2 * scale + AROUND]
    return np.clip((out - (0.66 - 0.5 * share)) / 0.16, 0, 1)


@lru_cache(maxsize=16)
def _rays(width: int, height: int, focal: float) -> tuple[np.ndarray, np.ndarray]:
    """Panorama column (relative to the first) and row for every second pixel of the upper half, as cv2.convertMaps."""
    u = (np.arange(0, width + 1, 2) + 1.0 - width / 2) / focal
    v = (height / 2 - np.arange(0, (height + 1) // 2 + 1, 2) - 1.0) / focal
    turn = np.arctan(u) * (AROUND / math.tau) + AROUND / 4
    rise = np.arctan(np.maximum(v, 0)[:, None] / np.hypot(1.0, u)[None])
    row = (1 - np.minimum(rise / TOP, 1.0)) * (RISE - 1)
    columns = np.repeat(turn[None].astype(np.float32), len(v), axis=0)
    return cv2.convertMaps(columns, row.astype(np.float32), cv2.CV_16SC2)


@lru_cache(maxsize=8)  # the directions of six cameras, which change only while the ego turns
def _sky(weather: Weather, width: int, height: int, focal: float, first: int) -> np.ndarray:
    """(rows, width, 3) the upper half, horizon included; sampled at half the resolution, since the sky is smooth."""
    turn, row = _rays(width, height, focal)
    view = panorama(weather)[:, first : first + AROUND]
    half = cv2.remap(view, turn, row, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    whole = cv2.resize(half, (2 * half.shape[1], 2 * half.shape[0]), interpolation=cv2.INTER_LINEAR)
    return whole[: (height + 1) // 2, :width]


def draw_sky(image: np.ndarray, lens: PinholeLens, weather: Weather) -> None:
    """Fill the upper half."""
    yaw = math.atan2(lens.ahead[1], lens.ahead[0])
    first = round(-yaw / math.tau * AROUND - AROUND / 4) % AROUND
    image[: (lens.height + 1) // 2] = _sky(weather, lens.width, lens.height, lens.focal, first)


def draw_rain(canvas: Canvas, time_s: float) -> None:
    """Draw streaks of rain, seeded by the time: more and longer ones in heavier rain, slanted by the wind."""
    light = canvas.light
    if light.rain <= 0:
        return
    height, width = canvas.image.shape[:2]
    rng = np.random.default_rng([round(time_s * 100) & 0xFFFFFFFF, 13])
    count = int(60 + 420 * light.rain)
    near = rng.random(count) ** 2
    long = height * (0.025 + 0.075 * near)
    lean = (0.08 + 0.35 * light.wind) * long + rng.normal(0, 0.04, count) * long
    x, y = rng.random(count) * width * 1.1, rng.random(count) * height * 1.1 - 0.1 * height
    lines = np.rint(np.stack([np.column_stack([x, y]), np.column_stack([x - lean, y + long])], axis=1) * 16)
    mask = np.zeros((height, width), np.uint8)
    shade = int(26 + 34 * light.day)
    cv2.polylines(mask, list(lines.astype(np.int32)), False, shade, 1, cv2.LINE_AA, 4)
    cv2.add(canvas.image, cv2.cvtColor(mask, cv2.COLOR_GRAY2RGB), dst=canvas.image)
