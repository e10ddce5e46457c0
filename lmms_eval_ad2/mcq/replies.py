"""Parsing of model replies: checked values, or a ReplyFault that describes the fault. Nothing is guessed or repaired.

A reply is untrusted: its JSON object is parsed with bounds, its shape is checked by strict pydantic models, and its
numbers are checked against the request. Whether a text is a good distractor is decided by `faults` and the evaluator.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lmms_eval_ad2.llm.client import ChatReply
from lmms_eval_ad2.llm.untrusted_text import neutralise
from lmms_eval_ad2.parsing.json_reply import last_dict

REFUSED = "refused"  # refusal by a content filter or the model; repeating the request does not help
NOT_JSON = "not_json"  # no JSON object in the reply
# Faults of what the options say: the model has replied in the requested form, and the question itself is at fault.
OF_CONTENT = (REFUSED, "equals_answer", "not_text")
LONGEST_REPLY = 60_000  # characters
LONGEST_OPTION, LONGEST_REASON = 1_000, 2_000
_MOST = 64  # entries of a list, and JSON objects tried in one reply
_SHOWN = 160  # characters of a validation error in a fault's message

_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_WORDS = re.compile(r"\w+")

OptionText = Annotated[str, Field(min_length=1, max_length=LONGEST_OPTION)]
ReasonText = Annotated[str, Field(max_length=LONGEST_REASON)]
Number = Annotated[int, Field(ge=1, le=_MOST)]


class ReplyFault(Exception):
    """An unusable reply. `code` is short and stable; `message` is sent to the model."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class _ReplyModel(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class Proposal(_ReplyModel):
    option: OptionText
    reason: ReasonText


class Numbered(_ReplyModel):
    number: Number
    option: OptionText
    reason: ReasonText


class Review(_ReplyModel):
    number: Number
    verdict: Literal["keep", "revise"]
    comment: ReasonText


class Problem(_ReplyModel):
    number: Number
    comment: ReasonText


class ProposalsReply(_ReplyModel):
    distractors: Annotated[list[Proposal], Field(min_length=1, max_length=_MOST)]


class RewrittenReply(_ReplyModel):
    distractors: Annotated[list[Numbered], Field(min_length=1, max_length=_MOST)]


class ReviewsReply(_ReplyModel):
    reviews: Annotated[list[Review], Field(min_length=1, max_length=_MOST)]


class PicksReply(_ReplyModel):
    picks: Annotated[list[Numbered], Field(min_length=1, max_length=_MOST)]


class EvaluationReply(_ReplyModel):
    score: Annotated[int, Field(ge=1, le=5)]
    problems: Annotated[list[Problem], Field(max_length=_MOST)]


class OpenScoreReply(_ReplyModel):
    score: Annotated[int, Field(ge=0, le=5)]
    comment: ReasonText


# Names of the schemas in requests; part of the cache key.
SCHEMA_NAMES: dict[type[BaseModel], str] = {
    ProposalsReply: "proposals",
    RewrittenReply: "rewritten",
    ReviewsReply: "reviews",
    PicksReply: "picks",
    EvaluationReply: "evaluation",
    OpenScoreReply: "open_score",
}


M = TypeVar("M", bound=BaseModel)
# Code of the fault of an option's text, or None; applied to each option by `proposals` and `rewritten`.
OptionCheck = Callable[[str], str | None]


def proposals(reply: ChatReply, n: int, check: OptionCheck) -> list[Proposal]:
    """Exactly n proposals whose options pass `check`."""
    found = _read(reply, ProposalsReply).distractors
    if len(found) != n:
        raise ReplyFault("wrong_count", f"it has {len(found)} distractors; exactly {n} are needed")
    _check_options([(i, p.option) for i, p in enumerate(found, 1)], check)
    return found


def reviews(reply: ChatReply, n: int) -> dict[int, Review]:
    """One review for each number from 1 to n."""
    found = _read(reply, ReviewsReply).reviews
    _check_numbers([r.number for r in found], range(1, n + 1))
    return {r.number: r for r in found}


def rewritten(reply: ChatReply, numbers: Sequence[int], check: OptionCheck) -> dict[int, Numbered]:
    """One option for each of `numbers`; all pass `check`."""
    found = _read(reply, RewrittenReply).distractors
    _check_numbers([r.number for r in found], numbers)
    _check_options([(r.number, r.option) for r in found], check)
    return {r.number: r for r in found}


def picks(reply: ChatReply, pool: Sequence[str], n: int) -> list[Numbered]:
    """Exactly n different picks from `pool` (numbers from 1), each with the text of that candidate."""
    found = _read(reply, PicksReply).picks
    if len(found) != n:
        raise ReplyFault("wrong_count", f"it has {len(found)} picks; exactly {n} are needed")
    if len({p.number for p in found}) < n:
        raise ReplyFault("repeated_pick", "it picks the same candidate more than once")
    for pick in found:
        if pick.number > len(pool):
            raise ReplyFault("unknown_number", f"there is no candidate {pick.number}; there are {len(pool)}")
        if not _same_words(pick.option, pool[pick.number - 1]):
            raise ReplyFault("not_in_pool", f"the text given for candidate {pick.number} is not that candidate's text")
    return found


def evaluation(reply: ChatReply, n: int) -> EvaluationReply:
    """A score of 1 to 5, and problems that name distractors from 1 to n, each at most once."""
    found = _read(reply, EvaluationReply)
    numbers = [p.number for p in found.problems]
    if any(number > n for number in numbers):
        raise ReplyFault("unknown_number", f"there is no distractor {max(numbers)}; there are {n}")
    if len(set(numbers)) < len(numbers):
        raise ReplyFault("wrong_numbers", "it names a distractor more than once")
    return found


def open_score(reply: ChatReply) -> OpenScoreReply:
    """A score of 0 to 5 with a comment."""
    return _read(reply, OpenScoreReply)


def json_object(text: str) -> dict[str, Any]:
    """The last JSON object in `text`; text around it is ignored. Raises ReplyFault if there is none.

    Bounded by the length of the text, the number of objects tried, and the parser's limit on nesting.
    """
    if len(text) > LONGEST_REPLY:
        raise ReplyFault("too_long", f"it has more than {LONGEST_REPLY} characters")
    text = _THOUGHT.sub("", text)
    last = last_dict(text, _MOST)
    if last is None:
        raise ReplyFault(NOT_JSON, "there is no complete JSON object in it")
    return last


@functools.cache
def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """JSON schema of a reply for servers with strict schemas: all keys required, no other keys, no bounds.

    Bounds are checked when the reply is read, because servers differ in the keywords that they support.
    """
    schema = model.model_json_schema()
    return _strict(schema, schema.get("$defs", {}))


def _strict(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        return _strict(definitions[node["$ref"].rsplit("/", 1)[-1]], definitions)
    kept = {key: node[key] for key in ("type", "enum") if key in node}
    if "items" in node:
        kept["items"] = _strict(node["items"], definitions)
    if "properties" in node:
        kept["properties"] = {name: _strict(part, definitions) for name, part in node["properties"].items()}
        kept |= {"required": list(kept["properties"]), "additionalProperties": False}
    return kept


def _read(reply: ChatReply, model: type[M]) -> M:
    if reply.finish_reason == "length":
        raise ReplyFault("truncated", "it was cut off before its end; be briefer")
    if reply.finish_reason == "content_filter":
        raise ReplyFault(REFUSED, "it is a refusal")
    data = json_object(reply.text)
    try:
        return model.model_validate(data)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ReplyFault("wrong_shape", neutralise(f"at '{place}': {first['msg']}"[:_SHOWN])) from exc


def _check_numbers(found: Sequence[int], wanted: Sequence[int]) -> None:
    if sorted(found) != sorted(wanted):
        names = ", ".join(map(str, wanted))
        raise ReplyFault("wrong_numbers", f"it needs exactly one entry for each of the numbers {names}")


def _check_options(options: Sequence[tuple[int, str]], check: OptionCheck) -> None:
    for number, option in options:
        if (why := check(option)) is not None:
            raise ReplyFault(why, f"option {number} cannot stand ({why})")


def _same_words(left: str, right: str) -> bool:
    """Equal words in equal order; quotes, punctuation and neutralised characters may differ in a copied text."""
    return _WORDS.findall(neutralise(left).casefold()) == _WORDS.findall(neutralise(right).casefold())
