"""Camera frames as JPEG: compressed frames are only checked, raw frames are encoded.

Encoding needs Pillow or OpenCV on the vehicle; JetPack has OpenCV, Ubuntu's package python3-pil has Pillow.
"""

import io
from typing import Any, Callable, Dict, Optional, Tuple

PIXELS_MAX = 16000000
# ROS encoding -> (bytes a pixel, Pillow's mode, Pillow's raw mode, OpenCV's conversion to BGR)
_ENCODINGS: Dict[str, Tuple[int, str, str, Optional[str]]] = {
    "rgb8": (3, "RGB", "RGB", "COLOR_RGB2BGR"),
    "bgr8": (3, "RGB", "BGR", None),
    "rgba8": (4, "RGB", "RGBX", "COLOR_RGBA2BGR"),
    "bgra8": (4, "RGB", "BGRX", "COLOR_BGRA2BGR"),
    "mono8": (1, "L", "L", None),
}
# (width, height, bytes a row, encoding, pixels, quality) -> JPEG
Packer = Callable[[int, int, int, str, bytes, int], bytes]


class InvalidCameraImage(ValueError):
    """The frame cannot be sent; the message is the reason."""


def size(data: bytes) -> Tuple[int, int]:
    """(width, height) of a JPEG, from its frame header. InvalidCameraImage if there is none."""
    if data[:2] != b"\xff\xd8":
        raise InvalidCameraImage("the camera's compressed frames are no JPEG")
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            break
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == 0xFF:  # padding
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = int.from_bytes(data[at + 5 : at + 7], "big"), int.from_bytes(data[at + 7 : at + 9], "big")
            if not 0 < width * height <= PIXELS_MAX:
                raise InvalidCameraImage(f"a JPEG of {width} x {height}")
            return width, height
        else:
            at += 2 + length
    raise InvalidCameraImage("a JPEG without a size, or cut short")


def packer() -> Optional[Packer]:
    """An encoder that uses Pillow, else OpenCV; None if neither is installed."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        pass
    else:
        return _with_pillow
    try:
        import cv2  # noqa: F401
    except ImportError:
        return None
    return _with_opencv


def check(width: int, height: int, row: int, encoding: str, size_bytes: int) -> None:
    """InvalidCameraImage if the size or encoding of a raw image is inconsistent or unknown."""
    if encoding not in _ENCODINGS:
        raise InvalidCameraImage(f"the camera's encoding is {encoding!r:.40}; known are {', '.join(_ENCODINGS)}")
    fits = (
        width > 0
        and 0 < width * height <= PIXELS_MAX
        and row >= width * _ENCODINGS[encoding][0]
        and size_bytes >= row * height
    )
    if not fits:
        raise InvalidCameraImage(f"a raw image of {width} x {height}, {row} bytes a row, {size_bytes} bytes")


def _with_pillow(width: int, height: int, row: int, encoding: str, pixels: bytes, quality: int) -> bytes:
    from PIL import Image

    check(width, height, row, encoding, len(pixels))
    _, mode, raw, _ = _ENCODINGS[encoding]
    image = Image.frombuffer(mode, (width, height), pixels, "raw", raw, row, 1)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality)
    return out.getvalue()


def _with_opencv(width: int, height: int, row: int, encoding: str, pixels: bytes, quality: int) -> bytes:
    import cv2
    import numpy

    check(width, height, row, encoding, len(pixels))
    depth, _, _, conversion = _ENCODINGS[encoding]
    lines = numpy.frombuffer(pixels, numpy.uint8, row * height).reshape(height, row)
    image: Any = lines[:, : width * depth].reshape((height, width, depth))
    if conversion:
        image = cv2.cvtColor(image, getattr(cv2, conversion))
    done, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not done:
        raise InvalidCameraImage("OpenCV cannot pack the camera's frames")
    return bytes(data.tobytes())
