"""TrainingFile: the rows of a training file in ms-swift's format, grouped by picture.

A row is one question about one picture, as `ad2 export swift` writes it:

    {"id": "...", "messages": [{"role": "user", "content": "<image>..."}, {"role": "assistant", "content": "..."}],
     "images": ["/.../front_00012.jpg"]}

Consecutive rows with the same picture are one PictureGroup, whose picture is encoded once per training step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import DataError
from lmms_eval_ad2.storage.files import file_sha256

TAG = "<image>"


@dataclass(frozen=True, slots=True)
class TrainingTurn:
    """A question without its image tag, and the answer."""

    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class PictureGroup:
    """The questions of consecutive rows about one picture."""

    image: Path
    turns: tuple[TrainingTurn, ...]


@dataclass(frozen=True)
class TrainingFile:
    """All groups of one or more files, in their order. `sha256`: of each file."""

    groups: tuple[PictureGroup, ...]
    sha256: tuple[str, ...]

    @classmethod
    def read(cls, files: Sequence[Path]) -> TrainingFile:
        """Raises DataError for a row that is not of the format above, and if there is no row."""
        groups: list[PictureGroup] = []
        for file in files:
            _append(groups, file)
        if not groups:
            raise DataError(f"{', '.join(map(str, files))}: no rows; `ad2 export swift --drives DIR` writes them")
        return cls(tuple(groups), tuple(file_sha256(file) for file in files))

    def turns(self) -> Iterator[TrainingTurn]:
        for group in self.groups:
            yield from group.turns


def _append(groups: list[PictureGroup], file: Path) -> None:
    image: Path | None = None
    turns: list[TrainingTurn] = []
    for where, row in _rows(file):
        path, turn = _parts(row, where, file.parent)
        if path != image and image is not None:
            groups.append(PictureGroup(image, tuple(turns)))
            turns = []
        image = path
        turns.append(turn)
    if image is not None:
        groups.append(PictureGroup(image, tuple(turns)))


def _rows(file: Path) -> Iterator[tuple[str, Any]]:
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                where = f"{file}:{number}"
                try:
                    yield where, json.loads(line)
                except ValueError as exc:
                    raise DataError(f"{where}: not JSON: {exc}") from None
    except UnicodeDecodeError as exc:
        raise DataError(f"{file}: not UTF-8 text: {exc}") from None
    except FileNotFoundError:
        raise DataError(f"{file}: no such file; `ad2 export swift --drives DIR --out {file}` writes it") from None


def _parts(row: Any, where: str, folder: Path) -> tuple[Path, TrainingTurn]:
    """The picture and the turn of a row; a relative path is relative to the file's folder."""
    messages = row.get("messages") if isinstance(row, dict) else None
    roles = [m.get("role") for m in messages if isinstance(m, dict)] if isinstance(messages, list) else None
    if roles != ["user", "assistant"]:
        raise DataError(f"{where}: field 'messages': expected one message of the user and one of the assistant")
    asked, answer = (message.get("content") for message in messages)
    if not isinstance(asked, str) or not isinstance(answer, str) or not answer:
        raise DataError(f"{where}: field 'content': expected a text in both messages")
    images = row.get("images")
    if not isinstance(images, list) or len(images) != 1 or not isinstance(images[0], str):
        raise DataError(f"{where}: field 'images': expected one path; the trainer reads rows with one picture")
    if not asked.startswith(TAG) or TAG in asked[len(TAG) :]:
        raise DataError(f"{where}: field 'content' of the user: expected one {TAG}, at its beginning")
    return folder / images[0], TrainingTurn(asked[len(TAG) :].removeprefix("\n"), answer)
