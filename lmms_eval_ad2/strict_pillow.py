"""Strict image decoding: lmms-eval makes Pillow accept truncated files for the whole process; our readers refuse them.

No imports of this project; Pillow is imported on first use.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()


@contextmanager
def strictly() -> Iterator[None]:
    """Within the block, loading a truncated image raises OSError. The former setting is restored afterwards."""
    from PIL import ImageFile

    if not ImageFile.LOAD_TRUNCATED_IMAGES:
        yield
        return
    with _lock:
        ImageFile.LOAD_TRUNCATED_IMAGES = False
        try:
            yield
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = True
