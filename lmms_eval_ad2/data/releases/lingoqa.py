"""LingoQA (wayveai/LingoQA): parquet rows with five frames of one camera; one row per reference answer."""

from __future__ import annotations

import filecmp
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.data.releases import parquet
from lmms_eval_ad2.data.releases.base import BadRow, BenchmarkRelease, Item, OpenedRelease, existing, image_folder
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow

SCHEMA = """\
SOURCE: evaluation/val.parquet, action/train.parquet or scenery/train.parquet, with the columns
  question_id, segment_id, images (five paths such as images/val/<segment_id>/<frame>.jpg), question, answer
or the folder that contains these three folders: split train is action and scenery together, val is evaluation.
Images: unpack each images.zip in its folder; the images of a file are searched for next to it. If they are elsewhere:
  --images DIR, for a file the folder with images/, for a folder one with action/images/ and so on, or one images/ for
  all.
--split: for a file any name (default: the file's). For a folder train or val; not needed if there is only one.
Task: action, scenery or val.

Rows with the same question_id are one record, also across files: all their answers are its references
(meta.references), the first is its answer. A segment with the same images in action and scenery is one set of images.
The val split has 500 questions with two answers each; other numbers are refused unless --partial is given.
"""

COLUMNS = ("question_id", "segment_id", "images", "question", "answer")
FILES = {"train": ("action/train.parquet", "scenery/train.parquet"), "val": ("evaluation/val.parquet",)}
FRAMES = 5
VAL_QUESTIONS = 500


@dataclass(frozen=True, slots=True)
class _File:
    """A parquet file. `below`: prefix of its image paths relative to the image root ("action/", or "" for none)."""

    path: Path
    below: str = ""

    @property
    def task(self) -> str:
        name = self.path.parent.name
        return name if name in ("action", "scenery") else "val"


def open_release(source: Path, *, split: str | None, images: Path | None, options: Mapping[str, str]) -> OpenedRelease:
    path = existing(source, "parquet file or folder of LingoQA")
    if path.is_dir():
        split, paths = _of_folder(path, split)
        root = image_folder(images, [path], paths[0].parent.name)
        files = [_File(file, _below(root, file.parent.name)) for file in paths]
    else:
        split, files = split or path.stem, [_File(path)]
        root = image_folder(images, [path.parent], "images")
    expected = {} if options.get("partial") or split != "val" else {"val": VAL_QUESTIONS}
    return OpenedRelease(
        split, root, lambda: _read(files, split, _Images(root)), [file.path for file in files], expected
    )


def _of_folder(folder: Path, split: str | None) -> tuple[str, list[Path]]:
    """A split of the whole release and its files; raises Ad2Error if the split is ambiguous or a file is missing."""
    found = [name for name, files in FILES.items() if any((folder / file).is_file() for file in files)]
    if not found:
        names = ", ".join(file for files in FILES.values() for file in files)
        raise Ad2Error(
            f"{folder} is a folder without {names}: name the folder of these, or a file "
            "(ad2 data list lingoqa --layout)"
        )
    if split is None and len(found) > 1:
        raise Ad2Error(f"{folder} holds the splits {' and '.join(found)}: give --split")
    split = split or found[0]
    if split not in FILES:
        raise Ad2Error(f"lingoqa: a folder has no split '{split}'; splits: {', '.join(FILES)}")
    if missing := [file for file in FILES[split] if not (folder / file).is_file()]:
        raise Ad2Error(f"{folder}: {split} needs {missing[0]} as well; to read one file alone, name the file")
    return split, [folder / file for file in FILES[split]]


def _below(root: Path, folder: str) -> str:
    """Prefix of the image paths of a file in `folder`: each folder has its own images, or all share one."""
    for below in (f"{folder}/", ""):
        if (root / below / "images").is_dir():
            return below
    raise Ad2Error(f"no images found: {root} holds neither {folder}/images nor images. Give it: --images DIR")


class _Images:
    """Image paths relative to the image root; if two files have a segment with the same images, those of the first."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._first: dict[str, str] = {}  # segment -> prefix of its first occurrence

    def of(self, segment: str, paths: Sequence[str], below: str) -> tuple[str, ...]:
        first = self._first.setdefault(segment, below)
        prefix = first if first == below or all(self._same(path, first, below) for path in paths) else below
        return tuple(prefix + path for path in paths)

    def _same(self, path: str, one: str, other: str) -> bool:
        try:
            return filecmp.cmp(self._root / (one + path), self._root / (other + path), shallow=False)
        except OSError:
            return False


def _read(files: Sequence[_File], split: str, images: _Images) -> Iterator[Item]:
    """The records. A question is complete at the last row with its id; only incomplete questions are kept in memory."""
    last = {row.get("question_id"): index for index, (_, row) in enumerate(_rows(files, ("question_id",)))}
    waiting: dict[Any, list[tuple[_File, UntrustedRow]]] = {}
    for index, (file, row) in enumerate(_rows(files, COLUMNS)):
        name = row.get("question_id")
        waiting.setdefault(name, []).append((file, row))
        if last[name] == index:
            try:
                yield _record(waiting.pop(name), split, images)
            except DataError as exc:
                yield BadRow(exc)


def _rows(files: Sequence[_File], columns: Sequence[str]) -> Iterator[tuple[_File, UntrustedRow]]:
    for file in files:
        for number, data in enumerate(parquet.read_rows(file.path, columns)):
            yield file, UntrustedRow(data, file.path, number)


def _record(rows: Sequence[tuple[_File, UntrustedRow]], split: str, images: _Images) -> Record:
    file, first = rows[0]
    name, segment, question = first.string("question_id"), first.string("segment_id"), first.string("question")
    frames = _frames(first)
    for _, row in rows[1:]:
        same = row.string("question") == question and row.string("segment_id") == segment and _frames(row) == frames
        if not same:
            raise row.fail("question_id", "the same question, segment and images in every row of this id", name)
    references = [row.string("answer") for _, row in rows]
    return Record(
        id=name,
        benchmark="lingoqa",
        task=file.task,
        subtask=file.task,
        form="vqa",
        images=images.of(segment, frames, file.below),
        question=BilingualText(en=question),
        answer=BilingualText(en=references[0]),
        views=tuple(f"frame {i}" for i in range(1, FRAMES + 1)),
        cluster=segment,
        meta={"references": references, "segment_id": segment, "split": split},
    )


def _frames(row: UntrustedRow) -> tuple[str, ...]:
    paths = row.listing("images")
    if len(paths) != FRAMES:
        raise row.fail("images", f"{FRAMES} frames", len(paths))
    return tuple(row.image("images", path) for path in paths)


RELEASE = BenchmarkRelease("lingoqa", "LingoQA (wayveai/LingoQA)", SCHEMA, open_release)
