"""Score of open answers from 0 to 5 by a language model, next to BLEU, CIDEr and the chosen option of each question.

AutoDrive-QA, Tables 4 and 6: examples of questions that a model solved, and of questions that it did not, each with the
model's open answer, its BLEU and CIDEr, and a score of ChatGPT out of 5. The paper does not define the scale; its
scores are 0, 2, 3, 4 and 5. The wording of the rubric is ours (prompts.yaml: open_system, open).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.llm.batch import RequestUsage, ask
from lmms_eval_ad2.llm.cache import ReplyCache, key_of
from lmms_eval_ad2.llm.client import ChatReply, RequestFailure
from lmms_eval_ad2.llm.model import LanguageModel, json_schema
from lmms_eval_ad2.llm.untrusted_text import fence, nonce
from lmms_eval_ad2.mcq.replies import SCHEMA_NAMES, OpenScoreReply, ReplyFault, open_score, schema_of
from lmms_eval_ad2.mcq.role_prompts import McqPromptTexts
from lmms_eval_ad2.mcq.text_only import usage
from lmms_eval_ad2.scoring.metrics.caption import caption_scores
from lmms_eval_ad2.scoring.metrics.intervals import ConfidenceInterval, mean_interval

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
    payloads = [model.payload(_messages(texts, one), form) for one in answers]
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
        "reasons": dict(reasons.most_common()), "notes": notes, "means": _means(answers, rows), "rows": rows,
        "usage": usage(tally, model),
    }  # fmt: skip


def _messages(texts: McqPromptTexts, one: OpenAnswer) -> list[dict[str, str]]:
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


def _means(answers: Sequence[OpenAnswer], rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Number of answers and of scores, and the means of score, BLEU-4 and CIDEr, by outcome and over all."""
    clusters = {one.id: one.cluster for one in answers}
    groups = {"all": rows, **{name: [r for r in rows if r["outcome"] == name] for name in ("solved", "not solved")}}
    return {
        name: {"n": len(part), **{key: _mean(part, key, clusters) for key in ("score", *METRICS)}}
        for name, part in groups.items()
    }


def _mean(rows: Sequence[Mapping[str, Any]], key: str, clusters: Mapping[str, str]) -> dict[str, Any] | None:
    kept = [row for row in rows if row[key] is not None]
    if not kept:
        return None
    values = [float(row[key]) for row in kept]
    names = [clusters[row["id"]] for row in kept]
    bounds = (0.0, HIGHEST) if key == "score" else (0.0, float("inf"))
    interval: ConfidenceInterval | None = mean_interval(
        values, clusters=names if len(set(names)) > 1 else None, bounds=bounds
    )
    return {
        "n": len(values), "mean": sum(values) / len(values),
        "interval": [interval.low, interval.high] if interval else None,
    }  # fmt: skip
