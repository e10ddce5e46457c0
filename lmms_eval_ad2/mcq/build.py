"""Build of a question set: make the planned questions, replace rejected ones from the reserve, write set and card.

The set consists of the first `quota` entries of each stratum, in drawing order, that were not rejected. It depends only
on the outcomes, not on their order, so that an interrupted and an uninterrupted build give the same questions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.mcq.base import (
    ENDPOINT_DOWN,
    AcceptedQuestion,
    DistractorMaker,
    OpenQuestion,
    Outcome,
    RejectedQuestion,
)
from lmms_eval_ad2.mcq.output_files import McqBuildResult, chosen, finish, key_of
from lmms_eval_ad2.mcq.question_plan import QuestionPlan, Stratum
from lmms_eval_ad2.mcq.question_rows import row_fault, row_of
from lmms_eval_ad2.mcq.sources import QuestionSource, SourceSurvey, SurveyEntry, load
from lmms_eval_ad2.mcq.store import Key, QuestionStore

_MOST_DOUBLINGS = 10
_ACCOUNT_S = 5.0  # seconds between two account lines in the journal: what kill -9 loses of the account at most
_WITHOUT_IMAGES = 64  # first questions of a source without images after which its image folder counts as wrong


class QuestionScheduler:
    """Selects the entries of each round in one run of a build. `asked`: entries returned so far; none is repeated."""

    def __init__(self, plan: QuestionPlan, store: QuestionStore, limit: int | None) -> None:
        self.plan, self.store, self.limit = plan, store, limit
        self.asked: set[Key] = set()
        self._empty_rounds = [0] * len(plan.strata)

    def next(self) -> list[SurveyEntry]:
        """The entries of the next round, in the order of the source files, each read once a round. Empty: finished."""
        batches = [self._batch(number, stratum) for number, stratum in enumerate(self.plan.strata)]
        # Alternate between strata, so that a trial of a few questions covers all of them.
        entries = [entry for row in zip_longest(*batches) for entry in row if entry is not None]
        if self.limit is not None:
            entries = entries[: max(0, self.limit - len(self.asked))]
        self.asked.update(map(key_of, entries))
        return sorted(entries, key=lambda entry: (entry.source, entry.number))

    def _batch(self, number: int, stratum: Stratum) -> list[SurveyEntry]:
        """The entries that a stratum still lacks, doubled after each round in which none was made.

        A round costs one pass over the source file, hence the doubling. Questions made beyond the quota replace later
        rejections.
        """
        missing = self._unmade(chosen(stratum, self.store))
        if not missing:
            return []
        tried = [entry for entry in stratum.entries if key_of(entry) in self.asked]
        none_made = bool(tried) and len(self._unmade(tried)) == len(tried)
        self._empty_rounds[number] = min(self._empty_rounds[number] + 1, _MOST_DOUBLINGS) if none_made else 0
        more = len(missing) * (2 ** self._empty_rounds[number] - 1)
        return [e for e in self._unmade(chosen(stratum, self.store, more)) if key_of(e) not in self.asked]

    def _unmade(self, entries: Iterable[SurveyEntry]) -> list[SurveyEntry]:
        return [entry for entry in entries if self.store.status(*key_of(entry)) != "made"]


@dataclass(frozen=True, slots=True)
class McqBuildJob:
    """Input of a build. kind: one of base.KINDS. limit: maximum number of questions in this run."""

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
        """Settings that must be equal at every start in one folder."""
        return {
            "sources": {s.name: {"split": s.split, "sha256": s.sha256} for s in self.sources},
            "maker": self.maker.describe(), "distractors": self.kind, "seed": self.seed, "plan": self.plan.facts(),
        }  # fmt: skip


def build(job: McqBuildJob) -> McqBuildResult:
    """Make the questions of the plan that are not made yet, and write the files described in store.py to job.out.

    On Ctrl-C, and if the endpoint refuses everything (Ad2Error), the questions made so far are still written as a set.
    """
    with QuestionStore(job.out, job.settings()) as store:
        store.link_images({source.name: source.image_root for source in job.sources})
        made = sum(store.status(*key_of(e)) == "made" for s in job.plan.strata for e in chosen(s, store))
        with tqdm(
            total=job.plan.total, initial=made, desc="questions", unit="", disable=None if job.progress else True
        ) as bar:
            build_run = _BuildRun(job, store, bar)
            try:
                build_run.run()
            except (KeyboardInterrupt, Ad2Error):
                build_run.close()
                raise
            else:
                return build_run.close()
            finally:
                build_run.stop()


class _BuildRun:
    """One run of a build."""

    def __init__(self, job: McqBuildJob, store: QuestionStore, bar: Any) -> None:
        self.job, self.store, self.bar = job, store, bar
        self.scheduler = QuestionScheduler(job.plan, store, job.limit)
        self._splits = {source.name: source.split for source in job.sources}
        self._rejected = self._passing = 0
        self._endpoint_down = False
        self._account_at = time.monotonic()
        # Outcomes are written in a separate thread, so that slow disk syncs do not delay requests.
        self._writer = ThreadPoolExecutor(1, "ad2-mcq-write")
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Make the drawn questions, then in further rounds replacements of the rejected ones."""
        while entries := self.scheduler.next():
            failed = self._passing
            questions = load(self.job.sources, entries, progress=self.job.progress)
            self.job.maker.make(askable(questions, self.done), self.done)
            self._drain()
            if self._endpoint_down or self._passing - failed == len(entries):
                return  # the endpoint is down: further rounds would fail as well

    def done(self, outcome: Outcome) -> None:
        """Queue one outcome for writing. Raises the error of an earlier write, for example a full disk."""
        if self._failure is not None:
            raise self._failure
        self._writer.submit(self._write, outcome)

    def _drain(self) -> None:
        """Wait until all queued outcomes are written."""
        self._writer.submit(int).result()
        if self._failure is not None:
            raise self._failure

    def _write(self, outcome: Outcome) -> None:
        if self._failure is None:
            try:
                self._keep(outcome)
            except BaseException as exc:  # raised again in the maker's thread
                self._failure = exc

    def _keep(self, outcome: Outcome) -> None:
        row = None
        if isinstance(outcome, AcceptedQuestion):
            split = self._splits[outcome.question.source]
            maker, job = self.job.maker.label, self.job
            row = row_of(outcome, seed=job.seed, maker=maker, kind=job.kind, split=split)
            # Third-party makers are not trusted: a row that could not be imported becomes a rejection.
            if fault := row_fault(row, outcome.distractors):
                outcome, row = _not_importable(outcome, fault), None
        line = _line(outcome, row)
        self.store.save(line, _transcript(line, outcome) if outcome.exchanges else None)
        self._passing += line["status"] == "passing"
        self._endpoint_down = self._endpoint_down or line.get("reason") == ENDPOINT_DOWN
        self._rejected += line["status"] == "rejected"
        if time.monotonic() - self._account_at > _ACCOUNT_S:
            self._account_at = time.monotonic()
            self.store.save_account(self.job.maker.account())
        if not self.bar.disable:
            account = self.job.maker.account()
            tokens = account.get("prompt_tokens", 0) + account.get("completion_tokens", 0)
            shown = {"rejected": self._rejected, "failed": self._passing, "tokens": tokens}
            self.bar.set_postfix({name: n for name, n in shown.items() if n}, refresh=False)
        self.bar.update(line["status"] == "made")

    def close(self) -> McqBuildResult:
        self._drain()
        job, maker = self.job, self.job.maker
        self.store.save_account(maker.account())
        facts = {"seed": job.seed, "maker": maker.label, "sources": list(job.survey.sources)}
        return finish(self.store, job.plan, job.kind, maker.describe(), facts)

    def stop(self) -> None:
        """Wait for the writer thread, so that nothing is written to a closed store."""
        self._writer.shutdown(wait=True)


def askable(questions: Iterable[OpenQuestion], done: Callable[[Outcome], None]) -> Iterator[OpenQuestion]:
    """The questions that can be used; the others are rejected.

    Reasons: "image_missing", and "visual_mark" (a box or point to be drawn on the image, for which rows have no field).
    Raises Ad2Error if the images of a source's first questions are all missing: then the image folder is wrong, and
    these rejections are not recorded.
    """
    with_images: set[str] = set()  # sources
    waiting: dict[str, list[RejectedQuestion]] = {}  # by source, until one of its images is found
    for question in questions:
        source = question.source
        if question.record.mark.kind != "none":
            done(RejectedQuestion(question, "visual_mark", question.record.mark.kind))
            continue
        absent = next((name for name in question.record.images if not (question.image_root / name).is_file()), None)
        if absent is None:
            with_images.add(source)
            for held in waiting.pop(source, ()):
                done(held)
            yield question
            continue
        held = RejectedQuestion(question, "image_missing", absent)
        if source in with_images:
            done(held)
            continue
        waiting.setdefault(source, []).append(held)
        if len(waiting[source]) >= _WITHOUT_IMAGES:
            raise _no_images(held, len(waiting[source]))
    for missing in waiting.values():
        raise _no_images(missing[0], len(missing))


def _no_images(first: RejectedQuestion, number: int) -> Ad2Error:
    question = first.question
    return Ad2Error(
        f"{question.source}: the images of its first {number} questions are not there, for example "
        f"{question.image_root / first.detail}. Name their folder: --images {question.source}=DIR"
    )


def _not_importable(accepted: AcceptedQuestion, fault: str) -> RejectedQuestion:
    return RejectedQuestion(
        accepted.question, "not_importable", fault, rounds=accepted.rounds, exchanges=accepted.exchanges,
        notes=accepted.notes,
    )  # fmt: skip


def _line(outcome: Outcome, row: dict[str, Any] | None) -> dict[str, Any]:
    question = outcome.question
    line: dict[str, Any] = {
        "source": question.source, "id": question.id, "status": "made", "task": question.task,
        "subtask": question.subtask, "rounds": outcome.rounds, "notes": dict(sorted(outcome.notes.items())),
    }  # fmt: skip
    if isinstance(outcome, AcceptedQuestion):
        return line | {"row": row}
    line["status"] = "passing" if outcome.passing else "rejected"
    texts = {"question": question.text, "answer": question.answer}
    return line | {"reason": outcome.reason, "detail": outcome.detail} | texts


def _transcript(line: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    question = outcome.question
    transcript = {
        **{name: value for name, value in line.items() if name != "row"},
        "question": question.text, "answer": question.answer, "images": list(question.record.images),
    }  # fmt: skip
    if isinstance(outcome, AcceptedQuestion):
        transcript["distractors"] = [asdict(distractor) for distractor in outcome.distractors]
        transcript["correctness"] = outcome.correctness
        transcript["pool"] = [asdict(distractor) for distractor in outcome.pool]
    transcript["exchanges"] = [asdict(exchange) for exchange in outcome.exchanges]
    return transcript
