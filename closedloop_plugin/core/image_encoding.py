"""ImageEncoding: how an image is encoded for a model behind an endpoint, in the process that has it."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from PIL import Image

JPEG_QUALITY = 90


@dataclass(frozen=True)
class ImageEncoding:
    """`format`: jpeg or png. `quality`: of JPEG, 1 to 95."""

    format: str = "jpeg"
    quality: int = JPEG_QUALITY

    def data_url(self, image: np.ndarray) -> str:
        """`image`, (H, W, 3) uint8 RGB, as a data URL."""
        buffer = io.BytesIO()
        quality = {"quality": self.quality} if self.format == "jpeg" else {}
        Image.fromarray(image).save(buffer, self.format.upper(), **quality)
        return f"data:image/{self.format};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def image_encodings(system: object) -> frozenset[ImageEncoding] | None:
    """The encodings in which a fast or slow system takes images (its optional attribute `encodings`); None: arrays."""
    return getattr(system, "encodings", None)


def common_encodings(systems: Iterable[object]) -> frozenset[ImageEncoding] | None:
    """The encodings in which all `systems` together take images; None: one of them takes arrays."""
    each = [image_encodings(system) for system in systems]
    known = [encodings for encodings in each if encodings is not None]
    return frozenset().union(*known) if len(known) == len(each) else None


def image_for(images: Callable[[str], np.ndarray], camera: str, encoding: ImageEncoding | None) -> np.ndarray | str:
    """The image of `camera` from Observation.images: a data URL if it was sent in `encoding`, else the array."""
    encoded = getattr(images, "encoded", None)
    return images(camera) if encoding is None or encoded is None else encoded(camera, encoding)
