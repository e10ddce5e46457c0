"""Draws an overview of the sandbox: the floor with its segments, and the camera image at the start of each."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from closedloop_plugin.robots.sandbox.camera import floor_picture
from closedloop_plugin.robots.sandbox.scene import SandboxScene
from closedloop_plugin.robots.sandbox.track import SandboxTrack
from closedloop_plugin.robots.vehicles.base import Vehicle
from lmms_eval_ad2.storage.files import atomic_write_bytes

PER_M = 300  # pixels per metre
COLUMNS = 5
THUMB = (240, 180)
# Distinguish neighbouring segments; Paul Tol's "bright" scheme without yellow.
COLOURS = ((102, 204, 238), (238, 102, 119), (204, 187, 255), (255, 255, 255), (120, 220, 130))


def draw_overview(vehicle: Vehicle, file: Path) -> Path:
    """Write the overview as a PNG; returns `file`."""
    scene = SandboxScene(vehicle)
    floor = _floor(scene)
    rows = -(-len(scene.track.segments) // COLUMNS)
    whole = Image.new("RGB", (COLUMNS * THUMB[0], floor.height + rows * THUMB[1]), (255, 255, 255))
    whole.paste(floor, (0, 0))
    for i, segment in enumerate(scene.track.segments):
        view = Image.fromarray(scene.picture(segment.start)).resize(THUMB, Image.Resampling.LANCZOS)
        draw = ImageDraw.Draw(view)
        draw.text((6, 4), f"{i + 1}  {segment.geometry}", (20, 20, 20), font=_font(12))
        whole.paste(view, (i % COLUMNS * THUMB[0], floor.height + i // COLUMNS * THUMB[1]))
    data = BytesIO()
    whole.save(data, "PNG")
    atomic_write_bytes(file, data.getvalue())
    return file


def _floor(scene: SandboxScene) -> Image.Image:
    track, body = scene.track, scene.body
    image = Image.fromarray(floor_picture(track, PER_M))
    draw = ImageDraw.Draw(image)
    for i, segment in enumerate(track.segments):
        colour = COLOURS[i % len(COLOURS)]
        draw.line(_pixels(track, segment.path.xy), fill=colour, width=4)
        draw.polygon(_pixels(track, body.footprint.corners(*segment.start)), outline=colour, width=2)
        x, y, _ = segment.path.pose(segment.path.length / 2, 0.1)
        (place,) = _pixels(track, np.array([(x, y)]))
        draw.text(place, str(i + 1), colour, font=_font(26), anchor="mm")
    for box in track.obstacles:
        draw.polygon(_pixels(track, box.corners), fill=box.colour, outline=(20, 20, 20))
    # Driving is counter-clockwise: an arrow where the lap begins.
    x, y, yaw = track.lap.pose(0.0)
    tip = np.array([(x, y)]) + 0.12 * np.array([(np.cos(yaw + turn), np.sin(yaw + turn)) for turn in (2.6, 0.0, -2.6)])
    for a, b in pairwise(_pixels(track, tip)):
        draw.line((a, b), fill=(255, 255, 255), width=5)
    return image


def _pixels(track: SandboxTrack, points: np.ndarray) -> list[tuple[float, float]]:
    return [(float(x) * PER_M, (track.size[1] - float(y)) * PER_M) for x, y in points]


def _font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)
