"""One question on its way: proposers, reviewer, refiner, selector, evaluator, and back to refinement where need be."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS, NAIVE
from lmms_eval_ad2.mcq import replies
from lmms_eval_ad2.mcq.base import SELECTED, AcceptedQuestion, Distractor, OpenQuestion, Outcome, RejectedQuestion
from lmms_eval_ad2.mcq.faults import fault, normal, references
from lmms_eval_ad2.mcq.role_requester import NoUsableReply, RoleRequester

T = TypeVar("T")
TWICE = 2  # a single category's proposer makes so many times n: there are no others to choose from


@dataclass(frozen=True, slots=True)
class MakerSettings:
    """What is asked for: see making.make_maker."""

    kind: str = "all"
    n: int = 6
    rounds: int = 3
    threshold: int = 4

    @property
    def categories(self) -> tuple[str, ...]:
        return ERRORS if self.kind == "all" else (self.kind,)

    @property
    def proposals(self) -> int:
        """Of one proposer."""
        return self.n * TWICE if self.kind in ERRORS else self.n


@dataclass(slots=True)
class QuestionPipeline:
    """The stages for one question. `make` and `rate` ask the maker's and the evaluator's model."""

    question: OpenQuestion
    plan: MakerSettings
    make: RoleRequester
    rate: RoleRequester
    pool: list[Distractor] = field(default_factory=list)
    rounds: int = 0
    _answers: frozenset[str] | None = None

    @property
    def notes(self) -> Counter[str]:
        return self.make.notes

    async def run(self) -> Outcome:
        """Made or Rejected. Raises Lost where the endpoint fails, Unusable where a role that is needed does."""
        found = await _all(self._category(category) for category in self.plan.categories)
        self.pool = self._sound(candidate for candidates in found for candidate in candidates)
        if len(self.pool) < SELECTED:
            return self.rejected("too_few_distractors", f"{len(self.pool)} of {SELECTED} are left")
        if self.plan.kind == NAIVE:
            # No choice of the hardest, no second thoughts: what a model says when it is just asked (Table 8).
            first = self.pool[:SELECTED]
            return self._made(first, (await self._evaluate(first)).score)
        return await self._until_clear(await self._select())

    async def _until_clear(self, chosen: list[Distractor]) -> Outcome:
        """Evaluated, and refined where the evaluator finds it ambiguous, within the bounded number of rounds."""
        while True:
            rating = await self._evaluate(chosen)
            if rating.score >= self.plan.threshold:
                return self._made(chosen, rating.score)
            if self.rounds == self.plan.rounds:
                detail = f"correctness {rating.score} is below {self.plan.threshold} after {self.rounds} refinements"
                return self.rejected("ambiguous", detail)
            self.rounds += 1
            comments = {p.number: p.comment for p in rating.problems} or dict.fromkeys(range(1, len(chosen) + 1), "")
            chosen = await self._mend(chosen, comments)

    async def _category(self, category: str) -> list[Distractor]:
        """Proposed, reviewed, refined. A stage that fails is noted: without proposals none, else the last version."""
        n = self.plan.proposals
        try:
            said = await self.make.ask(
                self.make.roles.propose(category, n), replies.ProposalsReply,
                lambda reply: replies.proposals(reply, n, self._wrong),
            )  # fmt: skip
        except NoUsableReply:
            self.notes["proposer_failed"] += 1
            return []
        proposed = [Distractor(p.option.strip(), category, p.reason.strip()) for p in said]
        if category == NAIVE:
            return proposed
        try:
            return await self._refined(category, proposed)
        except NoUsableReply as failed:
            self.notes["reviewer_failed" if failed.role.startswith("review") else "refiner_failed"] += 1
            return proposed

    async def _refined(self, category: str, proposed: list[Distractor]) -> list[Distractor]:
        roles, n = self.make.roles, len(proposed)
        reviewed = await self.make.ask(
            roles.review(category, proposed), replies.ReviewsReply, lambda reply: replies.reviews(reply, n)
        )
        comments = {i: f"{r.verdict}: {r.comment}" for i, r in reviewed.items()}
        said = await self.make.ask(
            roles.refine(category, proposed, comments), replies.RewrittenReply,
            lambda reply: replies.rewritten(reply, range(1, n + 1), self._wrong),
        )  # fmt: skip
        return [_rewritten(d, said[i]) for i, d in enumerate(proposed, 1)]

    async def _select(self) -> list[Distractor]:
        texts = [d.text for d in self.pool]
        said = await self.make.ask(
            self.make.roles.select(self.pool, SELECTED),
            replies.PicksReply,
            lambda reply: replies.picks(reply, texts, SELECTED),
        )
        return [self.pool[pick.number - 1] for pick in said]

    async def _evaluate(self, chosen: Sequence[Distractor]) -> replies.EvaluationReply:
        n = len(chosen)
        return await self.rate.ask(
            self.rate.roles.evaluate(chosen), replies.EvaluationReply, lambda reply: replies.evaluation(reply, n)
        )

    async def _mend(self, chosen: list[Distractor], comments: dict[int, str]) -> list[Distractor]:
        """The commented ones anew. A new one that may not stand beside the others is a fault of the reply."""
        kept = [d.text for i, d in enumerate(chosen, 1) if i not in comments]

        def read(reply: replies.ChatReply) -> dict[int, replies.Numbered]:
            said = replies.rewritten(reply, sorted(comments), self._wrong)
            texts = list(kept)
            for i, one in said.items():
                text = one.option.strip()
                why = "unchanged" if text == chosen[i - 1].text else fault(text, self.question, texts)
                if why is not None:
                    raise replies.ReplyFault(why, f"option {i} cannot stand ({why})")
                texts.append(text)
            return said

        said = await self.make.ask(self.make.roles.mend(chosen, comments), replies.RewrittenReply, read)
        return [_rewritten(d, said[i]) if i in said else d for i, d in enumerate(chosen, 1)]

    def _wrong(self, text: str) -> str | None:
        """What a model is told to mend at once: nothing said, or the answer. Every other fault drops the option."""
        if not any(c.isalnum() for c in text):
            return "not_text"
        if self._answers is None:
            self._answers = frozenset(normal(answer) for answer in references(self.question))
        return "equals_answer" if normal(text) in self._answers else None

    def _sound(self, candidates: Iterable[Distractor]) -> list[Distractor]:
        """Those that may stand, each unlike those before it; why others may not is counted."""
        kept: list[Distractor] = []
        texts: list[str] = []
        for candidate in candidates:
            why = fault(candidate.text, self.question, texts)
            if why is None:
                kept.append(candidate)
                texts.append(candidate.text)
            else:
                self.notes[why] += 1
        return kept

    def _made(self, chosen: Sequence[Distractor], correctness: int) -> AcceptedQuestion:
        return AcceptedQuestion(
            self.question, tuple(chosen), correctness, self.rounds, tuple(self.pool), tuple(self.make.exchanges),
            dict(self.notes),
        )  # fmt: skip

    def rejected(self, reason: str, detail: str = "", passing: bool = False) -> RejectedQuestion:
        """This question given up."""
        return RejectedQuestion(
            self.question, reason, detail, passing, self.rounds, tuple(self.make.exchanges), dict(self.notes)
        )


def _rewritten(old: Distractor, new: replies.Numbered) -> Distractor:
    return replace(old, text=new.option.strip(), reason=new.reason.strip())


async def _all(parts: Iterable[Awaitable[T]]) -> list[T]:
    """All results; an exception is raised when every part has ended, so that no paid reply is thrown away."""
    results = await asyncio.gather(*parts, return_exceptions=True)
    done: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done
