"""Reading of DriveLM challenge files, and the graph walk that selects the questions of a frame that count.

Rules: OpenDriveLab/DriveLM, `challenge/evaluation.py`. Coordinates are pixels of a 1600x900 camera image.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.parsing import failure_reason

PARTS = ("perception", "prediction", "planning", "behavior")  # questions are numbered in this order
TAGS = (0, 1, 2, 3)
MATCH_RADIUS = 16.0  # pixels, L1 distance below which a point matches a true one

# The challenge takes every decimal number, in pairs. The look-behind keeps matching linear on long digit strings.
_DECIMAL = re.compile(r"(?<![0-9])[0-9]+\.[0-9]+")

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ChallengeQuestion:
    """A question with its reference (`truth`) and answer. `answer`: None if there is none to score."""

    id: str
    part: str
    text: str
    truth: str
    tags: frozenset[int]
    answer: str | None
    counts: bool


@dataclass(frozen=True, slots=True)
class PairedAnswers:
    """The questions in order, and the missing, failed, unknown and duplicate answers."""

    questions: tuple[ChallengeQuestion, ...]
    missing: tuple[str, ...]
    failed: tuple[str, ...]
    unknown: tuple[str, ...]
    n_answers: int
    n_duplicate: int
    n_empty_questions: int


def points(text: str) -> list[Point]:
    """Return the points in `text`: its decimal numbers in pairs; an unpaired last number is ignored."""
    numbers = [float(number) for number in _DECIMAL.findall(text)]
    return list(zip(numbers[::2], numbers[1::2], strict=False))


def match(answer: str, truth: str) -> tuple[list[Point], float]:
    """Return the true points that `answer` hits, and F1 = 2 hits / (points given + true points), 0..1.

    Greedy in the order of the answer: each point takes the nearest unmatched true point if its L1 distance is below
    16 px. F1 is 0 if either side has no point, as in the challenge.
    """
    given, free = points(answer), points(truth)
    n_given, n_true = len(given), len(free)
    hits: list[Point] = []
    for x, y in given:
        if not free:
            break
        distance, index = min((abs(x - tx) + abs(y - ty), i) for i, (tx, ty) in enumerate(free))
        if distance < MATCH_RADIUS:
            hits.append(free.pop(index))
    return hits, 2 * len(hits) / (n_given + n_true) if hits else 0.0


def walk(answers: Sequence[Any], truth: Any, *, answers_file: str, truth_file: str) -> PairedAnswers:
    """Pair answers with the truth and decide for each question whether it counts.

    A frame's first question always counts; the true points hit by its answer form the frame's graph. Each later
    question counts if all points in its text are in the graph. Empty questions are left out.
    Raises DataError for a malformed file, a row without id or text, or two different answers to one id.
    """
    given, duplicates = _by_id(answers, answers_file)
    questions: list[ChallengeQuestion] = []
    failed: list[str] = []
    known: set[str] = set()
    empty = 0
    for frame in _frames(truth, truth_file):
        graph: set[Point] = set()
        for number, (part, qa) in enumerate(frame.items):
            key = f"{frame.id}_{number}"
            known.add(key)
            text, target, tags = _question(qa, key, truth_file)
            answer = given.get(key)
            if answer is not None and failure_reason(answer):
                failed.append(key)
                answer = None
            if number == 0:
                graph = set(match(answer or "", target)[0])
            if not text.strip():
                empty += 1
                continue
            counts = number == 0 or graph.issuperset(points(text))
            questions.append(
                ChallengeQuestion(id=key, part=part, text=text, truth=target, tags=tags, answer=answer, counts=counts)
            )
    missing = tuple(q.id for q in questions if q.id not in given)
    unknown = tuple(key for key in given if key not in known)
    return PairedAnswers(
        questions=tuple(questions),
        missing=missing,
        failed=tuple(failed),
        unknown=unknown,
        n_answers=len(answers),
        n_duplicate=duplicates,
        n_empty_questions=empty,
    )


def _by_id(answers: Any, file: str) -> tuple[dict[str, str], int]:
    """Return the answers by id, and the number of duplicate rows."""
    if isinstance(answers, str | bytes | Mapping) or not isinstance(answers, Sequence):
        raise DataError(file, None, "(file)", "a list of {id, answer} objects", type(answers).__name__)
    given: dict[str, str] = {}
    duplicates = 0
    for row, item in enumerate(answers):
        if not isinstance(item, Mapping):
            raise DataError(file, row, "(row)", "an object with id and answer", item)
        for name in ("id", "answer"):
            if not isinstance(item.get(name), str):
                raise DataError(file, row, name, "a string", item.get(name, "(absent)"))
        key, text = item["id"], item["answer"]
        if key in given:
            if given[key] != text:
                raise DataError(file, row, "id", "one answer to each question", key, "Two rows answer it differently.")
            duplicates += 1
        given[key] = text
    return given, duplicates


@dataclass(frozen=True, slots=True)
class _Frame:
    id: str
    items: tuple[tuple[str, Any], ...]


def _frames(truth: Any, file: str) -> Iterator[_Frame]:
    for scene, scene_data in _object(truth, file, None, "(file)").items():
        frames = _object(_object(scene_data, file, scene, scene).get("key_frames"), file, scene, "key_frames")
        for frame, data in frames.items():
            key = f"{scene}_{frame}"
            parts = _object(_object(data, file, key, frame).get("QA"), file, key, "QA")
            items: list[tuple[str, Any]] = []
            for part in PARTS:
                if not isinstance(parts.get(part), list):
                    raise DataError(file, key, f"QA.{part}", "a list of questions", parts.get(part, "(absent)"))
                items += [(part, qa) for qa in parts[part]]
            yield _Frame(key, tuple(items))


def _question(qa: Any, key: str, file: str) -> tuple[str, str, frozenset[int]]:
    item = _object(qa, file, key, "(question)")
    for name in ("Q", "A"):
        if not isinstance(item.get(name), str):
            raise DataError(file, key, name, "a string", item.get(name, "(absent)"))
    tags = item.get("tag")
    if not isinstance(tags, list) or not all(isinstance(tag, int) and tag in TAGS for tag in tags):
        hint = "Only the challenge's test files carry tags; the training and validation releases do not."
        raise DataError(file, key, "tag", f"a list of {TAGS}", item.get("tag", "(absent)"), hint)
    return item["Q"], item["A"], frozenset(tags)


def _object(value: Any, file: str, row: str | None, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DataError(file, row, name, "an object", "(absent)" if value is None else value)
    return value
