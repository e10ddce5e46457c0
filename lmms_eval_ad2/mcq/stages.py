"""The stages of one question: proposers, reviewer, refiner, selector, evaluator, and repair of ambiguous sets.

Each role's request is repeated with the fault of the last reply until a reply is usable (bounded).
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from pydantic import BaseModel

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS, NAIVE
from lmms_eval_ad2.llm.cache import key_of
from lmms_eval_ad2.llm.client import ChatReply, RequestFailure
from lmms_eval_ad2.llm.model import LanguageModel, json_schema
from lmms_eval_ad2.llm.request_body import DataUrlImage, EncodedJson
from lmms_eval_ad2.llm.session import EndpointSession
from lmms_eval_ad2.mcq import replies
from lmms_eval_ad2.mcq.base import (
    NO_PROPOSALS,
    SELECTED,
    AcceptedQuestion,
    Distractor,
    OpenQuestion,
    Outcome,
    RejectedQuestion,
    RoleExchange,
)
from lmms_eval_ad2.mcq.faults import LETTER_OR_DIGIT, fault, references
from lmms_eval_ad2.mcq.replies import LONGEST_REPLY, REFUSED, SCHEMA_NAMES, ReplyFault, schema_of
from lmms_eval_ad2.mcq.role_prompts import QuestionPrompts, RolePrompt
from lmms_eval_ad2.mcq.wording import normal

T = TypeVar("T")
MOST_FORMLESS = 8  # questions in a row without a reply in JSON, after which no further one is asked
_SHOWN = 120  # characters of a reply in a message
_ALONE_FACTOR = 2  # proposals of a single category, times n: there are no other categories to choose from


def never_json(label: str, reply: str, then: str) -> Ad2Error:
    """The error that ends a command after MOST_FORMLESS questions in a row; `then`: what becomes of them."""
    shown = " ".join(reply.split())[:_SHOWN]
    return Ad2Error(
        f"{label}: no reply to {MOST_FORMLESS} questions in a row is JSON, e.g. '{shown}': use a model or a server "
        f"that replies in JSON as requested; {then}"
    )


class NoEndpointReply(Exception):
    """The endpoint failed to reply."""

    def __init__(self, failure: RequestFailure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class NoUsableReply(Exception):
    """No usable reply from a role. `code` and `detail` describe the fault of the last reply, `reply`."""

    def __init__(self, role: str, code: str, detail: str, reply: str) -> None:
        super().__init__(f"{role}: {code}")
        self.role, self.code, self.detail, self.reply = role, code, detail, reply


@dataclass(slots=True)
class RoleRequester:
    """Requests of one question. `exchanges` is its transcript; `notes` counts the faults of its replies."""

    model: LanguageModel
    session: EndpointSession
    prompts: QuestionPrompts
    images: Sequence[DataUrlImage]
    repairs: int
    exchanges: list[RoleExchange] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)

    async def request(self, prompt: RolePrompt, shape: type[BaseModel], read: Callable[[ChatReply], T]) -> T:
        """Result of `read` for the first reply that it accepts, that is, for which it does not raise ReplyFault.

        Raises NoEndpointReply if the endpoint fails, and NoUsableReply after `repairs` further requests.
        """
        for left in range(self.repairs, -1, -1):
            outcome, value = await self._once(prompt, shape, read)
            self._record(prompt, outcome, value)
            if isinstance(outcome, RequestFailure):
                raise NoEndpointReply(outcome)
            if not isinstance(value, ReplyFault):
                return cast(T, value)
            self.notes[f"reply_{value.code}"] += 1
            if not left or value.code == REFUSED:
                raise NoUsableReply(prompt.role, value.code, value.message, outcome.text)
            prompt = prompt.after(outcome.text, self.prompts.complaint(value.message))
        raise AssertionError("unreachable")

    async def _once(
        self, prompt: RolePrompt, shape: type[BaseModel], read: Callable[[ChatReply], T]
    ) -> tuple[ChatReply | RequestFailure, T | ReplyFault | None]:
        """The reply and the result of `read`, which is called once although both the cache and the caller need it."""
        seen: dict[ChatReply, T | ReplyFault] = {}

        def read_once(reply: ChatReply) -> T | ReplyFault:
            if reply not in seen:
                try:
                    seen[reply] = read(reply)
                except ReplyFault as fault:
                    seen[reply] = fault
            return seen[reply]

        form = _form(shape)
        key = key_of(self.model.payload(prompt.outline(self.images), form))
        outcome = await self.session.ask(
            lambda: self.model.payload(prompt.messages(self.images), form),
            key=key, accept=lambda reply: not isinstance(read_once(reply), ReplyFault),
        )  # fmt: skip
        return outcome, read_once(outcome) if isinstance(outcome, ChatReply) else None

    def _record(self, prompt: RolePrompt, outcome: ChatReply | RequestFailure, value: object) -> None:
        if isinstance(outcome, RequestFailure):
            exchange = RoleExchange(prompt.role, prompt.latest, outcome.detail, fault=outcome.reason)
        else:
            fault = value.code if isinstance(value, ReplyFault) else ""
            tokens = (outcome.prompt_tokens, outcome.completion_tokens)
            text = outcome.text[:LONGEST_REPLY]  # longer replies are refused unread
            exchange = RoleExchange(prompt.role, prompt.latest, text, fault, outcome.cached, *tokens)
        self.exchanges.append(exchange)


@functools.cache
def _form(shape: type[BaseModel]) -> EncodedJson:
    """The requested form of a reply."""
    return json_schema(SCHEMA_NAMES[shape], schema_of(shape))


@dataclass(frozen=True, slots=True)
class MakerSettings:
    """Settings of a maker, see maker_spec.make_maker."""

    kind: str = "all"
    n: int = 6
    rounds: int = 3
    threshold: int = 4

    @property
    def categories(self) -> tuple[str, ...]:
        return ERRORS if self.kind == "all" else (self.kind,)

    @property
    def proposals(self) -> int:
        """Number of proposals per proposer."""
        return self.n * _ALONE_FACTOR if self.kind in ERRORS else self.n


@dataclass(slots=True)
class QuestionPipeline:
    """The stages for one question. `maker` and `evaluator` send requests to the two models."""

    question: OpenQuestion
    settings: MakerSettings
    maker: RoleRequester
    evaluator: RoleRequester
    pool: list[Distractor] = field(default_factory=list)
    rounds: int = 0
    unread: list[NoUsableReply] = field(default_factory=list)  # of proposers, by the form of their last replies
    _answers: frozenset[str] | None = None

    @property
    def notes(self) -> Counter[str]:
        return self.maker.notes

    async def run(self) -> Outcome:
        """Run all stages. Raises NoEndpointReply if the endpoint fails, NoUsableReply if an indispensable role does."""
        found = await _all(self._category(category) for category in self.settings.categories)
        if len(self.unread) == len(found):
            # The model does not reply as requested; the question is not at fault, and may be asked again.
            codes = ", ".join(f"{code} {n}" for code, n in Counter(one.code for one in self.unread).items())
            return self.rejected(NO_PROPOSALS, f"no proposer gave a usable reply ({codes})", passing=True)
        self.pool = self._valid(candidate for candidates in found for candidate in candidates)
        if len(self.pool) < SELECTED:
            return self.rejected("too_few_distractors", f"{len(self.pool)} of {SELECTED} are left")
        if self.settings.kind == NAIVE:
            # Neither selection nor refinement: the first proposals of the model (Table 8).
            first = self.pool[:SELECTED]
            return self._made(first, (await self._evaluate(first)).score)
        return await self._until_clear(await self._select())

    async def _until_clear(self, chosen: list[Distractor]) -> Outcome:
        """Evaluate, and repair as long as the evaluator finds the set ambiguous, for at most `rounds` rounds."""
        while True:
            rating = await self._evaluate(chosen)
            if rating.score >= self.settings.threshold:
                return self._made(chosen, rating.score)
            if self.rounds == self.settings.rounds:
                detail = (
                    f"correctness {rating.score} is below {self.settings.threshold} after {self.rounds} refinements"
                )
                return self.rejected("ambiguous", detail)
            self.rounds += 1
            comments = {p.number: p.comment for p in rating.problems} or dict.fromkeys(range(1, len(chosen) + 1), "")
            chosen = await self._repair(chosen, comments)

    async def _category(self, category: str) -> list[Distractor]:
        """Propose, review and refine. A failed stage is noted; the result is then that of the stage before."""
        n = self.settings.proposals
        try:
            proposals = await self.maker.request(
                self.maker.prompts.propose(category, n), replies.ProposalsReply,
                lambda reply: replies.proposals(reply, n, self._option_fault),
            )  # fmt: skip
        except NoUsableReply as failed:
            self.notes["proposer_failed"] += 1
            if failed.code not in replies.OF_CONTENT:
                self.unread.append(failed)
            return []
        proposed = [Distractor(p.option.strip(), category, p.reason.strip()) for p in proposals]
        if category == NAIVE:
            return proposed
        try:
            return await self._refined(category, proposed)
        except NoUsableReply as failed:
            self.notes["reviewer_failed" if failed.role.startswith("review") else "refiner_failed"] += 1
            return proposed

    async def _refined(self, category: str, proposed: list[Distractor]) -> list[Distractor]:
        prompts, n = self.maker.prompts, len(proposed)
        reviews = await self.maker.request(
            prompts.review(category, proposed), replies.ReviewsReply, lambda reply: replies.reviews(reply, n)
        )
        comments = {i: f"{r.verdict}: {r.comment}" for i, r in reviews.items()}
        rewritten = await self.maker.request(
            prompts.refine(category, proposed, comments), replies.RewrittenReply,
            lambda reply: replies.rewritten(reply, range(1, n + 1), self._option_fault),
        )  # fmt: skip
        return [_rewritten(d, rewritten[i]) for i, d in enumerate(proposed, 1)]

    async def _select(self) -> list[Distractor]:
        texts = [d.text for d in self.pool]
        picks = await self.maker.request(
            self.maker.prompts.select(self.pool, SELECTED),
            replies.PicksReply,
            lambda reply: replies.picks(reply, texts, SELECTED),
        )
        return [self.pool[pick.number - 1] for pick in picks]

    async def _evaluate(self, chosen: Sequence[Distractor]) -> replies.EvaluationReply:
        n = len(chosen)
        return await self.evaluator.request(
            self.evaluator.prompts.evaluate(chosen), replies.EvaluationReply, lambda reply: replies.evaluation(reply, n)
        )

    async def _repair(self, chosen: list[Distractor], comments: dict[int, str]) -> list[Distractor]:
        """Rewrite the distractors with comments. A new one that fails a check is a fault of the reply."""
        kept = [d.text for i, d in enumerate(chosen, 1) if i not in comments]

        def read(reply: replies.ChatReply) -> dict[int, replies.Numbered]:
            rewritten = replies.rewritten(reply, sorted(comments), self._option_fault)
            texts = list(kept)
            for i, one in rewritten.items():
                text = one.option.strip()
                why = "unchanged" if text == chosen[i - 1].text else fault(text, self.question, texts)
                if why is not None:
                    raise replies.ReplyFault(why, f"option {i} cannot stand ({why})")
                texts.append(text)
            return rewritten

        new = await self.maker.request(self.maker.prompts.repair(chosen, comments), replies.RewrittenReply, read)
        return [_rewritten(d, new[i]) if i in new else d for i, d in enumerate(chosen, 1)]

    def _option_fault(self, text: str) -> str | None:
        """Faults that refuse the whole reply: no text, or the answer itself. Any other fault only drops the option."""
        if not LETTER_OR_DIGIT.search(text):
            return "not_text"
        if self._answers is None:
            self._answers = frozenset(normal(answer) for answer in references(self.question))
        return "equals_answer" if normal(text) in self._answers else None

    def _valid(self, candidates: Iterable[Distractor]) -> list[Distractor]:
        """The candidates without a fault, each different from those before it; faults of the others are counted."""
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
            self.question, tuple(chosen), correctness=correctness, rounds=self.rounds, pool=tuple(self.pool),
            exchanges=tuple(self.maker.exchanges), notes=dict(self.notes),
        )  # fmt: skip

    def rejected(self, reason: str, detail: str = "", passing: bool = False) -> RejectedQuestion:
        """The outcome of a question that is given up."""
        return RejectedQuestion(
            self.question, reason, detail, passing=passing, rounds=self.rounds,
            exchanges=tuple(self.maker.exchanges), notes=dict(self.notes),
        )  # fmt: skip


def _rewritten(old: Distractor, new: replies.Numbered) -> Distractor:
    return replace(old, text=new.option.strip(), reason=new.reason.strip())


async def _all(parts: Iterable[Awaitable[T]]) -> list[T]:
    """Await all parts; an exception is raised only after every part has ended, so that no paid reply is lost."""
    results = await asyncio.gather(*parts, return_exceptions=True)
    done: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done
