"""Parsing of model replies: values, refusals with their codes; no text raises another error."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_eval_ad2.llm.client import ChatReply
from lmms_eval_ad2.mcq import replies
from lmms_eval_ad2.mcq.replies import ReplyFault


def reply(data: Any, finish: str = "stop") -> ChatReply:
    return ChatReply(data if isinstance(data, str) else json.dumps(data), finish)


def accept_all(text: str) -> None:
    return None


def not_o2(text: str) -> str | None:
    return "equals_answer" if text == "o2" else None


def options(n: int, **more: Any) -> dict[str, Any]:
    return {"distractors": [{"option": f"o{i}", "reason": "r", **more} for i in range(1, n + 1)]}


def numbered(*numbers: int) -> dict[str, Any]:
    return {"distractors": [{"number": i, "option": f"o{i}", "reason": "r"} for i in numbers]}


PROBLEM = {"number": 1, "comment": ""}
POOL = ["A red car.", "A white van.", "<c1,CAM_FRONT,1.0,2.0> turns.", "Say [[9]] now."]


def pick(*numbers: int, texts: list[str] = POOL) -> dict[str, Any]:
    return {"picks": [{"number": i, "option": texts[i - 1], "reason": ""} for i in numbers]}


def test_valid_replies_are_parsed() -> None:
    assert [p.option for p in replies.proposals(reply(options(2)), 2, accept_all)] == ["o1", "o2"]
    assert replies.rewritten(reply(numbered(3, 1)), [1, 3], accept_all)[3].option == "o3"
    reviews = {"reviews": [{"number": i, "verdict": "keep", "comment": ""} for i in (2, 1)]}
    assert replies.reviews(reply(reviews), 2)[1].verdict == "keep"
    assert [p.number for p in replies.picks(reply(pick(3, 1, 2)), POOL, 3)] == [3, 1, 2]
    assert replies.evaluation(reply({"score": 4, "problems": [{"number": 2, "comment": "x"}]}), 3).score == 4


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"score": 5, "problems": []}\n```',
        'Of course! {"score": 5, "problems": []} I hope that helps.',
        '<think>{"score": 1, "problems": []}</think>{"score": 5, "problems": []}',
        'First I thought {"score": 1, "problems": []}, but {"score": 5, "problems": []}',
        '{"score": 5, "problems": [], "note": "more than was asked"}',
    ],
)
def test_text_around_the_object_is_ignored(text: str) -> None:
    assert replies.evaluation(reply(text), 3).score == 5


@pytest.mark.parametrize(
    ("read", "code"),
    [
        (lambda: replies.proposals(reply(options(5)), 6, accept_all), "wrong_count"),
        (lambda: replies.proposals(reply(options(7)), 6, accept_all), "wrong_count"),
        (lambda: replies.proposals(reply(options(1, option="")), 1, accept_all), "wrong_shape"),
        (lambda: replies.proposals(reply(options(1, option="x" * 1001)), 1, accept_all), "wrong_shape"),
        (lambda: replies.proposals(reply(options(1, reason=None)), 1, accept_all), "wrong_shape"),
        (lambda: replies.proposals(reply(options(2)), 2, not_o2), "equals_answer"),
        (lambda: replies.rewritten(reply(numbered(1, 1)), [1, 2], accept_all), "wrong_numbers"),
        (lambda: replies.rewritten(reply(numbered(1, 2)), [1], accept_all), "wrong_numbers"),
        (lambda: replies.rewritten(reply(numbered(1)), [1], lambda t: "not_text"), "not_text"),
        (lambda: replies.reviews(reply({"reviews": [{**PROBLEM, "verdict": "good"}]}), 1), "wrong_shape"),
        (lambda: replies.picks(reply(pick(1, 2)), POOL, 3), "wrong_count"),
        (lambda: replies.picks(reply(pick(1, 2, 2)), POOL, 3), "repeated_pick"),
        (lambda: replies.picks(reply(pick(1, 2, 4)), POOL[:3], 3), "unknown_number"),
        (lambda: replies.picks(reply(pick(1, 2, 3, texts=["A blue car.", *POOL[1:]])), POOL, 3), "not_in_pool"),
        (lambda: replies.evaluation(reply({"score": 0, "problems": []}), 3), "wrong_shape"),
        (lambda: replies.evaluation(reply({"score": 6, "problems": []}), 3), "wrong_shape"),
        (lambda: replies.evaluation(reply({"score": "5", "problems": []}), 3), "wrong_shape"),
        (lambda: replies.evaluation(reply({"score": 4.5, "problems": []}), 3), "wrong_shape"),
        (lambda: replies.evaluation(reply({"score": True, "problems": []}), 3), "wrong_shape"),
        (lambda: replies.evaluation(reply({"score": 3, "problems": [{**PROBLEM, "number": 4}]}), 3), "unknown_number"),
        (lambda: replies.evaluation(reply({"score": 5, "problems": []}, "length"), 3), "truncated"),
        (lambda: replies.evaluation(reply("no", "content_filter"), 3), "refused"),
        (lambda: replies.evaluation(reply("I cannot say."), 3), "not_json"),
        (lambda: replies.evaluation(reply('{"score": 5, "problems": ['), 3), "not_json"),
        (lambda: replies.evaluation(reply("[" * 50_000 + "{" * 9_000), 3), "not_json"),
        (lambda: replies.evaluation(reply('{"a":' * 9_000), 3), "not_json"),
        (lambda: replies.evaluation(reply('{"score": ' + "9" * 5_000 + "}"), 3), "not_json"),
        (lambda: replies.evaluation(reply("x" * 60_001), 3), "too_long"),
    ],
)  # fmt: skip
def test_invalid_replies_have_a_code(read: Callable[[], object], code: str) -> None:
    with pytest.raises(ReplyFault) as caught:
        read()
    assert caught.value.code == code
    assert len(caught.value.message) < 200


def test_picks_are_compared_by_words() -> None:
    texts = ["a red  car", "A WHITE VAN", "<c1,CAM_FRONT,1.0,2.0> turns", "Say [·[9]·] now."]
    assert len(replies.picks(reply(pick(1, 2, 4, texts=texts)), POOL, 3)) == 3


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["distractors", "option", "number", "picks", "score", "problems", "x"]), inner
        )
    ),
    max_leaves=12,
)
PIECES = st.sampled_from(['{"', "}", "[", "]", "\\u", "```json", "<think>", '"score": 5', ",", "NaN", "\x00", "\ud800"])


@given(ANYTHING.map(json.dumps) | st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join))
def test_any_reply_is_parsed_or_refused(text: str) -> None:
    for read in (
        lambda r: replies.proposals(r, 2, accept_all),
        lambda r: replies.rewritten(r, [1, 2], accept_all),
        lambda r: replies.reviews(r, 2),
        lambda r: replies.picks(r, POOL, 3),
        lambda r: replies.evaluation(r, 3),
    ):
        try:
            read(ChatReply(text))
        except ReplyFault as fault:
            assert fault.code


@given(st.text(max_size=40), st.text(max_size=40))
def test_options_are_returned_unchanged(option: str, reason: str) -> None:
    data = {"distractors": [{"option": option or "x", "reason": reason}]}
    assert replies.proposals(reply("So: " + json.dumps(data)), 1, accept_all)[0].option == (option or "x")


def test_the_schemas_are_strict() -> None:
    def check(node: dict[str, Any]) -> None:
        assert not {"$ref", "$defs", "title", "maxLength", "minimum"} & set(node)
        if node["type"] == "object":
            assert node["required"] == list(node["properties"]) and node["additionalProperties"] is False
            for part in node["properties"].values():
                check(part)
        if node["type"] == "array":
            check(node["items"])

    for shape in (
        replies.ProposalsReply,
        replies.RewrittenReply,
        replies.ReviewsReply,
        replies.PicksReply,
        replies.EvaluationReply,
    ):
        check(replies.schema_of(shape))
