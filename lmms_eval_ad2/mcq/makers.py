"""LLMMaker: distractors made by a language model; and `make_maker`, which creates the maker named by --llm.

Many questions are made concurrently, so that the endpoint is never idle. A question in progress holds its pictures, so
their number is bounded; the next one is read when a worker is free. A question that failed with the endpoint is
reported as `passing`: the same command asks it again, with the replies received so far in the cache.
"""

from __future__ import annotations

import asyncio
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

from tqdm import tqdm

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm.cache import ReplyCache
from lmms_eval_ad2.llm.model import LanguageModel, read_model
from lmms_eval_ad2.llm.request_loop import run
from lmms_eval_ad2.llm.session import EndpointSession, RequestUsage, together, workers_for
from lmms_eval_ad2.llm.settings import one_of
from lmms_eval_ad2.mcq import role_prompts
from lmms_eval_ad2.mcq.base import (
    KINDS,
    NO_PROPOSALS,
    SELECTED,
    DistractorMaker,
    OpenQuestion,
    Outcome,
    RejectedQuestion,
)
from lmms_eval_ad2.mcq.question_rows import MOST_NAMED, MOST_OTHERS
from lmms_eval_ad2.mcq.replies import NOT_JSON
from lmms_eval_ad2.mcq.role_prompts import McqPromptTexts
from lmms_eval_ad2.mcq.rules.maker import RulesMaker
from lmms_eval_ad2.mcq.stages import (
    MOST_FORMLESS,
    MakerSettings,
    NoEndpointReply,
    NoUsableReply,
    QuestionPipeline,
    RoleRequester,
    never_json,
)
from lmms_eval_ad2.prompts.views import Views

UNUSABLE = "_unusable"  # end of the reason code of a question that failed with a role
REPAIRS = 2  # further requests of a role after an unusable reply
_COUNTS = ("requests", "retries", "cached", "failed", "prompt_tokens", "completion_tokens", "unreported")


class LLMMaker:
    """See base.DistractorMaker. `evaluator`: a separate model for the correctness; by default the same model."""

    def __init__(
        self,
        model: LanguageModel,
        settings: MakerSettings,
        texts: McqPromptTexts,
        *,
        evaluator: LanguageModel | None = None,
        repairs: int = REPAIRS,
        cache: Path | None = None,
        views: Views = "asked",
        progress: bool = True,
    ) -> None:
        self.label = model.label
        self.model, self.settings, self.texts, self.evaluator = model, settings, texts, evaluator
        self.repairs, self.views, self.progress = repairs, views, progress
        self._cache_path = cache
        self._models = [model, *([evaluator] if evaluator else [])]
        self._tallies = [RequestUsage() for _ in self._models]

    def describe(self) -> dict[str, Any]:
        """See DistractorMaker.describe."""
        return {
            "maker": "llm", **asdict(self.settings), "repairs": self.repairs, "views": self.views,
            "model": self.model.describe(), "evaluator": (self.evaluator or self.model).describe(),
            "objects": {"named": MOST_NAMED, "others": MOST_OTHERS},
            "prompts": {"source": Path(self.texts.source).name, "sha256": self.texts.sha256},
        }  # fmt: skip

    def unsuited(self, source: str, text: str) -> str | None:
        """None: a model is asked about every question."""
        return None

    def account(self) -> dict[str, Any]:
        """See DistractorMaker.account. unreported: replies without token counts; their cost is not included."""
        total: dict[str, Any] = {name: sum(getattr(tally, name) for tally in self._tallies) for name in _COUNTS}
        costs = [
            model.price.cost(tally.prompt_tokens, tally.completion_tokens)
            for model, tally in zip(self._models, self._tallies, strict=True)
            if model.price is not None
        ]
        return total | ({"cost": round(sum(costs), 6)} if len(costs) == len(self._tallies) else {})

    def make(self, questions: Iterable[OpenQuestion], done: Callable[[Outcome], None]) -> None:
        """See DistractorMaker.make. `done` is called in the calling thread, or in another one inside an event loop."""
        with tqdm(total=operator.length_hint(questions) or None, unit="question", desc=f"mcq {self.label}",
                  disable=not self.progress) as bar:  # fmt: skip

            def finished(outcome: Outcome) -> None:
                done(outcome)
                account = self.account()
                tokens = account["prompt_tokens"] + account["completion_tokens"]
                shown = {"requests": account["requests"], "failed": account["failed"], "tokens": tokens}
                cost = {"cost": account["cost"]} if "cost" in account else {}
                bar.set_postfix(shown | cost, refresh=False)
                bar.update()

            run(lambda pool: self._make(iter(questions), finished))

    async def _make(self, questions: Iterator[OpenQuestion], done: Callable[[Outcome], None]) -> None:
        cache = ReplyCache(self._cache_path) if self._cache_path else None
        # Questions are read in one separate thread: reading may take long, and iterators must not change threads.
        reader = ThreadPoolExecutor(1, "ad2-mcq-read")
        lock = asyncio.Lock()
        refusals = RefusalBuffer(done)
        formless = FormlessReplies(refusals.add, self.label)

        async def work(session: EndpointSession, rating: EndpointSession) -> None:
            while True:
                async with lock:
                    question = await asyncio.get_running_loop().run_in_executor(reader, next, questions, None)
                if question is None:
                    return
                formless.add(await self._one(question, session, rating))

        try:
            async with AsyncExitStack() as stack:
                sessions = [
                    await stack.enter_async_context(EndpointSession(model.endpoint, cache, tally))
                    for model, tally in zip(self._models, self._tallies, strict=True)
                ]
                workers = workers_for(self.model.endpoint, sys.maxsize)
                await together(work(sessions[0], sessions[-1]) for _ in range(workers))
                formless.end()
                refusals.flush(passing=any(session.down is not None for session in sessions))
        finally:
            reader.shutdown(wait=False, cancel_futures=True)

    async def _one(
        self, question: OpenQuestion, session: EndpointSession, evaluator_session: EndpointSession
    ) -> Outcome:
        if (down := session.down or evaluator_session.down) is not None:
            return RejectedQuestion(question, down.reason, down.detail, passing=True)
        try:
            images = await asyncio.to_thread(role_prompts.pictures, question, self.views)
        except Ad2Error as exc:
            return RejectedQuestion(question, "no_picture", str(exc))
        prompts = role_prompts.QuestionPrompts.of(self.texts, question, images)
        maker = RoleRequester(self.model, session, prompts, images, self.repairs)
        evaluator = RoleRequester(
            self.evaluator or self.model, evaluator_session, prompts, images, self.repairs,
            exchanges=maker.exchanges, notes=maker.notes,  # one transcript for both
        )  # fmt: skip
        pipeline = QuestionPipeline(question, self.settings, maker, evaluator)
        try:
            return await pipeline.run()
        except NoEndpointReply as lost:
            # A request that was refused because of its content would be refused again.
            failure = lost.failure
            return pipeline.rejected(failure.reason, failure.detail, passing=not failure.refused)
        except NoUsableReply as unusable:
            return pipeline.rejected(f"{unusable.role}{UNUSABLE}", f"{unusable.code}: {unusable.detail}")


class FormlessReplies:
    """Forwards outcomes to `forward`; holds back questions that failed because no reply was JSON.

    They are forwarded when another question gets further. MOST_FORMLESS in a row end the build: the model (or its
    server) does not reply in JSON, and every further question would be paid for in vain. They are then forwarded as
    `passing`, as at the end of a build in which nothing else was seen.
    """

    def __init__(self, forward: Callable[[Outcome], None], label: str) -> None:
        self._forward, self._label = forward, label
        self._held: list[RejectedQuestion] = []
        self._others = False

    def add(self, outcome: Outcome) -> None:
        """Raises Ad2Error, with a reply, at the last of MOST_FORMLESS questions in a row."""
        if isinstance(outcome, RejectedQuestion) and _is_formless(outcome):
            self._held.append(outcome)
            if len(self._held) == MOST_FORMLESS:
                self._flush(passing=True)
                then = "these questions are unfinished, and the same command asks them again"
                raise never_json(self._label, outcome.exchanges[-1].reply, then)
            return
        if not (isinstance(outcome, RejectedQuestion) and outcome.passing and outcome.reason != NO_PROPOSALS):
            self._others = True  # a failed request says nothing about the form of replies
            self._flush(passing=False)
        self._forward(outcome)

    def end(self) -> None:
        """Forward the questions that are still held."""
        self._flush(passing=not self._others)

    def _flush(self, passing: bool) -> None:
        while self._held:
            one = self._held.pop(0)
            self._forward(replace(one, passing=passing or one.passing))


def _is_formless(outcome: RejectedQuestion) -> bool:
    """Return whether no reply of the role that failed was JSON: of all proposers, or of a later role."""
    if outcome.reason != NO_PROPOSALS and not outcome.reason.endswith(UNUSABLE):
        return False
    role = outcome.exchanges[-1].role
    faults = [one.fault for one in outcome.exchanges if outcome.reason == NO_PROPOSALS or one.role == role]
    return set(faults) == {NOT_JSON}


class RefusalBuffer:
    """Forwards outcomes to `done`; holds back refused questions (HTTP 4xx) until another question has finished.

    If the endpoint refuses every later request as well (its model was unloaded, say), the held questions are not at
    fault and are forwarded as `passing`.
    """

    def __init__(self, done: Callable[[Outcome], None]) -> None:
        self._done = done
        self._held: list[RejectedQuestion] = []

    def add(self, outcome: Outcome) -> None:
        if isinstance(outcome, RejectedQuestion) and not outcome.passing and outcome.reason.startswith("http_"):
            self._held.append(outcome)
            return
        if not (isinstance(outcome, RejectedQuestion) and outcome.passing):
            self.flush(passing=False)
        self._done(outcome)

    def flush(self, passing: bool) -> None:
        """Forward the held questions."""
        while self._held:
            self._done(replace(self._held.pop(0), passing=passing))


RULES = "rules"
MAX_TOKENS = 2048  # of one reply: enough for twelve options with their reasons
_MOST = {"n": 24, "rounds": 10}


def make_maker(
    spec: str,
    *,
    kind: str = "all",
    n: int = 6,
    rounds: int = 3,
    threshold: int = 4,
    seed: int = 0,
    prompts: Path | None = None,
    evaluator: str | None = None,
    cache: Path | None = None,
    views: Views = "asked",
    progress: bool = True,
) -> DistractorMaker:
    """Create the maker named by `spec`: "rules", or a language model in the syntax of llm/model.py.

    kind: all five error categories, one of them, or naive (first proposals: no review, refinement or threshold; Table 8
    compares its correctness). n: proposals per category. rounds: maximum number of refinements while the evaluation is
    below `threshold` (1 to 5); after them the question is rejected as ambiguous. seed: of the rules, and of requests
    if the spec names none. prompts: a YAML file of prompt texts (role_prompts.py). evaluator: another model for the
    evaluations. cache: a sqlite file of replies. views: cameras whose pictures are shown: those "asked" about, "front",
    or "all".
    Raises Ad2Error for unknown, out-of-range or conflicting arguments.
    """
    one_of(kind, KINDS, "kind of distractors")
    one_of(views, get_args(Views), "views")
    for name, value, low, high in (
        ("n", n, SELECTED, _MOST["n"]), ("rounds", rounds, 0, _MOST["rounds"]), ("threshold", threshold, 1, 5),
    ):  # fmt: skip
        if not low <= value <= high:
            raise Ad2Error(f"{name}: expected a whole number from {low} to {high}, found {value}")
    if spec.strip() == RULES:
        if evaluator and evaluator.strip() != RULES:
            raise Ad2Error(
                "--llm rules makes its distractors without a model, and none of them is evaluated; "
                "rate the finished file with `ad2 mcq check --evaluator ...`"
            )
        if prompts is not None:
            raise Ad2Error("--config prompts changes what a language model is asked; --llm rules asks none")
        return RulesMaker(kind=kind, seed=seed)
    rater = None
    if evaluator:
        if evaluator.strip() == RULES:
            raise Ad2Error(
                "--config evaluator: rules cannot evaluate; name a model, e.g. openai:model=NAME,base_url=http://host/v1"
            )
        rater = read_model(evaluator, owner="--config evaluator", max_tokens=MAX_TOKENS, seed=seed)
    return LLMMaker(
        read_model(spec, owner="--llm", max_tokens=MAX_TOKENS, seed=seed, also=(RULES,)),
        MakerSettings(kind, n, rounds, threshold),
        McqPromptTexts.load(prompts),
        cache=cache,
        views=views,
        progress=progress,
        evaluator=rater,
    )
