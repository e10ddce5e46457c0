"""Correctness from 1 to 5 by an evaluator who sees the images (Table 8): is just one option right?

The same role, prompt, reply check and cache as the last stage of `ad2 mcq build`, so that marks of both compare.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.errors import DataError
from lmms_eval_ad2.llm.cache import ReplyCache
from lmms_eval_ad2.llm.model import LanguageModel
from lmms_eval_ad2.llm.session import EndpointSession, RequestUsage, run, together
from lmms_eval_ad2.mcq.base import Distractor, OpenQuestion
from lmms_eval_ad2.mcq.check import as_question, by_task, spread
from lmms_eval_ad2.mcq.replies import EvaluationReply, evaluation
from lmms_eval_ad2.mcq.role_prompts import McqPromptTexts, QuestionPrompts, pictures
from lmms_eval_ad2.mcq.role_requester import NoEndpointReply, NoUsableReply, RoleRequester
from lmms_eval_ad2.mcq.text_only import usage
from lmms_eval_ad2.prompts.views import Views
from lmms_eval_ad2.records import Record

REPAIRS = 1  # further tries of a reply that cannot be used


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
    """Marks over all and by task; what could not be rated is left out, and counted by reason.

    Raises Ad2Error where no request can succeed; what came until then is in the cache.
    """  # fmt: skip
    one = _Rater(image_root, model, texts or McqPromptTexts.load(), cache, views)
    with tqdm(total=len(records), desc="correctness", unit="question", disable=not progress) as bar:
        run(lambda: one.run(records, bar))
    marked = {task: [one.marks[r.id] for r in part if r.id in one.marks] for task, part in by_task(records).items()}
    return {
        "model": model.label, "views": views, "asked": len(records), "reasons": dict(one.reasons.most_common()),
        "all": spread([mark for part in marked.values() for mark in part]),
        "by_task": {task: spread(part) for task, part in marked.items()},
        "lowest": _lowest(one.marks, one.comments), "usage": usage(one.tally, model),
    }  # fmt: skip


class _Rater:
    def __init__(
        self, image_root: Path, model: LanguageModel, texts: McqPromptTexts, cache: ReplyCache | None, views: Views
    ) -> None:
        self.image_root, self.model, self.texts, self.cache, self.views = image_root, model, texts, cache, views
        self.tally = RequestUsage()
        self.marks: dict[str, int] = {}
        self.comments: dict[str, list[str]] = {}
        self.reasons: Counter[str] = Counter()

    async def run(self, records: Sequence[Record], bar: Any) -> None:
        """All workers to their end; the first Ad2Error stops the others and is raised."""
        queue = iter(records)
        async with EndpointSession(self.model.endpoint, self.cache, self.tally) as session:
            many = min(self.model.endpoint.concurrency, len(records))
            await together(self._work(session, queue, bar) for _ in range(many))

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
            else:
                self.marks[record.id] = found.score
                self.comments[record.id] = [problem.comment for problem in found.problems]
            bar.update()

    async def _evaluate(
        self, session: EndpointSession, question: OpenQuestion, wrong: Sequence[Distractor]
    ) -> EvaluationReply:
        images = await asyncio.to_thread(pictures, question, self.views)
        roles = QuestionPrompts.of(self.texts, question, images)
        asking = RoleRequester(self.model, session, roles, images, REPAIRS)
        return await asking.ask(roles.evaluate(wrong), EvaluationReply, lambda reply: evaluation(reply, len(wrong)))


def _wrong(record: Record) -> list[Distractor]:
    return [Distractor(o.text.get("en"), o.kind) for o in record.options if o.letter != record.letter]


def _lowest(marks: Mapping[str, int], comments: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """The questions that a person should look at first."""
    worst = sorted((mark, name) for name, mark in marks.items() if mark <= 3)[:20]
    return [{"id": name, "mark": mark, "comments": list(comments[name])} for mark, name in worst]
