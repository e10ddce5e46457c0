"""Operations of the annotation page, independent of the page: read records, save actions, navigate.

Each `save_*` method returns after the action is on disk, and raises Ad2Error if it cannot be saved.
"""

from __future__ import annotations

import secrets
import threading
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from lmms_eval_ad2.annotate import drafts
from lmms_eval_ad2.annotate.folder import QUESTIONS, AnnotationFolder
from lmms_eval_ad2.annotate.question_check import QuestionCheck, make_check
from lmms_eval_ad2.annotate.record_review import DraftAnnotation, RecordReview, Verdict, make_review
from lmms_eval_ad2.annotate.review_log import MOST, SCALES, CheckVerdict, ReviewLog
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record

ACTIONS = "actions.jsonl"
Words = tuple[str, str, str]  # name, question, text of a piece
ReviewT = TypeVar("ReviewT", RecordReview, QuestionCheck)


class FolderProject(ABC, Generic[ReviewT]):
    """An opened folder with its actions. Thread-safe; other processes may use the folder too."""

    def __init__(self, folder: AnnotationFolder) -> None:
        self.folder = folder
        self.actions = ReviewLog(folder.path / ACTIONS)
        self._finished: dict[tuple[str, str], bool] = {}
        self._lock = threading.RLock()
        if unknown := sorted({name for _, name in self.actions.states} - set(folder.index)):
            raise Ad2Error(f"{self.actions.path} names {unknown[0]}, which is not a record of this folder")

    def review(self, reviewer: str, number: int) -> ReviewT:
        """Return the review of record `number` (from 0) by this reviewer, with the actions of other processes."""
        self._refresh()
        return self._review(reviewer, self.folder.record(number))

    @abstractmethod
    def _review(self, reviewer: str, record: Record) -> ReviewT: ...

    # -- saving ----------------------------------------------------------------------------------------------------

    def save(self, reviewer: str, number: int, field: str, value: Any) -> ReviewT:
        """Save the field complete, note, mark or letter (review_log.py)."""
        return self._save(reviewer, number, field, field, value)

    def _save(self, reviewer: str, number: int, field: str, action: str, value: Any) -> ReviewT:
        record = self.folder.record(number)
        if self.actions.fields(reviewer, record.id).get(field) == value:
            return self.review(reviewer, number)  # browsers may send an event twice
        try:
            self.actions.append(reviewer, record.id, field, action, value)
        except OSError as exc:
            raise Ad2Error(
                f"NOT SAVED: {self.actions.path}: {exc.strerror}; free disk space, then repeat the action"
            ) from exc
        with self._lock:
            self._finished.pop((reviewer, record.id), None)
        return self.review(reviewer, number)

    # -- navigation ------------------------------------------------------------------------------------------------

    def finished(self, reviewer: str) -> set[int]:
        """Return the numbers of the records that this reviewer has finished."""
        self._refresh()
        found = set()
        for author, name in list(self.actions.states):
            if author == reviewer and self._is_finished(reviewer, name):
                found.add(self.folder.index[name])
        return found

    def _is_finished(self, reviewer: str, name: str) -> bool:
        with self._lock:
            known = self._finished.get((reviewer, name))
        if known is None:
            known = self._review(reviewer, self.folder.record(self.folder.index[name])).finished
            with self._lock:
                self._finished[reviewer, name] = known
        return known

    def go(self, reviewer: str, number: int, by: int, only_open: bool = False) -> int:
        """Return the next number in direction `by` (-1, 1), skipping finished records if `only_open`; else `number`."""
        done = self.finished(reviewer) if only_open else set()
        at = number + by
        while 0 <= at < len(self.folder):
            if at not in done:
                return at
            at += by
        return number

    def first_open(self, reviewer: str) -> int:
        """Return the number of the first unfinished record; of the last record if all are finished."""
        done = self.finished(reviewer)
        return next((n for n in range(len(self.folder)) if n not in done), len(self.folder) - 1)

    def _refresh(self) -> None:
        touched = self.actions.refresh()
        with self._lock:
            for key in touched:
                self._finished.pop(key, None)
        for _, name in touched:
            if name not in self.folder.index:
                raise Ad2Error(f"{self.actions.path} names {name}, which is not a record of this folder")


class AnnotationProject(FolderProject[RecordReview]):
    """Review of texts: keep, change, delete, score. With the drafts of the folder."""

    def __init__(self, folder: AnnotationFolder) -> None:
        if folder.about.task == QUESTIONS:
            raise Ad2Error(f"{folder.path} checks questions: see ad2 annotate summary {folder.path}")
        super().__init__(folder)
        self.drafts: dict[str, DraftAnnotation] = drafts.load(folder)
        self.scale = SCALES[folder.about.scale]

    def _review(self, reviewer: str, record: Record) -> RecordReview:
        fields = self.actions.fields(reviewer, record.id)
        return make_review(record, self.folder.about.lang, self.drafts.get(record.id), fields)

    def save_verdict(self, reviewer: str, number: int, key: str, verdict: Verdict | None, words: Words) -> RecordReview:
        """Save keep, change, delete or undecided (None), together with the texts."""
        review = self.review(reviewer, number)
        line = review.line(key)
        if line is None:
            raise Ad2Error(f"{review.record.id} has no text '{key}'")
        if verdict == "keep":
            words = line.base.words
        if line.verdict == "add" and verdict in ("keep", "change"):
            verdict = "add"  # an added piece has no original to keep or change
        return self._save(reviewer, number, key, verdict or "undo", _value(verdict, words))

    def save_words(self, reviewer: str, number: int, key: str, words: Words) -> RecordReview:
        """Save edited texts: different texts are a change, the original ones undo it."""
        line = self.review(reviewer, number).line(key)
        if line is None or line.now.words == words:
            return self.review(reviewer, number)
        if line.verdict in ("add", "delete"):
            return self._save(reviewer, number, key, "edit", _value(line.verdict, words))
        verdict: Verdict | None = "change" if words != line.base.words else None
        return self._save(reviewer, number, key, verdict or "undo", _value(verdict, words))

    def save_score(self, reviewer: str, number: int, key: str, score: int | None) -> RecordReview:
        """Save a score of the original text on the folder's scale; None removes it."""
        low, high = self.scale
        if score is not None and not low <= score <= high:
            raise Ad2Error(f"score {score}: expected {low} to {high}")
        return self._save(reviewer, number, f"score/{key}", "score", score)

    def add(self, reviewer: str, number: int) -> RecordReview:
        """Append a new, empty step or object."""
        review = self.review(reviewer, number)
        if review.listed is None or len(review.lines) >= MOST:
            raise Ad2Error(f"{review.record.id}: nothing can be added to it")
        key = f"{review.listed}.new-{secrets.token_hex(4)}"
        return self._save(reviewer, number, key, "add", _value("add", ("", "", "")))

    def move(self, reviewer: str, number: int, key: str, by: int) -> RecordReview:
        """Move a step or object up (`by` = -1) or down (1)."""
        review = self.review(reviewer, number)
        keys = [line.base.key for line in review.lines if line.base.kind == review.listed]
        if key not in keys:
            raise Ad2Error(f"{review.record.id}: '{key}' cannot be moved")
        at = keys.index(key)
        to = min(max(at + by, 0), len(keys) - 1)
        if to == at:
            return review
        keys.insert(to, keys.pop(at))
        return self._save(reviewer, number, "order", "move", keys)


class QuestionCheckProject(FolderProject[QuestionCheck]):
    """Check of multiple-choice questions: the reviewer answers each, then judges it with the marked answer."""

    def __init__(self, folder: AnnotationFolder) -> None:
        if folder.about.task != QUESTIONS:
            raise Ad2Error(f"{folder.path} reviews texts: make a check of questions with ad2 annotate SOURCE --check")
        super().__init__(folder)

    def _review(self, reviewer: str, record: Record) -> QuestionCheck:
        return make_check(record, self.folder.about.lang, self.actions.fields(reviewer, record.id))

    def save_choice(self, reviewer: str, number: int, letter: str) -> QuestionCheck:
        """Save the reviewer's answer. It is final, since the marked answer is shown from then on."""
        check = self.review(reviewer, number)
        if letter not in (option.letter for option in check.record.options):
            raise Ad2Error(f"{check.record.id} has no option '{letter}'")
        if check.choice:
            if check.choice != letter:
                raise Ad2Error(f"the answer {check.choice} is saved; it cannot be changed once the marked one is shown")
            return check
        return self._save(reviewer, number, "choice", "choose", letter)

    def save_verdict(self, reviewer: str, number: int, verdict: CheckVerdict) -> QuestionCheck:
        """Save the verdict on the question; the reviewer must have answered it."""
        if not self.review(reviewer, number).choice:
            raise Ad2Error("choose an option first")
        return self._save(reviewer, number, "verdict", "judge", verdict)


def open_project(folder: AnnotationFolder) -> AnnotationProject | QuestionCheckProject:
    """Open a folder with the project of its task."""
    return QuestionCheckProject(folder) if folder.about.task == QUESTIONS else AnnotationProject(folder)


def _value(verdict: Verdict | None, words: Words) -> dict[str, Any]:
    name, question, text = (w.replace("\r\n", "\n").strip() for w in words)
    return {"verdict": verdict, "name": name, "question": question, "text": text}
