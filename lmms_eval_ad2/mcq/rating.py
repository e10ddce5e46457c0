"""Correctness from 1 to 5, rated by an evaluator model that sees the images (Table 8): is exactly one option right?

Role, prompt, reply check and cache are those of the last stage of `ad2 mcq build`, so that both ratings are comparable.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.llm.cache import ReplyCache
from lmms_eval_ad2.llm.model import LanguageModel
from lmms_eval_ad2.llm.session import EndpointSession, RequestUsage, run, together, workers_for
from lmms_eval_ad2.mcq.base import Distractor, OpenQuestion
from lmms_eval_ad2.mcq.check import as_question, by_task, spread
from lmms_eval_ad2.mcq.replies import NOT_JSON, EvaluationReply, evaluation
from lmms_eval_ad2.mcq.role_prompts import McqPromptTexts, QuestionPrompts, pictures
from lmms_eval_ad2.mcq.role_requester import (
    MOST_FORMLESS,
    NoEndpointReply,
    NoUsableReply,
    RoleRequester,
    never_json,
)
from lmms_eval_ad2.mcq.text_only import usage
from lmms_eval_ad2.prompts.views import Views

REPAIRS = 1  # further requests after an unusable reply


def rate(
    records: Sequence[Record],
    image_root: Path,
    model: LanguageModel,
    *,
    texts: McqPromptTexts | None = None,
    cache: ReplyCache | None = None,
    views: Views = "asked",
    progress: bool = True,
) -> dict[str, Any]:
    """Ratings over all questions and by task; questions without a rating are left out and counted by reason.

    Raises Ad2Error if no request can succeed, and if no reply to eight questions in a row is JSON; usable replies
    received until then are in the cache.
    """  # fmt: skip
    rater = _Rater(image_root, model, texts or McqPromptTexts.load(), cache, views)
    with tqdm(total=len(records), desc="correctness", unit="question", disable=not progress) as bar:
        run(lambda: rater.run(records, bar))
    rated = {
        task: [rater.ratings[r.id] for r in part if r.id in rater.ratings] for task, part in by_task(records).items()
    }
    return {
        "model": model.label, "views": views, "asked": len(records), "reasons": dict(rater.reasons.most_common()),
        "all": spread([rating for part in rated.values() for rating in part]),
        "by_task": {task: spread(part) for task, part in rated.items()},
        "lowest": _lowest(rater.ratings, rater.comments), "usage": usage(rater.tally, model),
    }  # fmt: skip


class _Rater:
    def __init__(
        self, image_root: Path, model: LanguageModel, texts: McqPromptTexts, cache: ReplyCache | None, views: Views
    ) -> None:
        self.image_root, self.model, self.texts, self.cache, self.views = image_root, model, texts, cache, views
        self.tally = RequestUsage()
        self.ratings: dict[str, int] = {}
        self.comments: dict[str, list[str]] = {}
        self.reasons: Counter[str] = Counter()
        self._formless = 0  # questions in a row without a reply in JSON

    async def run(self, records: Sequence[Record], bar: Any) -> None:
        """Run all workers until the records are done; the first Ad2Error stops the others and is raised."""
        queue = iter(records)
        async with EndpointSession(self.model.endpoint, self.cache, self.tally) as session:
            workers = workers_for(self.model.endpoint, len(records))
            await together(self._work(session, queue, bar) for _ in range(workers))

    async def _work(self, session: EndpointSession, queue: Iterator[Record], bar: Any) -> None:
        for record in queue:
            try:
                found = await self._evaluate(session, as_question(record, self.image_root), _wrong(record))
            except DataError:
                self.reasons["no_image"] += 1
            except NoEndpointReply as exc:
                self.reasons[f"failed:{exc.failure.reason}"] += 1
            except NoUsableReply as exc:
                self.reasons[f"unusable:{exc.code}"] += 1
                self._formless = self._formless + 1 if exc.code == NOT_JSON else 0
                if self._formless == MOST_FORMLESS:
                    raise never_json(self.model.label, exc.reply, "the same command asks them again") from exc
            else:
                self._formless = 0
                self.ratings[record.id] = found.score
                self.comments[record.id] = [problem.comment for problem in found.problems]
            bar.update()

    async def _evaluate(
        self, session: EndpointSession, question: OpenQuestion, wrong: Sequence[Distractor]
    ) -> EvaluationReply:
        images = await asyncio.to_thread(pictures, question, self.views)
        prompts = QuestionPrompts.of(self.texts, question, images)
        requester = RoleRequester(self.model, session, prompts, images, REPAIRS)
        return await requester.request(
            prompts.evaluate(wrong), EvaluationReply, lambda reply: evaluation(reply, len(wrong))
        )


def _wrong(record: Record) -> list[Distractor]:
    return [Distractor(o.text.get("en"), o.kind) for o in record.options if o.letter != record.letter]


def _lowest(ratings: Mapping[str, int], comments: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """The 20 lowest-rated questions with a rating of at most 3, for review by a person."""
    worst = sorted((rating, name) for name, rating in ratings.items() if rating <= 3)[:20]
    return [{"id": name, "mark": rating, "comments": list(comments[name])} for rating, name in worst]
