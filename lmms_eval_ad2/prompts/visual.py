"""Render the images of a record, with its points and boxes drawn on them.

Files are shown as a person sees them (shown_image.py), turned as their EXIF orientation says: coordinates belong to
that picture. A truncated file is an error, whatever the process-wide setting of PIL.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from PIL import Image, ImageDraw, ImageFont

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.records import Record, VisualPrompt
from lmms_eval_ad2.prompts.marks import MarkChoice, effective_mark
from lmms_eval_ad2.prompts.views import GRID, Layout, Views, is_mosaic, shown
from lmms_eval_ad2.storage.image_files import ImageOutsideError, locate, open_image
from lmms_eval_ad2.storage.shown_image import read_header, shown_rgb

__all__ = ["effective_mark", "load_image", "render"]

T = TypeVar("T")
Colour = tuple[int, int, int]  # RGB, 0 to 255
CODA_WIDTH = 2  # pixels: outline of CODA-LM's red rectangle, for every image size
RED = (255, 0, 0)
WHITE = (255, 255, 255)
CELL_WIDTH = 640  # pixels: width of one camera view in a mosaic of three columns (1920)
LABEL_GROUND = (20, 20, 20)
EMPTY_CELL = (60, 60, 60)


def render(
    record: Record, image_root: Path, *, mark: MarkChoice = "native", layout: Layout = "list", views: Views = "all",
    step: int | None = None,
) -> list[Image.Image]:  # fmt: skip
    """The record's images as RGB, in order, with its mark drawn on the first; one image for a mosaic.

    step: draw the mark of this step (from 0) of a chain that is asked in rounds.

    CODA-LM: a rectangle [x, y, x + w, y + h] in "red", 2 px wide, on the full image (as in the authors' script).
    Otherwise: boxes and points in red, with a white rim, scaled with the image, numbered if there are several.
    Raises DataError for an image that is missing, broken, truncated, or not of the annotated size.
    """
    pairs = shown(record, views)
    root, names = Path(image_root), [image for _, image in pairs]
    drawn = effective_mark(record, mark, step)
    if is_mosaic(pairs, layout):
        return [_mosaic([v for v, _ in pairs], [_open(record, root, n) for n in names])]
    images = [_open(record, root, n) for n in names]
    if drawn.kind in ("point", "box"):
        draw_mark(images[0], drawn, coda=record.benchmark == "coda_lm")
    return images


def load_image(root: Path, name: str) -> Image.Image:
    """Decode a whole image below `root` as RGB, as it is shown. Raises DataError if that is impossible."""
    return _read(root, name, _decoded)


def is_plain(root: Path, name: str) -> bool:
    """Whether every reader shows this file as load_image does. Raises DataError for no image."""
    return _read(root, name, read_header).plain


def _read(root: Path, name: str, read: Callable[[Path], T]) -> T:
    try:
        return read(locate(root, name))
    except ImageOutsideError as exc:
        expected = "a file below the image folder (others are not opened)"
        raise DataError(root, None, f"image {name[:200]}", expected, str(exc)) from exc
    except FileNotFoundError as exc:
        raise DataError(root / name, None, "image", "an image file", "no such file", _IMPORT_HINT) from exc
    except OSError as exc:
        raise DataError(root / name, None, "image", "a whole, readable image", str(exc), _REPAIR_HINT) from exc


_IMPORT_HINT = "Name the folder of the images when importing (ad2 data import ... --images DIR)."
_REPAIR_HINT = "Fetch this file again, then check the data set (ad2 data verify)."


def _open(record: Record, root: Path, name: str) -> Image.Image:
    image = load_image(root, name)
    if len(record.images) == 1 and record.image_size and image.size != tuple(record.image_size):
        raise DataError(
            root / name, record.id, "image_size", f"{record.image_size[0]} x {record.image_size[1]} as annotated",
            str(_read(root, name, read_header)), "Use the original file: coordinates belong to it, as it is shown.",
        )  # fmt: skip
    return image


def _decoded(file: Path) -> Image.Image:
    with open_image(file) as image:
        return shown_rgb(image)


def draw_mark(image: Image.Image, mark: VisualPrompt, coda: bool = False, colour: Colour = RED) -> None:
    """Draw points (x, y) or boxes (x_min, y_min, x_max, y_max), in pixels, on `image` in place."""
    draw = ImageDraw.Draw(image)
    if coda and mark.kind == "box":
        for box in mark.coords:
            draw.rectangle(list(box), outline="red", width=CODA_WIDTH)
        return
    unit = max(1.0, min(image.size) / 270)  # 2 px at 540 lines, 4 at 1080
    several = len(mark.coords) > 1
    for i, c in enumerate(mark.coords, 1):
        if mark.kind == "box":
            _box(draw, c, round(unit), colour)
            corner = (c[0], c[1])
        else:
            corner = _point(draw, c, unit, colour)
        if several:
            _number(draw, image.size, corner, str(i), unit)


def _box(draw: ImageDraw.ImageDraw, box: tuple[float, ...], width: int, colour: Colour) -> None:
    """An outline on the box, with a thin white one around it: visible on red cars and in the dark."""
    x1, y1, x2, y2 = box
    draw.rectangle([x1 - 1, y1 - 1, x2 + 1, y2 + 1], outline=WHITE, width=1)
    draw.rectangle([x1, y1, x2, y2], outline=colour, width=max(2, width))


def _point(
    draw: ImageDraw.ImageDraw, point: tuple[float, ...], unit: float, colour: Colour
) -> tuple[float, float]:  # fmt: skip
    """A disc, 2 % of the image's shorter side wide, with a white ring; returns the position of its number."""
    x, y = point
    radius, rim = 3.0 * unit, max(1.0, unit)
    draw.ellipse([x - radius - rim, y - radius - rim, x + radius + rim, y + radius + rim], fill=WHITE)
    draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colour)
    return x + radius + 2 * rim, y - radius


def _number(
    draw: ImageDraw.ImageDraw, size: tuple[int, int], corner: tuple[float, float], text: str, unit: float
) -> None:
    """A white number on red, above the corner if there is room, always inside the image."""
    font = ImageFont.load_default(size=7 * unit)
    left, top, right, bottom = draw.textbbox((0, 0), text, font=font)
    pad = unit
    width, height = right - left + 2 * pad, bottom - top + 2 * pad
    x = min(max(0.0, corner[0]), size[0] - width)
    y = min(max(0.0, corner[1] - height), size[1] - height)
    draw.rectangle([x, y, x + width, y + height], fill=RED)
    draw.text((x + pad - left, y + pad - top), text, fill=WHITE, font=font)


def _mosaic(names: list[str], images: list[Image.Image]) -> Image.Image:
    """Two rows of three labelled views, each CELL_WIDTH wide with the first image's proportions."""
    height = round(CELL_WIDTH * images[0].height / images[0].width)
    canvas = Image.new("RGB", (3 * CELL_WIDTH, 2 * height), EMPTY_CELL)
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(size=22)
    by_name = dict(zip(names, images, strict=True))
    for row, cells in enumerate(GRID):
        for column, name in enumerate(cells):
            if name not in by_name:
                continue
            x, y = column * CELL_WIDTH, row * height
            cell = by_name[name].resize((CELL_WIDTH, height), Image.Resampling.BILINEAR, reducing_gap=2.0)
            canvas.paste(cell, (x, y))
            label = "CAM_" + name.upper()
            right, bottom = draw.textbbox((x + 6, y + 4), label, font=font)[2:]
            draw.rectangle([x, y, right + 6, bottom + 4], fill=LABEL_GROUND)
            draw.text((x + 6, y + 4), label, fill=WHITE, font=font)
    return canvas
