"""TrainingFile: the rows of a training file in ms-swift's format, grouped by picture.

A row is one question about one picture, as `ad2 export swift` writes it:

    {"id": "...", "messages": [{"role": "user", "content": "<image>..."}, {"role": "assistant", "content": "..."}],
     "images": ["/.../front_00012.jpg"], "group": "...", "kind": "driving", "seen": [...]}

"group", "kind" (of the question: DRIVING, CHOICE) and "seen" (see seen_grid.py) may be missing.

Consecutive rows with the same picture and the same "group" are one PictureGroup, whose picture is
encoded once per training step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from closedloop_plugin.learn.seen_grid import ShownBox, read_seen
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.storage.files import file_sha256
from lmms_eval_ad2.storage.untrusted_json import lines, parse

TAG = "<image>"
LONGEST = 20_000  # characters of a question or an answer
# Kinds of questions: the answer drives the car; it is the letter of an option, or compares two things.
DRIVING, CHOICE = "driving", "choice"


@dataclass(frozen=True, slots=True)
class TrainingTurn:
    """A question without its image tag, and the answer. `kind`: DRIVING, CHOICE, or any other text."""

    prompt: str
    answer: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class PictureGroup:
    """The questions of consecutive rows about one picture. `seen`: what it shows; None: not known."""

    image: Path
    turns: tuple[TrainingTurn, ...]
    seen: tuple[ShownBox, ...] | None = None


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
            raise Ad2Error(f"{', '.join(map(str, files))}: no rows; make them with: ad2 export swift --drives DIR")
        return cls(tuple(groups), tuple(file_sha256(file) for file in files))

    def turns(self) -> Iterator[TrainingTurn]:
        for group in self.groups:
            yield from group.turns


def _append(groups: list[PictureGroup], file: Path) -> None:
    key: tuple[str, Path] | None = None
    turns: list[TrainingTurn] = []
    seen: tuple[ShownBox, ...] | None = None
    for number, row in _rows(file):
        image, turn = _parts(row, file, number)
        group = (str(row.get("group", "")), image)
        if key is not None and group != key:
            groups.append(PictureGroup(key[1], tuple(turns), seen))
            turns, seen = [], None
        key = group
        turns.append(turn)
        seen = _seen(row, file, number) if seen is None else seen
    if key is not None:
        groups.append(PictureGroup(key[1], tuple(turns), seen))


def _seen(row: dict[str, Any], file: Path, number: int) -> tuple[ShownBox, ...] | None:
    value = row.get("seen")
    found = None if value is None else read_seen(value)
    if value is not None and found is None:
        raise DataError(file, number, "seen", "[[kinds], [x0, y0, x1, y1] from 0 to 1, metres] of each object", value)
    return found


def _rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, row). Raises DataError for a line that is not a JSON object."""
    if not file.is_file():  # nor a FIFO: it is read more than once
        raise Ad2Error(f"{file}: no such file; make it with: ad2 export swift --drives DIR --out {file}")
    for number, line in lines(file):
        try:
            row = parse(line)
        except ValueError as exc:
            raise DataError(file, number, "row", "a JSON object", line[:80], f"{exc}. Export it again.") from exc
        if not isinstance(row, dict):
            raise DataError(file, number, "row", "a JSON object", row, "Export it again.")
        yield number, row


def _parts(row: dict[str, Any], file: Path, number: int) -> tuple[Path, TrainingTurn]:
    """The picture and the turn of a row; a relative path is relative to the file's folder."""
    messages = row.get("messages")
    roles = [m.get("role") for m in messages if isinstance(m, dict)] if isinstance(messages, list) else None
    if not isinstance(messages, list) or roles != ["user", "assistant"]:
        raise DataError(file, number, "messages", "one message of the user and one of the assistant", roles)
    asked, answer = (message.get("content") for message in messages)
    if not _is_text(asked) or not _is_text(answer) or not answer:
        raise DataError(file, number, "content", f"a text of at most {LONGEST:,} characters in both messages")
    if TAG in answer:
        raise DataError(file, number, "content", f"no {TAG} in the answer", answer)
    images = row.get("images")
    if not isinstance(images, list) or len(images) != 1 or not _is_text(images[0]):
        raise DataError(file, number, "images", "one path", images, "Rows with several pictures: ms-swift.")
    if not asked.startswith(TAG) or TAG in asked[len(TAG) :]:
        raise DataError(file, number, "content", f"one {TAG}, at the beginning of the question", asked)
    question = asked[len(TAG) :].removeprefix("\n")
    return file.parent / images[0], TrainingTurn(question, answer, str(row.get("kind", "")))


def _is_text(value: Any) -> bool:
    """Whether it is a text that can be written: JSON may contain half of a character."""
    if not isinstance(value, str) or len(value) > LONGEST:
        return False
    try:
        return value.encode() is not None
    except UnicodeEncodeError:
        return False
