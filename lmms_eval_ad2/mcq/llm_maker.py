"""Distractors made by a language model: many questions on their way at once, so that the endpoint is never idle.

Questions are taken as places become free; a question in the works holds its pictures, so their number is bounded.
What an endpoint failed to answer is handed over as passing: the same command asks it again, and the cache gives
every reply that had come.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.llm.cache import ReplyCache
from lmms_eval_ad2.llm.model import LanguageModel
from lmms_eval_ad2.llm.session import EndpointSession, RequestUsage, run, together
from lmms_eval_ad2.mcq import role_prompts
from lmms_eval_ad2.mcq.base import OpenQuestion, Outcome, RejectedQuestion
from lmms_eval_ad2.mcq.role_prompts import McqPromptTexts
from lmms_eval_ad2.mcq.role_requester import NoEndpointReply, NoUsableReply, RoleRequester
from lmms_eval_ad2.mcq.stages import MakerSettings, QuestionPipeline
from lmms_eval_ad2.prompts.views import Views

REPAIRS = 2  # times that a role is asked again for a reply that can be used
_COUNTS = ("requests", "retries", "cached", "failed", "prompt_tokens", "completion_tokens", "unreported")


class LLMMaker:
    """See base.Maker. `evaluator`: a model of its own for the correctness, by default the same."""

    def __init__(
        self,
        model: LanguageModel,
        plan: MakerSettings,
        texts: McqPromptTexts,
        *,
        evaluator: LanguageModel | None = None,
        repairs: int = REPAIRS,
        cache: Path | None = None,
        views: Views = "asked",
        progress: bool = True,
    ) -> None:
        self.label = model.label
        self.model, self.plan, self.texts, self.evaluator = model, plan, texts, evaluator
        self.repairs, self.views, self.progress = repairs, views, progress
        self._cache_path = cache
        self._tallies = {"maker": RequestUsage(), **({"evaluator": RequestUsage()} if evaluator else {})}

    def describe(self) -> dict[str, Any]:
        """See Maker.describe."""
        return {
            "maker": "llm", **asdict(self.plan), "repairs": self.repairs, "views": self.views,
            "model": self.model.describe(), "evaluator": (self.evaluator or self.model).describe(),
            "prompts": {"source": Path(self.texts.source).name, "sha256": self.texts.sha256},
        }  # fmt: skip

    def account(self) -> dict[str, Any]:
        """See Maker.account. unreported: replies without token counts, which cost more than is told."""
        total: dict[str, Any] = {
            name: sum(getattr(tally, name) for tally in self._tallies.values()) for name in _COUNTS
        }
        models = {"maker": self.model, "evaluator": self.evaluator}
        costs = [
            model.price.cost(tally.prompt_tokens, tally.completion_tokens)
            for name, tally in self._tallies.items()
            if (model := models[name]) is not None and model.price is not None
        ]
        return total | ({"cost": round(sum(costs), 6)} if len(costs) == len(self._tallies) else {})

    def make(self, questions: Iterable[OpenQuestion], done: Callable[[Outcome], None]) -> None:
        """See Maker.make. `done` is called in the thread that calls this (another one inside an event loop)."""
        with tqdm(total=operator.length_hint(questions) or None, unit="question", desc=f"mcq {self.label}",
                  disable=not self.progress) as bar:  # fmt: skip

            def hand_over(outcome: Outcome) -> None:
                done(outcome)
                bar.set_postfix(self._shown(), refresh=False)
                bar.update()

            run(lambda: self._make(iter(questions), hand_over))

    def _shown(self) -> dict[str, Any]:
        account = self.account()
        shown = {"requests": account["requests"], "failed": account["failed"],
                 "tokens": account["prompt_tokens"] + account["completion_tokens"]}  # fmt: skip
        return shown | ({"cost": account["cost"]} if "cost" in account else {})

    async def _make(self, questions: Iterator[OpenQuestion], done: Callable[[Outcome], None]) -> None:
        cache = ReplyCache(self._cache_path) if self._cache_path else None
        # One thread of its own reads the questions: a source may read for long, and iterators stay with one thread.
        reader = ThreadPoolExecutor(1, "ad2-mcq-read")
        lock = asyncio.Lock()
        try:
            async with AsyncExitStack() as stack:
                session = await stack.enter_async_context(
                    EndpointSession(self.model.endpoint, cache, self._tallies["maker"])
                )
                rating = session
                if self.evaluator is not None:
                    tally = self._tallies["evaluator"]
                    rating = await stack.enter_async_context(EndpointSession(self.evaluator.endpoint, cache, tally))

                refusals = RefusalBuffer(done)

                async def work() -> None:
                    while True:
                        async with lock:
                            question = await asyncio.get_running_loop().run_in_executor(reader, next, questions, None)
                        if question is None:
                            return
                        refusals.hand_over(await self._one(question, session, rating))

                await together(work() for _ in range(self._places()))
                refusals.end(passing=session.down is not None or rating.down is not None)
        finally:
            reader.shutdown(wait=False, cancel_futures=True)

    def _places(self) -> int:
        """Questions in the works: one a place of the endpoint, and some whose pictures are being read."""
        concurrency = self.model.endpoint.concurrency
        return concurrency + max(4, concurrency // 4)

    async def _one(self, question: OpenQuestion, session: EndpointSession, rating: EndpointSession) -> Outcome:
        if (down := session.down or rating.down) is not None:
            return RejectedQuestion(question, down.reason, down.detail, passing=True)
        try:
            images = await asyncio.to_thread(role_prompts.pictures, question, self.views)
        except Ad2Error as exc:
            return RejectedQuestion(question, "no_picture", str(exc))
        own = role_prompts.QuestionPrompts.of(self.texts, question, images)
        make = RoleRequester(self.model, session, own, images, self.repairs)
        rate = RoleRequester(
            self.evaluator or self.model, rating, own, images, self.repairs, make.exchanges, make.notes
        )  # one transcript
        stages = QuestionPipeline(question, self.plan, make, rate)
        try:
            return await stages.run()
        except NoEndpointReply as lost:
            # A request that was turned down for what is in it would be turned down again.
            failure = lost.failure
            return stages.rejected(failure.reason, failure.detail, passing=not failure.refused)
        except NoUsableReply as unusable:
            return stages.rejected(f"{unusable.role}_unusable", f"{unusable.code}: {unusable.detail}")


# Questions whose request the endpoint turned down (HTTP 4xx): their own fault, or has the endpoint changed?
class RefusalBuffer:
    """Outcomes on their way to `done`. A question whose request was turned down waits until another one is finished: a
    server that turns down everything from some moment on (its model unloaded) has not judged the questions."""

    def __init__(self, done: Callable[[Outcome], None]) -> None:
        self._done = done
        self._held: list[RejectedQuestion] = []

    def hand_over(self, outcome: Outcome) -> None:
        if isinstance(outcome, RejectedQuestion) and not outcome.passing and outcome.reason.startswith("http_"):
            self._held.append(outcome)
            return
        if not (isinstance(outcome, RejectedQuestion) and outcome.passing):
            self.end(passing=False)
        self._done(outcome)

    def end(self, passing: bool) -> None:
        """Hand over those that wait."""
        while self._held:
            self._done(replace(self._held.pop(0), passing=passing))
