"""SentImages: images of a decision that are kept or sent, in place of Observation.images of a world."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from closedloop_plugin.core.image_encoding import ImageEncoding
from lmms_eval_ad2.core.errors import Ad2Error


@dataclass(frozen=True)
class SentImages:
    """`arrays`: (H, W, 3) uint8 RGB by camera. `urls`: data URLs by camera and encoding, made in the world process."""

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
