"""ImageEncoding: how an image is encoded for a model behind an endpoint, in the process that has it."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import numpy as np
from PIL import Image

from lmms_eval_ad2.core.errors import Ad2Error

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


@dataclass(frozen=True)
class SentImages:
    """Images of a decision that are kept or sent, in place of Observation.images of a world.

    arrays: (H, W, 3) uint8 RGB by camera. urls: data URLs by camera and encoding, made in the world process.
    """

    arrays: dict[str, np.ndarray]
    urls: dict[tuple[str, ImageEncoding], str]

    @classmethod
    def of(
        cls,
        images: Callable[[str], np.ndarray],
        cameras: Collection[str],
        encodings: Collection[ImageEncoding] | None,
    ) -> SentImages:
        """The images of `cameras` in `encodings`; None: as arrays."""
        if encodings is None:
            return cls({name: np.ascontiguousarray(images(name)) for name in cameras}, {})
        return cls({}, {(name, how): how.data_url(images(name)) for name in cameras for how in encodings})

    def __call__(self, camera: str) -> np.ndarray:
        if camera not in self.arrays:
            raise Ad2Error(f"no image of camera {camera!r} here; there are: {', '.join(self.arrays) or 'none'}")
        return self.arrays[camera]

    def encoded(self, camera: str, encoding: ImageEncoding) -> np.ndarray | str:
        """The data URL of an image, or its array if it was sent as one."""
        url = self.urls.get((camera, encoding))
        return self(camera) if url is None else url

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values()) + sum(len(url) for url in self.urls.values())
