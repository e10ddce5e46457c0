"""Questions of a collected folder: frames files -> questions.jsonl, one Record per line."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.learn import collection
from closedloop_plugin.learn.questions.balance import BalancedSelection
from closedloop_plugin.learn.questions.choices import chain, perception, planning, prediction
from closedloop_plugin.learn.questions.frame_reader import CollectedFrameReader
from closedloop_plugin.learn.questions.kinds import TASKS, FrameQuestions, WorldQuestion
from closedloop_plugin.learn.questions.outcomes import HORIZON, OF_THE_ROAD, STEP_S
from closedloop_plugin.learn.questions.seen_frame import SeenFrame
from closedloop_plugin.learn.questions.things import counting, detection, existence, location, relation
from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.untrusted_json import load

RUN = "run.json"
AHEAD_S = STEP_S * HORIZON
FAMILIES = (existence, counting, location, detection, relation, chain, perception, prediction, planning)
MOST_AHEAD = 1000  # frames that wait for what follows


@dataclass(frozen=True)
class LabelledTask:
    """Counts of one task. `guess`: share right if each kind of question gets its most frequent answer, without the
    picture; None for points and boxes.
    """

    task: str
    possible: int
    kept: int
    guess: float | None


def label_folder(
    folder: Path, *, seed: int = 0, per_frame: int | None = None, per_task: int | None = None, out: Path | None = None
) -> list[LabelledTask]:
    """Write `out` (default: `folder`/questions.jsonl).

    Reads the frames twice; memory grows by 40 bytes a possible question.
    per_frame, per_task: greatest number of questions about a frame, and of a task. The same folder and options give the
    same file. Raises Ad2Error if there are no frames, DataError for a malformed one.
    """
    files, max_speed = collection.frames_files(folder), _max_speed(folder)
    selection = BalancedSelection(seed)
    possible: Counter[str] = Counter()
    for question in _questions(folder, files, seed, max_speed):
        selection.add(question)
        possible[question.record.task] += 1
    keep = selection.kept(per_frame, per_task)
    answers: dict[str, dict[str, Counter[str]]] = {task: {} for task in TASKS}
    with atomic_write(out or folder / collection.QUESTIONS) as file:
        for question, kept in zip(_questions(folder, files, seed, max_speed), keep, strict=True):
            if kept:
                file.write(question.record.to_json() + "\n")
                answers[question.record.task].setdefault(question.group, Counter())[question.value] += 1
    return [_counts(task, possible[task], answers[task]) for task in TASKS]


def frames_of(folder: Path, file: Path, max_speed: float | None = None) -> Iterator[SeenFrame]:
    """The frames of one drive; an empty file has none. All pictures of a drive have the size of the first one.

    max_speed: as of CollectedFrameReader.
    """
    below = file.parent.relative_to(folder).as_posix()
    return with_what_follows(_read(file, below, max_speed))


def _read(file: Path, below: str, max_speed: float | None) -> Iterator[SeenFrame]:
    reader: CollectedFrameReader | None = None
    for number, row in collection.frames_of(file):
        reader = reader or CollectedFrameReader(file, below, collection.picture_size(file, number, row), max_speed)
        yield reader.frame(row, number)


def with_what_follows(frames: Iterable[SeenFrame]) -> Iterator[SeenFrame]:
    """The frames of a drive, in order of time, with `stays_free` of those that the drive outlasts by AHEAD_S."""
    waiting: deque[SeenFrame] = deque()
    for frame in frames:
        waiting.append(frame)
        while waiting[0].time_s + AHEAD_S <= frame.time_s:
            free = all(each.reason in OF_THE_ROAD for each in waiting)
            yield replace(waiting.popleft(), stays_free=free)
        if len(waiting) > MOST_AHEAD:  # times that do not rise
            yield waiting.popleft()
    yield from waiting


def _questions(folder: Path, files: Sequence[Path], seed: int, max_speed: float | None) -> Iterator[WorldQuestion]:
    """Every question that can be asked about the frames, before balancing."""
    for file in files:
        for frame in frames_of(folder, file, max_speed):
            asker = FrameQuestions(frame, seed)
            for family in FAMILIES:
                yield from family(asker)


def _max_speed(folder: Path) -> float | None:
    """The highest speed of the profile with which the frames were collected; None if it has none or is not recorded."""
    file = folder / RUN
    if not file.is_file():
        return None
    try:
        name = load(file)["identity"]["profile"]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise DataError(file, None, "identity.profile", "the name of a profile", str(exc)) from exc
    return profile(str(name)).max_speed


def _counts(task: str, possible: int, answers: Mapping[str, Counter[str]]) -> LabelledTask:
    """`answers`: group -> class of the answer -> number."""
    number = sum(map(Counter.total, answers.values()))
    balanced = number and not any("" in classes for classes in answers.values())
    guess = sum(max(classes.values()) for classes in answers.values()) / number if balanced else None
    return LabelledTask(task, possible, number, guess)
