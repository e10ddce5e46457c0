"""Pillow, strict: lmms-eval tells it, for the whole process, to fill up truncated files. Where we read they are faults.

Knows nothing of ours; Pillow is imported when it is used.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()


@contextmanager
def strictly() -> Iterator[None]:
    """Within: a truncated image raises OSError on load. What others had set is there again afterwards."""
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
