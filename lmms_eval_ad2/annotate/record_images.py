"""Rendered images of a record, as data URLs for the page and for model requests."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.prompts import visual

WIDEST = 2560  # pixels: limits the memory that one record needs in a browser
QUALITY = 88


def rendered(record: Record, root: Path) -> list[Any]:
    """Return the images with marks drawn; six cameras as one mosaic. Raises Ad2Error for an unreadable image."""
    cameras = len(record.views) > 1 and len(set(record.views)) == len(record.views)
    try:
        return list(visual.render(record, root, layout="mosaic" if cameras else "list"))
    except Ad2Error:
        if not cameras:
            raise
    return list(visual.render(record, root))  # several views, but not the six cameras


def data_url(image: Any, widest: int = WIDEST, quality: int = QUALITY) -> str:
    """The image as a JPEG data URL; no chroma subsampling, which would blur thin red outlines."""
    small = image if image.width <= widest else image.resize((widest, round(widest * image.height / image.width)))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=quality, subsampling=0)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
