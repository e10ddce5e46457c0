"""Questions of a collected folder: frames files -> questions.jsonl, one Record per line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from closedloop_plugin.learn.questions.balance import QuestionSelection
from closedloop_plugin.learn.questions.families import FAMILIES, questions_of
from closedloop_plugin.learn.questions.frame_reader import FrameReader
from closedloop_plugin.learn.questions.seen_frame import SeenFrame
from closedloop_plugin.learn.questions.world_question import WorldQuestion
from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.storage.files import atomic_write, open_regular
from lmms_eval_ad2.storage.untrusted_json import parse

FRAMES, QUESTIONS = "frames", "questions.jsonl"
FRAMES_FILE = "frames.jsonl"
LONGEST_LINE = 4 << 20  # bytes of a frame


@dataclass(frozen=True)
class LabelledTask:
    """Counts of one task. `most_frequent`: share of the most frequent answer; None for points, boxes and chains."""

    task: str
    possible: int
    kept: int
    most_frequent: float | None


def label_folder(
    folder: Path, *, seed: int = 0, per_frame: int | None = None, per_task: int | None = None
) -> list[LabelledTask]:
    """Write `folder`/questions.jsonl. Reads the frames twice; memory grows by 40 bytes a possible question.

    per_frame, per_task: greatest number of questions about a frame, and of a task. The same folder and options give the
    same file. Raises Ad2Error if there are no frames, DataError for a malformed one.
    """
    files = frames_files(folder)
    selection = QuestionSelection(seed)
    possible: Counter[str] = Counter()
    for question in _questions(folder, files, seed):
        selection.add(question)
        possible[question.record.task] += 1
    keep = selection.kept(per_frame, per_task)
    answers: dict[str, Counter[str]] = {task: Counter() for task in FAMILIES}
    with atomic_write(folder / QUESTIONS) as file:
        for question, kept in zip(_questions(folder, files, seed), keep, strict=True):
            if kept:
                file.write(question.record.to_json() + "\n")
                answers[question.record.task][_answer(question)] += 1
    return [_counts(task, possible[task], answers[task]) for task in FAMILIES]


def frames_files(folder: Path) -> list[Path]:
    """The frames files of a collection in the order of their names; raises Ad2Error if there is none."""
    files = sorted((folder / FRAMES).glob(f"*/{FRAMES_FILE}"))
    if not files:
        raise Ad2Error(f"{folder}: no collected frames ({FRAMES}/*/{FRAMES_FILE}); make some with: ad2 drive collect")
    return files


def frames_of(folder: Path, file: Path) -> Iterator[SeenFrame]:
    """The frames of one drive; an empty file has none. All pictures of a drive have the size of the first one."""
    below = file.parent.relative_to(folder).as_posix()
    reader: FrameReader | None = None
    with open_regular(file) as handle:
        for number, line in enumerate(iter(lambda: handle.readline(LONGEST_LINE + 1), b""), 1):
            if len(line) > LONGEST_LINE:
                raise DataError(file, number, "line", f"at most {LONGEST_LINE >> 20} MiB", f"{len(line)} bytes or more")
            try:
                row = parse(line)
            except ValueError as exc:
                raise DataError(file, number, "line", "one JSON object", str(exc), "Collect it again.") from exc
            reader = reader or FrameReader(file, below, _size(file, number, row))
            yield reader.frame(row, number)


def _size(file: Path, number: int, row: object) -> tuple[int, int]:
    name = row.get("image") if isinstance(row, dict) else None
    if not isinstance(name, str) or Path(name).name != name:
        raise DataError(file, number, "image", "the name of a picture in the same folder", name)
    try:
        with open_regular(file.parent / name) as handle, Image.open(handle) as picture:
            return picture.size
    except (OSError, ValueError) as exc:
        raise DataError(file, number, "image", "a picture in the same folder", name, str(exc)) from exc


def _questions(folder: Path, files: Sequence[Path], seed: int) -> Iterator[WorldQuestion]:
    for file in files:
        yield from questions_of(frames_of(folder, file), seed)


def _answer(question: WorldQuestion) -> str:
    record = question.record
    return record.letter or (record.answer.en if question.value and record.form != "chain" else "")


def _counts(task: str, possible: int, answers: Counter[str]) -> LabelledTask:
    number = sum(answers.values())
    known = number and "" not in answers
    return LabelledTask(task, possible, number, max(answers.values()) / number if known else None)
