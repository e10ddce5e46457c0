"""What a person sees of an image file: the only conversion of files to the RGB pixels that models and pages are shown.

- It is turned as its EXIF orientation says, as by viewers, browsers and labelling tools. Sizes and coordinates belong
  to the turned picture.
- 16 bits per value are reduced to the upper 8. 32-bit integers and floats have no range that could be shown: refused.
- Transparent pixels are shown on white.
- Of an animation, or of a file with several pictures, the first one is shown.
- Colour profiles are not applied.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.errors import require
from lmms_eval_ad2.storage.image_files import open_image, unreadable

if TYPE_CHECKING:
    from PIL.Image import Image

_ORIENTATION = 0x0112  # EXIF tag
_TRANSPOSES = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_270",
               7: "TRANSVERSE", 8: "ROTATE_90"}  # fmt: skip
_SIDES_SWAPPED = (5, 6, 7, 8)
_NO_RANGE = ("I", "F")
# Keys of Image.info in which Pillow searches for an orientation (Image.getexif).
_ORIENTATION_KEYS = ("exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif")


@dataclass(frozen=True)
class ImageHeader:
    """What the header of an image file says.

    size: (width, height) in pixels, as shown; orientation: EXIF's number, 1 if upright; plain: every reader shows the
    file like shown_rgb, since it has no orientation, no transparency, and 8 bits per value.
    """

    format: str
    size: tuple[int, int]
    orientation: int
    plain: bool

    def __str__(self) -> str:
        width, height = self.size
        if self.orientation == 1:
            return f"{width}x{height}"
        stored = f"{height}x{width}" if self.orientation in _SIDES_SWAPPED else f"{width}x{height}"
        return f"{width}x{height} as its EXIF orientation {self.orientation} shows it (stored: {stored})"


def read_header(source: Path | bytes) -> ImageHeader:
    """Raises OSError as open_image."""
    with open_image(source) as image:
        orientation = _orientation(image)
        width, height = image.size
        # Pillow returns the turned size of a TIFF.
        swapped = orientation in _SIDES_SWAPPED and image.format != "TIFF"
        plain = orientation == 1 and not image.has_transparency_data and not image.mode.startswith("I;16")
        return ImageHeader(image.format or "", (height, width) if swapped else (width, height), orientation, plain)


def shown_rgb(image: Image) -> Image:
    """Decode an image of open_image, within its block, to RGB. Raises OSError for one that cannot be shown."""
    with unreadable():
        image.load()  # Pillow turns a TIFF here
    orientation = _orientation(image)
    plain = _rgb(image)
    if orientation != 1:
        plain = plain.transpose(getattr(require("PIL.Image").Transpose, _TRANSPOSES[orientation]))
    for key in _ORIENTATION_KEYS:  # no later step may turn it again
        plain.info.pop(key, None)
    plain.getexif().clear()
    return plain


def _rgb(image: Image) -> Image:
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode in _NO_RANGE:
        raise OSError(f"pixels of mode {image.mode} (32 bits per value), whose range is unknown; save it with 8 or 16")
    if image.mode == "LAB":
        raise OSError("pixels of mode LAB, which is not read; save it as RGB")
    if image.mode.startswith("I;16"):
        image = _upper_bits(image)
    if image.has_transparency_data:
        colours = image if image.mode == "RGBA" else image.convert("RGBA")
        ground = require("PIL.Image").new("RGB", image.size, "white")
        ground.paste(colours, mask=colours)
        return ground
    return image.convert("RGB")


def _upper_bits(image: Image) -> Image:
    import numpy as np

    tags: Any = getattr(image, "tag_v2", {})
    bits = tags.get(258, (16,))[0]  # BitsPerSample: 12 or 16
    stored = np.asarray(image).astype(np.uint16)
    values = (stored >> (bits - 8)).astype(np.uint8)
    if tags.get(262) == 0:  # PhotometricInterpretation: 0 is white
        values = 255 - values
    if "transparency" in image.info:  # the transparent value of a PNG
        values[stored == image.info["transparency"]] = 255
    return require("PIL.Image").fromarray(values)


def _orientation(image: Image) -> int:
    """EXIF's number; 1 if there is none, or if the EXIF data are damaged."""
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except (SyntaxError, ValueError, TypeError, KeyError, struct.error, OSError):
        return 1
    return value if value in _TRANSPOSES else 1
