"""Layout of the data home (storage/home.py).

    HOME/data/<name>/<split>/records-00000.parquet, ...   2,000 records per part
                             bad_rows.jsonl               only if rows were skipped
                             manifest.json                written last: a folder without it is not a dataset
    HOME/data/<name>/.<split>.new/                        unfinished import; progress.json lists the finished parts
    HOME/data/<name>/.<split>.old/                        previous import, only while it is being replaced
    HOME/data/<name>/.<split>.lock                        held (flock) by the importing process
    HOME/images/<name>/<split>/                           images extracted from annotation files (llava format)
    HOME/image_folders                                    allowed targets of links (image_files.py)

Write order of an import: each part to a temporary name, fsync, rename; then progress.json in the same way; after the
last part the manifest; then `.new` replaces the split. A process killed between any two of these steps leaves the
previous dataset or a `.new` folder from which the same command resumes.
"""

from __future__ import annotations

import re
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.home import home

__all__ = ["extracted_dir", "home", "split_dir"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def split_dir(name: str, split: str, root: Path | None = None) -> Path:
    """The folder of a dataset's split; raises Ad2Error for a name that could lead out of the data home."""
    for what, text in (("dataset name", name), ("split", split)):
        if not _NAME.fullmatch(text):
            raise Ad2Error(f"{what} '{text}': use letters, digits, '_', '-' and '.', beginning with a letter or digit")
    return (root or home()) / "data" / name / split


def extracted_dir(name: str, root: Path | None = None) -> Path:
    """The folder for images extracted from a release's annotation files, with one subfolder per split."""
    split_dir(name, "any", root)  # checks the name
    return (root or home()) / "images" / name
