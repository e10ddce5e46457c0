"""Checks of questions by language models: answers without the image, correctness with it, scores of open answers.

- text_only: a model answers from the text alone. An accuracy well above chance means that the options reveal the
  answer, or that the question does not need the image. The order of the options can be rotated, which cancels a
  preference of the model for a letter.
- rate: correctness from 1 to 5 by an evaluator that sees the images (Table 8): is exactly one option right? Role,
  prompt, reply check and cache are those of the last stage of `ad2 mcq build`, so that both ratings are comparable.
- rate_open: score of open answers from 0 to 5, next to BLEU, CIDEr and the chosen option (Tables 4 and 6). The paper
  does not define the scale; its scores are 0, 2, 3, 4 and 5. The wording of the rubric is ours (prompts.yaml).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.records import Answer, Record, Unscored
from lmms_eval_ad2.llm.cache import ReplyCache, key_of
from lmms_eval_ad2.llm.client import ChatReply, RequestFailure
from lmms_eval_ad2.llm.model import LanguageModel, json_schema
from lmms_eval_ad2.llm.request_loop import run
from lmms_eval_ad2.llm.session import EndpointSession, RequestUsage, ask, together, workers_for
from lmms_eval_ad2.llm.untrusted_text import fence, neutralise, nonce
from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.biases import compare_with_chance, right_place, texts_of
from lmms_eval_ad2.mcq.check import as_question, by_task, spread
from lmms_eval_ad2.mcq.replies import (
    NOT_JSON,
    SCHEMA_NAMES,
    EvaluationReply,
    OpenScoreReply,
    ReplyFault,
    evaluation,
    open_score,
    schema_of,
)
from lmms_eval_ad2.mcq.role_prompts import McqPromptTexts, QuestionPrompts, pictures
from lmms_eval_ad2.mcq.stages import MOST_FORMLESS, NoEndpointReply, NoUsableReply, RoleRequester, never_json
from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.prompts.views import Views
from lmms_eval_ad2.scoring.metrics.caption import caption_scores
from lmms_eval_ad2.scoring.metrics.intervals import mean_interval

_PROMPT = """\
This question was asked about pictures from a car's cameras. You are not shown them.
Choose the option that is most likely right, by the words alone. Choose one even where nobody could know.

Question: {question}
{options}

Answer with the letter of one option and nothing else: {letters}."""
REPAIRS = 1  # further requests to the evaluator after an unusable reply


def text_only(
    records: Sequence[Record],
    model: LanguageModel,
    *,
    cache: ReplyCache | None = None,
    rotations: int = 1,
    progress: bool = True,
) -> dict[str, Any]:
    """Accuracy compared with chance, over all questions and by task.

    rotations: number of orders in which each question is asked (at most its number of options). A question counts with
    the mean over its answers that could be parsed; one without any is left out and counted by reason. Raises Ad2Error
    if no request can succeed.
    """
    payloads, asked = {}, []
    for number, record in enumerate(records):
        for shift in range(min(rotations, len(record.options))):
            shown = _rotated(record, shift)
            lines = "\n".join(f"{letter}. {text}" for letter, text in shown.items())
            asked_text = neutralise(record.question.get("en"))
            prompt = _PROMPT.format(question=asked_text, options=lines, letters=", ".join(shown))
            messages = [{"role": "user", "content": prompt}]
            key = key_of({"what": "mcq text only", "model": model.describe(), "messages": messages})
            payloads[key] = model.payload(messages)
            asked.append((number, shift, shown, key))
    tally, reasons = RequestUsage(), Counter[str]()
    replies = ask(payloads, model.endpoint, cache=cache, tally=tally, label="without the image", progress=progress)
    hits: list[list[bool]] = [[] for _ in records]
    for number, shift, shown, key in asked:
        letter = _chosen_letter(replies[key], shown, reasons)
        if letter:
            place = (ord(letter) - ord("A") + shift) % len(shown)
            hits[number].append(place == right_place(records[number]))
    read = [(record, sum(found) / len(found)) for record, found in zip(records, hits, strict=True) if found]

    def over(task: str | None = None) -> dict[str, Any] | None:
        part = [pair for pair in read if task in (None, pair[0].task)]
        return compare_with_chance([record for record, _ in part], [hit for _, hit in part])

    return {
        "asked": len(records), "answered": len(read), "rotations": rotations, "reasons": dict(reasons.most_common()),
        "all": over(), "by_task": {task: over(task) for task in dict.fromkeys(record.task for record, _ in read)},
        "model": model.label, "usage": usage(tally, model),
    }  # fmt: skip


def _rotated(record: Record, shift: int) -> dict[str, str]:
    """The options by the letters under which they are shown: A is the option at position `shift`."""
    texts = texts_of(record)
    # Each on one line: a line break in a text could imitate another option.
    lines = [" ".join(neutralise(text).split()) for text in (*texts[shift:], *texts[:shift])]
    return {chr(ord("A") + i): line for i, line in enumerate(lines)}


def _chosen_letter(reply: ChatReply | RequestFailure, shown: Mapping[str, str], reasons: Counter[str]) -> str:
    """The chosen letter; "" if there is no reply or no answer in it, counted in `reasons`."""
    if isinstance(reply, RequestFailure):
        reasons[f"failed:{reply.reason}"] += 1
        return ""
    answer = parse(reply.text, "mc", options=shown)
    if isinstance(answer, Answer):
        return str(answer.value)
    reasons[f"unparsed:{answer.reason}"] += 1
    return ""


def usage(tally: RequestUsage, model: LanguageModel) -> dict[str, Any]:
    """Requests, tokens and cost, JSON-able."""
    names = ("requests", "cached", "failed", "prompt_tokens", "completion_tokens")
    spent: dict[str, Any] = {name: getattr(tally, name) for name in names}
    if model.price is not None:
        spent["cost"] = model.price.cost(tally.prompt_tokens, tally.completion_tokens)
    return spent


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
    """
    rater = _Rater(image_root, model, texts or McqPromptTexts.load(), views)
    with tqdm(total=len(records), desc="correctness", unit="question", disable=not progress) as bar:
        run(lambda pool: rater.run(records, cache, bar))
    found = rater.found
    rated = {task: [found[r.id].score for r in part if r.id in found] for task, part in by_task(records).items()}
    lowest = sorted((reply.score, name) for name, reply in found.items() if reply.score <= 3)[:20]  # for a person
    return {
        "model": model.label, "views": views, "asked": len(records), "reasons": dict(rater.reasons.most_common()),
        "all": spread([rating for part in rated.values() for rating in part]),
        "by_task": {task: spread(part) for task, part in rated.items()},
        "lowest": [
            {"id": name, "mark": score, "comments": [problem.comment for problem in found[name].problems]}
            for score, name in lowest
        ],
        "usage": usage(rater.tally, model),
    }  # fmt: skip


class _Rater:
    """found: the replies by the id of the question. reasons: counts of the questions without one."""

    def __init__(self, image_root: Path, model: LanguageModel, texts: McqPromptTexts, views: Views) -> None:
        self.image_root, self.model, self.texts, self.views = image_root, model, texts, views
        self.tally = RequestUsage()
        self.found: dict[str, EvaluationReply] = {}
        self.reasons: Counter[str] = Counter()
        self._formless = 0  # questions in a row without a reply in JSON

    async def run(self, records: Sequence[Record], cache: ReplyCache | None, bar: Any) -> None:
        """Run all workers until the records are done; the first Ad2Error stops the others and is raised."""
        queue = iter(records)
        async with EndpointSession(self.model.endpoint, cache, self.tally) as session:
            workers = workers_for(self.model.endpoint, len(records))
            await together(self._work(session, queue, bar) for _ in range(workers))

    async def _work(self, session: EndpointSession, queue: Iterator[Record], bar: Any) -> None:
        for record in queue:
            try:
                self.found[record.id] = await self._evaluate(session, record)
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
            bar.update()

    async def _evaluate(self, session: EndpointSession, record: Record) -> EvaluationReply:
        question = as_question(record, self.image_root)
        wrong = [Distractor(o.text.get("en"), o.kind) for o in record.options if o.letter != record.letter]
        images = await asyncio.to_thread(pictures, question, self.views)
        prompts = QuestionPrompts.of(self.texts, question, images)
        requester = RoleRequester(self.model, session, prompts, images, REPAIRS)
        return await requester.request(
            prompts.evaluate(wrong), EvaluationReply, lambda reply: evaluation(reply, len(wrong))
        )


HIGHEST = 5.0
METRICS = ("bleu_4", "cider")


@dataclass(frozen=True, slots=True)
class OpenAnswer:
    """An open answer of a model under test. choice: the letter that it chose for the same question, "" if unknown."""

    id: str
    task: str
    question: str
    reference: str
    text: str
    choice: str
    marked: str
    cluster: str

    @property
    def outcome(self) -> str:
        """ "solved" (Table 4), "not solved" (Table 6), or "no choice" if no letter is known."""
        return "no choice" if not self.choice else "solved" if self.choice == self.marked else "not solved"


def rate_open(
    answers: Sequence[OpenAnswer],
    model: LanguageModel,
    *,
    texts: McqPromptTexts | None = None,
    cache: ReplyCache | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Scores of all answers, JSON-able: one row per answer, and means by outcome.

    BLEU-4 and CIDEr are x100; CIDEr's document frequencies are those of all answers given. An answer without a score
    has None and is counted in `reasons`; the means are over the others, with 95 % intervals over scenes. Raises
    Ad2Error if no request can succeed.
    """  # fmt: skip
    texts = texts or McqPromptTexts.load()
    tally, reasons = RequestUsage(), Counter[str]()
    form = json_schema(SCHEMA_NAMES[OpenScoreReply], schema_of(OpenScoreReply))
    payloads = [model.payload(_open_messages(texts, one), form) for one in answers]
    keys = [key_of(payload) for payload in payloads]
    replies = ask(
        dict(zip(keys, payloads, strict=True)), model.endpoint, cache=cache, tally=tally, label="open answers",
        keep=lambda key, reply: isinstance(_read(reply), OpenScoreReply), progress=progress,
    )  # fmt: skip
    captions, notes = _captions(answers)
    rows = []
    for one, key in zip(answers, keys, strict=True):
        found = _read(replies[key])
        if isinstance(found, str):
            reasons[found] += 1
        score, comment = (None, "") if isinstance(found, str) else (found.score, found.comment)
        rows.append({
            "id": one.id, "task": one.task, "question": one.question, "reference": one.reference, "answer": one.text,
            **{name: captions[name].get(one.id) for name in METRICS}, "score": score, "comment": comment,
            "choice": one.choice, "marked": one.marked, "outcome": one.outcome,
        })  # fmt: skip
    return {
        "model": model.label, "prompts_sha256": texts.sha256, "scale": [0, int(HIGHEST)], "asked": len(answers),
        "reasons": dict(reasons.most_common()), "notes": notes, "means": _means_by_outcome(answers, rows), "rows": rows,
        "usage": usage(tally, model),
    }  # fmt: skip


def _open_messages(texts: McqPromptTexts, one: OpenAnswer) -> list[dict[str, str]]:
    parts = [("question", one.question), ("reference answer", one.reference), ("answer", one.text)]
    material = fence(parts, nonce("open_answer", {"parts": [list(part) for part in parts]}))
    system = {"role": "system", "content": texts.fill("open_system")}
    return [system, {"role": "user", "content": texts.fill("open", material=material)}]


def _read(reply: ChatReply | RequestFailure) -> OpenScoreReply | str:
    """The score, or a reason code."""
    if isinstance(reply, RequestFailure):
        return f"failed:{reply.reason}"
    try:
        return open_score(reply)
    except ReplyFault as fault:
        return f"unusable:{fault.code}"


def _captions(answers: Sequence[OpenAnswer]) -> tuple[dict[str, Mapping[str, float]], list[str]]:
    """Values x100 by metric and id, and why a metric has none."""
    found = caption_scores({a.id: [a.reference] for a in answers}, {a.id: a.text for a in answers}, METRICS)
    values: dict[str, Mapping[str, float]] = {}
    notes = []
    for name, result in found.items():
        if isinstance(result, Unscored):
            notes.append(f"{name}: {result.reason} {result.detail}".strip())
            values[name] = {}
        else:
            values[name] = {key: 100 * value for key, value in result.per_item.items()}
    return values, notes


def _means_by_outcome(answers: Sequence[OpenAnswer], rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Number of answers and of scores, and the means of score, BLEU-4 and CIDEr, by outcome and over all."""
    clusters = {one.id: one.cluster for one in answers}
    groups = {"all": rows, **{name: [r for r in rows if r["outcome"] == name] for name in ("solved", "not solved")}}
    return {
        name: {"n": len(part), **{key: _mean(part, key, clusters) for key in ("score", *METRICS)}}
        for name, part in groups.items()
    }


def _mean(rows: Sequence[Mapping[str, Any]], key: str, clusters: Mapping[str, str]) -> dict[str, Any] | None:
    kept = [(float(row[key]), clusters[row["id"]]) for row in rows if row[key] is not None]
    if not kept:
        return None
    values, names = [value for value, _ in kept], [name for _, name in kept]
    bounds = (0.0, HIGHEST if key == "score" else float("inf"))
    interval = mean_interval(values, clusters=names if len(set(names)) > 1 else None, bounds=bounds)
    shown = [interval.low, interval.high] if interval else None
    return {"n": len(values), "mean": sum(values) / len(values), "interval": shown}
