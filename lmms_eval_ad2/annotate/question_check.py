"""The check of multiple-choice questions by people: their sample, and the state of one question for one reviewer.

AutoDrive-QA, section 4.1: experts solved 400 randomly sampled questions. The reviewer sees question, options and the
images that a model under test is shown, and chooses an option. Then the marked answer is shown, and the reviewer judges
the question: correct (the marked option is right and no other), ambiguous (another one can be called right as well, or
the question is unclear), or wrong (the marked option is not right). The categories of the options are never shown.
"""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Lang, Record
from lmms_eval_ad2.prompts.views import shown

SAMPLE = 400  # questions of the paper's check


@dataclass(frozen=True, slots=True)
class QuestionCheck:
    """The check of a question by a reviewer. `choice`: the chosen letter; `choice` and `verdict` are "" until given."""

    record: Record
    lang: Lang
    choice: str
    verdict: str
    note: str

    @property
    def open(self) -> tuple[str, ...]:
        """The points that are missing to finish it."""
        if not self.choice:
            return ("choose the option that is right",)
        return () if self.verdict else ("is the question correct, ambiguous or wrong?",)

    @property
    def finished(self) -> bool:
        return not self.open

    @property
    def solved(self) -> bool:
        """Return whether the reviewer chose the marked option."""
        return self.choice == self.record.letter

    @property
    def drawn(self) -> Record:
        """The record with the images that a model under test is shown."""
        pairs = shown(self.record, "asked")
        views = tuple(view for view, _ in pairs) if self.record.views else ()
        return dataclasses.replace(self.record, images=tuple(name for _, name in pairs), views=views, image_size=None)


def make_check(record: Record, lang: Lang, fields: Mapping[str, Any]) -> QuestionCheck:
    """The check of a record from the reviewer's last values by field (ReviewLog.fields)."""
    values = (fields.get(name) or "" for name in ("choice", "verdict", "note"))
    return QuestionCheck(record, lang, *values)


def sampled(records: Callable[[], Iterator[Record]], number: int, seed: int) -> list[Record]:
    """A sample of `number` multiple-choice questions, or all if there are fewer, in random order.

    Tasks have their shares of the questions (a systematic sample over the questions sorted by task, shuffled within
    each). Each call of `records` starts a new pass; equal records and seed give equal samples. Raises Ad2Error if there
    is no multiple-choice question.
    """
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, record in enumerate(records()):
        if record.options and record.letter:
            places[record.task].append(place)
    for task, of_task in places.items():
        random.Random(f"{seed}:{task}").shuffle(of_task)
    listed = [place for task in sorted(places) for place in places[task]]
    if not listed:
        raise Ad2Error("--check needs multiple-choice questions with a correct option; this source has none")
    if len(listed) > number:
        listed = [listed[(2 * i + 1) * len(listed) // (2 * number)] for i in range(number)]
    wanted = set(listed)
    found = [record for place, record in enumerate(records()) if place in wanted]
    random.Random(f"{seed}").shuffle(found)
    return found
