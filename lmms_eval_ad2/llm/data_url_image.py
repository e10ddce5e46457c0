"""Pictures in requests: JPEG as a data URL, with the hash that stands for it in cache keys."""

from __future__ import annotations

import base64
import hashlib
import io
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.llm.request_body import JsonSafeText

JPEG_QUALITY = 95


@dataclass(frozen=True, slots=True)
class DataUrlImage:
    """The picture of one camera as a data URL. `view` is "" if it has no name; `sha256` is that of the JPEG.

    size: width and height in pixels, in which tags and boxes of objects are given.
    """

    view: str
    sha256: str
    url: str
    size: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, view: str, image: Any) -> DataUrlImage:
        """Encode a PIL image. Slow: call it in a thread."""
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=JPEG_QUALITY)
        data = buffer.getvalue()
        url = JsonSafeText("data:image/jpeg;base64," + base64.b64encode(data).decode("ascii"))
        return cls(view, hashlib.sha256(data).hexdigest(), url, image.size)
