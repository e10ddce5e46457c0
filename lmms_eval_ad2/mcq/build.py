"""A plan made into questions: draw, make, replace from the reserve what was rejected, write the set and its card."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.mcq.base import (
    ENDPOINT_DOWN,
    AcceptedQuestion,
    DistractorMaker,
    OpenQuestion,
    Outcome,
    RejectedQuestion,
)
from lmms_eval_ad2.mcq.output_files import McqBuildResult, finish
from lmms_eval_ad2.mcq.question_plan import QuestionPlan
from lmms_eval_ad2.mcq.question_rows import row_fault, row_of
from lmms_eval_ad2.mcq.scheduling import QuestionScheduler, chosen, key_of
from lmms_eval_ad2.mcq.sources import QuestionSource
from lmms_eval_ad2.mcq.store import QuestionStore
from lmms_eval_ad2.mcq.survey import SourceSurvey, load

_ACCOUNT_S = 5.0  # between two account lines; kill -9 loses at most so much of the account
_WITHOUT_IMAGES = 64  # questions of a source, from its first, until its image folder counts as the wrong one


@dataclass(frozen=True, slots=True)
class McqBuildJob:
    """What is to be built. kind: what is asked of the maker. limit: ask at most so many questions in this start."""

    sources: tuple[QuestionSource, ...]
    survey: SourceSurvey
    plan: QuestionPlan
    maker: DistractorMaker
    out: Path
    seed: int = 0
    kind: str = "all"
    limit: int | None = None
    progress: bool = True

    def settings(self) -> dict[str, Any]:
        """What must be equal at every start of one folder."""
        return {
            "sources": {s.name: {"split": s.split, "sha256": s.sha256} for s in self.sources},
            "maker": self.maker.describe(), "distractors": self.kind, "seed": self.seed, "plan": self.plan.facts(),
        }  # fmt: skip


def build(job: McqBuildJob) -> McqBuildResult:
    """Make all that the plan asks for and is not made yet; files in job.out as store.py tells.

    On Ctrl-C, and where the endpoint refuses everything (Ad2Error), what was made until then is written as a set, too.
    """
    with QuestionStore(job.out, job.settings()) as store:
        store.link_images({source.name: source.image_root for source in job.sources})
        there = sum(store.status(*key_of(e)) == "made" for s in job.plan.strata for e in chosen(s, store))
        with tqdm(
            total=job.plan.total, initial=there, desc="questions", unit="", disable=None if job.progress else True
        ) as bar:
            work = _BuildRun(job, store, bar)
            try:
                work.run()
            except (KeyboardInterrupt, Ad2Error):
                work.close()
                raise
            else:
                return work.close()
            finally:
                work.stop()


class _BuildRun:
    """One start of a build."""

    def __init__(self, job: McqBuildJob, store: QuestionStore, bar: Any) -> None:
        self.job, self.store, self.bar = job, store, bar
        self.drawing = QuestionScheduler(job.plan, store, job.limit)
        self._splits = {source.name: source.split for source in job.sources}
        self._rejected = self._passing = 0
        self._down = False
        self._account_at = time.monotonic()
        # A thread of its own writes: a disk that is slow to sync must not keep the endpoint waiting.
        self._writer = ThreadPoolExecutor(1, "ad2-mcq-write")
        self._failure: BaseException | None = None

    def run(self) -> None:
        """First what the plan drew, then, round after round, replacements for what was rejected."""
        while entries := self.drawing.next():
            failed = self._passing
            questions = load(self.job.sources, entries, progress=self.job.progress)
            self.job.maker.make(askable(questions, self.done), self.done)
            self._drain()
            if self._down or self._passing - failed == len(entries):
                return  # the endpoint is gone: the reserve would go the same way

    def done(self, outcome: Outcome) -> None:
        """Keep one outcome. Raises what the writing of a former one met, a full disk say."""
        if self._failure is not None:
            raise self._failure
        self._writer.submit(self._write, outcome)

    def _drain(self) -> None:
        """Wait until all that was handed over is written."""
        self._writer.submit(int).result()
        if self._failure is not None:
            raise self._failure

    def _write(self, outcome: Outcome) -> None:
        if self._failure is None:
            try:
                self._keep(outcome)
            except BaseException as exc:  # carried over to the maker's thread
                self._failure = exc

    def _keep(self, outcome: Outcome) -> None:
        row = None
        if isinstance(outcome, AcceptedQuestion):
            row = self._row(outcome)
            # Whatever a maker hands over, nothing gets into the set that its reader would refuse.
            if fault := row_fault(row, outcome.distractors):
                outcome, row = _refused(outcome, fault), None
        line = _line(outcome, row)
        self.store.save(line, _transcript(line, outcome) if outcome.exchanges else None)
        self._passing += line["status"] == "passing"
        self._down = self._down or line.get("reason") == ENDPOINT_DOWN
        self._rejected += line["status"] == "rejected"
        if time.monotonic() - self._account_at > _ACCOUNT_S:
            self._account_at = time.monotonic()
            self.store.save_account(self.job.maker.account())
        self._show(line["status"] == "made")

    def _row(self, made: AcceptedQuestion) -> dict[str, Any]:
        split = self._splits[made.question.source]
        return row_of(made, seed=self.job.seed, maker=self.job.maker.label, kind=self.job.kind, split=split)

    def _show(self, made: bool) -> None:
        if not self.bar.disable:
            account = self.job.maker.account()
            shown = {
                "rejected": self._rejected, "failed": self._passing,
                "tokens": account.get("prompt_tokens", 0) + account.get("completion_tokens", 0),
            }  # fmt: skip
            self.bar.set_postfix({name: n for name, n in shown.items() if n}, refresh=False)
        self.bar.update(made)

    def close(self) -> McqBuildResult:
        self._drain()
        self.store.save_account(self.job.maker.account())
        return finish(self.job, self.store)

    def stop(self) -> None:
        """End the writing, whatever happened: nothing is written into a closed store."""
        self._writer.shutdown(wait=True)


def askable(questions: Iterable[OpenQuestion], done: Callable[[Outcome], None]) -> Iterator[OpenQuestion]:
    """The questions that can be asked at all; the others are rejected: "image_missing", and "visual_mark" (a box or
    point to be drawn on the image, for which the set's rows have no field).

    Ad2Error where all images of a source's first questions are missing: then the folder is the wrong one, and nothing
    is kept of them.
    """
    seen: set[str] = set()
    waiting: dict[str, list[RejectedQuestion]] = {}
    for question in questions:
        source = question.source
        if question.record.mark.kind != "none":
            done(RejectedQuestion(question, "visual_mark", question.record.mark.kind))
            continue
        absent = next((name for name in question.record.images if not (question.image_root / name).is_file()), None)
        if absent is None:
            seen.add(source)
            for held in waiting.pop(source, ()):
                done(held)
            yield question
            continue
        held = RejectedQuestion(question, "image_missing", absent)
        if source in seen:
            done(held)
            continue
        waiting.setdefault(source, []).append(held)
        if len(waiting[source]) >= _WITHOUT_IMAGES:
            raise _no_images(held, len(waiting[source]))
    for lot in waiting.values():
        raise _no_images(lot[0], len(lot))


def _no_images(first: RejectedQuestion, number: int) -> Ad2Error:
    question = first.question
    return Ad2Error(
        f"{question.source}: the images of its first {number} questions are not there, such as "
        f"{question.image_root / first.detail}. Name their folder: --images {question.source}=DIR"
    )


def _refused(made: AcceptedQuestion, fault: str) -> RejectedQuestion:
    return RejectedQuestion(made.question, "not_importable", fault, False, made.rounds, made.exchanges, made.notes)


def _line(outcome: Outcome, row: dict[str, Any] | None) -> dict[str, Any]:
    question = outcome.question
    line: dict[str, Any] = {
        "source": question.source, "id": question.id, "status": "made", "task": question.task,
        "subtask": question.subtask, "rounds": outcome.rounds, "notes": dict(sorted(outcome.notes.items())),
    }  # fmt: skip
    if isinstance(outcome, AcceptedQuestion):
        return line | {"row": row}
    line["status"] = "passing" if outcome.passing else "rejected"
    said = {"question": question.text, "answer": question.answer}
    return line | {"reason": outcome.reason, "detail": outcome.detail} | said


def _transcript(line: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    question = outcome.question
    told = {
        **{name: value for name, value in line.items() if name != "row"},
        "question": question.text, "answer": question.answer, "images": list(question.record.images),
    }  # fmt: skip
    if isinstance(outcome, AcceptedQuestion):
        told["distractors"] = [asdict(distractor) for distractor in outcome.distractors]
        told["correctness"] = outcome.correctness
        told["pool"] = [asdict(distractor) for distractor in outcome.pool]
    told["exchanges"] = [asdict(exchange) for exchange in outcome.exchanges]
    return told
