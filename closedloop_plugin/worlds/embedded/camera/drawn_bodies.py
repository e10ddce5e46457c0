"""DrawnBodies: measures during the drawing of a picture which of its pixels show which body.

Bodies are drawn from the back to the front. A pixel belongs to the last body whose drawing changed it by CONTRAST or
more: what has the colour of its background, in the dark or in fog, is not visible, and what is covered later is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping

import cv2
import numpy as np

from closedloop_plugin.core.visibility import VisibleExtent

CONTRAST = 12  # of 255, in the channel that differs most


class DrawnBodies:
    """Call `drawn` after each body, then read `extents`. `image`: (H, W, 3) uint8, the picture that is being drawn."""

    def __init__(self, image: np.ndarray) -> None:
        self._before = image.copy()
        self._owner = np.zeros(image.shape[:2], np.int32)  # 0: no body that was asked about
        self._keys: list[str] = []
        self._whole: dict[str, np.ndarray] = {}  # pixels that each body changed
        self._lights: dict[str, np.ndarray] = {}

    def drawn(self, key: str | None, image: np.ndarray, unlit: np.ndarray | None = None) -> None:
        """Note the pixels that changed since the last call. key: of the body; None: it only hides others.

        unlit: the picture with the same signal, but without its light.
        """
        changed = _differ(self._before, image)
        np.copyto(self._before, image)
        if key is None:
            self._owner[changed] = 0
            return
        if key not in self._whole:
            self._keys.append(key)
            self._whole[key] = changed
        else:
            self._whole[key] = self._whole[key] | changed
        self._owner[changed] = self._keys.index(key) + 1
        if unlit is not None:
            light = _differ(unlit, image)
            self._lights[key] = self._lights.get(key, np.zeros_like(light)) | light

    def extents(self) -> Mapping[str, VisibleExtent]:
        """By key; bodies of which nothing was drawn are left out."""
        found = {}
        for number, key in enumerate(self._keys, 1):
            mine = self._owner == number
            pixels, whole = int(np.count_nonzero(mine)), int(np.count_nonzero(self._whole[key]))
            if not whole:
                continue
            lit = int(np.count_nonzero(mine & self._lights[key])) if key in self._lights else 0
            found[key] = VisibleExtent(_box(mine) if pixels else None, pixels, pixels / whole, lit)
        return found


def _differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(H, W) whether two pictures differ by CONTRAST or more in any channel."""
    alike = cv2.inRange(cv2.absdiff(a, b), (0, 0, 0), (CONTRAST - 1,) * 3)  # 255 where all channels are in the range
    return np.asarray(alike == 0)


def _box(mask: np.ndarray) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
