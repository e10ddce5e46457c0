"""Image-blind baseline: a language model answers the questions from their text alone.

An accuracy well above chance means that the options reveal the answer, or that the question does not need the image.
The order of the options can be rotated, which cancels a preference of the model for a letter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.records import Answer, Record
from lmms_eval_ad2.llm.batch import RequestUsage, ask
from lmms_eval_ad2.llm.cache import ReplyCache, key_of
from lmms_eval_ad2.llm.client import ChatReply, RequestFailure
from lmms_eval_ad2.llm.model import LanguageModel
from lmms_eval_ad2.llm.untrusted_text import neutralise
from lmms_eval_ad2.mcq.biases import compare_with_chance, right_place, texts_of
from lmms_eval_ad2.parsing import parse

_PROMPT = """\
This question was asked about pictures from a car's cameras. You are not shown them.
Choose the option that is most likely right, by the words alone. Choose one even where nobody could know.

Question: {question}
{options}

Answer with the letter of one option and nothing else: {letters}."""


@dataclass(frozen=True, slots=True)
class _RotatedQuestion:
    """One request. order[i]: index in the record of the option that is shown at position i."""

    record: Record
    order: tuple[int, ...]

    def options(self) -> dict[str, str]:
        texts = texts_of(self.record)
        # Each on one line: a line break in a text could imitate another option.
        return {chr(ord("A") + i): " ".join(neutralise(texts[place]).split()) for i, place in enumerate(self.order)}

    def messages(self) -> list[dict[str, str]]:
        shown = self.options()
        lines = "\n".join(f"{letter}. {text}" for letter, text in shown.items())
        asked = neutralise(self.record.question.get("en"))
        text = _PROMPT.format(question=asked, options=lines, letters=", ".join(shown))
        return [{"role": "user", "content": text}]

    def hit(self, letter: str) -> bool:
        return self.order[ord(letter) - ord("A")] == right_place(self.record)


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
    """  # fmt: skip
    requests = [[(_key(one, model), one) for one in _rotations(record, rotations)] for record in records]
    payloads = {key: model.payload(one.messages()) for keyed in requests for key, one in keyed}
    tally, reasons = RequestUsage(), Counter[str]()
    replies = ask(payloads, model.endpoint, cache=cache, tally=tally, label="without the image", progress=progress)
    read = [
        (record, hits)
        for record, keyed in zip(records, requests, strict=True)
        if (hits := [hit for key, one in keyed if (hit := _hit(one, replies[key], reasons)) is not None])
    ]
    return _result(read, len(records), rotations, reasons) | {"model": model.label, "usage": usage(tally, model)}


def _rotations(record: Record, rotations: int) -> list[_RotatedQuestion]:
    n = len(record.options)
    return [
        _RotatedQuestion(record, tuple((place + shift) % n for place in range(n))) for shift in range(min(rotations, n))
    ]


def _key(one: _RotatedQuestion, model: LanguageModel) -> str:
    return key_of({"what": "mcq text only", "model": model.describe(), "messages": one.messages()})


def _hit(one: _RotatedQuestion, reply: ChatReply | RequestFailure, reasons: Counter[str]) -> bool | None:
    """Whether the right option was chosen; None if there is no reply or no answer in it, counted in `reasons`."""
    if isinstance(reply, RequestFailure):
        reasons[f"failed:{reply.reason}"] += 1
        return None
    answer = parse(reply.text, "mc", options=one.options())
    if not isinstance(answer, Answer):
        reasons[f"unparsed:{answer.reason}"] += 1
        return None
    return one.hit(str(answer.value))


def _result(read: Sequence[tuple[Record, list[bool]]], n: int, rotations: int, reasons: Counter[str]) -> dict[str, Any]:
    def over(part: Sequence[tuple[Record, list[bool]]]) -> dict[str, Any] | None:
        found = compare_with_chance([record for record, _ in part], [sum(hits) / len(hits) for _, hits in part])
        return found.to_dict() if found else None

    tasks = dict.fromkeys(record.task for record, _ in read)
    return {
        "asked": n, "answered": len(read), "rotations": rotations, "reasons": dict(reasons.most_common()),
        "all": over(read), "by_task": {task: over([pair for pair in read if pair[0].task == task]) for task in tasks},
    }  # fmt: skip


def usage(tally: RequestUsage, model: LanguageModel) -> dict[str, Any]:
    """Requests, tokens and cost, JSON-able."""
    spent = {
        "requests": tally.requests, "cached": tally.cached, "failed": tally.failed,
        "prompt_tokens": tally.prompt_tokens, "completion_tokens": tally.completion_tokens,
    }  # fmt: skip
    if model.price is None:
        return spent
    return spent | {"cost": model.price.cost(tally.prompt_tokens, tally.completion_tokens)}
