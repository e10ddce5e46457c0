"""Decodes the images of requests: data URLs only (nothing is fetched), size checked before decoding."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

import numpy as np

from closedloop_plugin.interfaces.serve.api_error import ApiError
from lmms_eval_ad2.storage.image_files import open_image
from lmms_eval_ad2.storage.shown_image import shown_rgb

# Limit for all images of one request together: six of 2560 x 1440 are 22 million. A few KB of PNG can hold billions.
MOST_PIXELS = 40_000_000
_HEAD = re.compile(r"(?i)data:image/(?:jpeg|jpg|png|webp);base64")
_FORMATS = ("JPEG", "PNG", "WEBP")


def pictures(urls: Sequence[str], names: Sequence[str]) -> list[np.ndarray]:
    """Decode each image to (H, W, 3) uint8 RGB. ApiError names the invalid one."""
    left, decoded = MOST_PIXELS, []
    for url, name in zip(urls, names, strict=True):
        image = _picture(url, name, left)
        left -= image.shape[0] * image.shape[1]
        decoded.append(image)
    return decoded


def _picture(url: str, name: str, most: int) -> np.ndarray:
    head, _, data = url.partition(",")
    if not _HEAD.fullmatch(head):
        raise _bad(name, f"expected data:image/jpeg;base64,... (or png, webp), found {head[:40]!r}; nothing is fetched")
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError as exc:  # also for characters outside ASCII
        raise _bad(name, f"not base64: {exc}") from None
    try:
        with open_image(content, formats=_FORMATS) as image:
            if image.width * image.height > most:
                raise _bad(name, f"more than {MOST_PIXELS:,} pixels in one request ({image.width}x{image.height})")
            return np.asarray(shown_rgb(image))
    except OSError as exc:
        raise _bad(name, f"not a complete image: {str(exc)[:120]}") from None


def _bad(name: str, why: str) -> ApiError:
    return ApiError(400, f"{name}: {why}", param="messages", code="invalid_image")
