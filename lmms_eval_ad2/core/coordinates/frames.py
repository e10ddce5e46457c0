"""The coordinate frames and their conversion from and to pixels of the stored image (origin top left)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from lmms_eval_ad2.core.coordinates.model_input import Size

Frame = Literal["auto", "pixel", "unit", "percent", "thousand", "thousand_yx", "model_input"]
FRAMES: tuple[Frame, ...] = get_args(Frame)

# Length of the image's width and height in a proportional frame.
EXTENTS: dict[Frame, float] = {"unit": 1.0, "percent": 100.0, "thousand": 1000.0, "thousand_yx": 1000.0}


def to_pixels(
    values: Sequence[float], frame: Frame, size: Size | None, model_input: Size | None = None
) -> tuple[float, ...] | None:
    """Convert alternating x, y (thousand_yx: y, x) to x, y in pixels of the stored image.

    size: (width, height) of the stored image; model_input: of the image as the model sees it. None if the frame needs
    a size that is not given.
    """
    if frame == "thousand_yx":
        values = swapped(values)
    if frame in ("pixel", "auto"):
        return tuple(values)
    extent = model_input if frame == "model_input" else (EXTENTS[frame],) * 2
    if size is None or extent is None:
        return None
    return tuple(value / extent[axis % 2] * size[axis % 2] for axis, value in enumerate(values))


def from_pixels(
    pixels: Sequence[float], frame: Frame, size: Size | None, model_input: Size | None = None
) -> tuple[float, ...] | None:
    """The inverse of `to_pixels`: alternating x, y in pixels of the stored image to `frame`."""
    if frame in ("pixel", "auto"):
        return tuple(pixels)
    extent = model_input if frame == "model_input" else (EXTENTS[frame],) * 2
    if size is None or extent is None:
        return None
    values = tuple(value * extent[axis % 2] / size[axis % 2] for axis, value in enumerate(pixels))
    return swapped(values) if frame == "thousand_yx" else values


def swapped(values: Sequence[float]) -> tuple[float, ...]:
    """Exchange the two axes: (y, x) to (x, y) and back, for any number of points in a row."""
    return tuple(values[index ^ 1] for index in range(len(values)))
