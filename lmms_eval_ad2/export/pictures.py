"""The picture files of a training file: the originals where nothing is drawn, else drawn once into a folder.

    DIR/<first 2 digits>/<sha256 of the file, 32 digits>.jpg    JPEG, quality 95, no chroma subsampling

A file is named by its content: the same command finds what it drew before, and two exports may share a folder.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

from lmms_eval_ad2.prompts import asked, visual
from lmms_eval_ad2.records import Record
from lmms_eval_ad2.scoring.variant import Variant
from lmms_eval_ad2.storage.files import atomic_write_bytes

# As models behind an endpoint are sent their images; subsampling would blur a red outline of two pixels.
JPEG: dict[str, Any] = {"format": "JPEG", "quality": 95, "subsampling": 0}


class Pictures:
    """`original` and `drawn` count files, not questions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.original: set[Path] = set()
        self.drawn: set[Path] = set()
        self._turned: dict[Path, bool] = {}
        self._done: dict[tuple[Any, ...], list[str]] = {}

    def of(self, record: Record, image_root: Path, variant: Variant) -> list[str]:
        """Absolute paths, in the order in which the model is shown them. DataError where an image is not whole."""
        stored = asked.untouched(record, variant)
        if stored is not None:
            paths = [(image_root / path).absolute() for path in stored]
            if not any(self._is_turned(path) for path in paths):
                self.original.update(paths)
                return [str(path) for path in paths]
        # What the picture depends on: a frame that is asked about many times is drawn once.
        key = (image_root, record.images, record.mark, record.benchmark, variant.mark, variant.coords, variant.layout,
               variant.views)  # fmt: skip
        if key not in self._done:
            self._done[key] = [str(self._write(image)) for image in asked.pictures(record, image_root, variant)]
        return self._done[key]

    def _is_turned(self, path: Path) -> bool:
        """Evaluation shows pixels as stored; who trains may turn a file that says so in its header."""
        if path not in self._turned:
            self._turned[path] = visual.is_turned(path)
        return self._turned[path]

    def _write(self, image: Any) -> Path:
        buffer = io.BytesIO()
        image.save(buffer, **JPEG)
        content = buffer.getvalue()
        name = hashlib.sha256(content).hexdigest()[:32]
        path = self.folder / name[:2] / f"{name}.jpg"
        if path not in self.drawn and not path.is_file():
            atomic_write_bytes(path, content, durable=False)
        self.drawn.add(path)
        return path
