"""llm/completion: malformed, failed and hostile response bodies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_eval_ad2.llm.cache import ReplyCache
from lmms_eval_ad2.llm.completion import ChatReply, NoCompletion, read_completion, read_error

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def body(message: Any = None, choice: dict[str, Any] | None = None, **more: Any) -> bytes:
    first = {"message": message or {"content": "x"}, "finish_reason": "stop", **(choice or {})}
    return json.dumps({"choices": [first], "model": "m", **more}).encode()


HOSTILE = {
    "model": (body(model={"a": 1}), ChatReply("x", "stop", None)),
    "finish": (body(choice={"finish_reason": ["stop"]}), ChatReply("x", None, "m")),
    "half a pair": (body({"content": "\ud800 y"}), ChatReply("? y", "stop", "m")),
    "half a pair in the model": (body(model="\udfff"), ChatReply("x", "stop", "?")),
    "tokens": (body(usage={"prompt_tokens": 10**30, "completion_tokens": -1}), ChatReply("x", "stop", "m")),
    "yes tokens": (body(usage={"prompt_tokens": True, "completion_tokens": 7}), ChatReply("x", "stop", "m", None, 7)),
    "parts": (body({"content": [{"text": 5}, {"text": "6"}, 7]}), ChatReply("56", "stop", "m")),
    "thought in a part": (
        body({"content": [{"type": "reasoning", "text": "B"}, {"type": "text", "text": "A"}, " bus"]}),
        ChatReply("A bus", "stop", "m"),
    ),
    "cut thought": (body({"content": None}, {"finish_reason": "max_tokens"}), ChatReply("", "length", "m")),
    "not finite": (
        body(usage={"cost": float("nan"), "completion_tokens": 7}, choice={"logprobs": [float("-inf")]}),
        ChatReply("x", "stop", "m", None, 7),
    ),
    "no error": (body(error=None, choice={"error": {}}), ChatReply("x", "stop", "m")),
    "filter of Gemini": (body(choice={"finish_reason": "SAFETY"}), ChatReply("x", "content_filter", "m")),
    "filter of Claude": (body({"content": None}, {"finish_reason": "refusal"}), ChatReply("", "content_filter", "m")),
    "refusal": (body({"content": None, "refusal": {"a": 1}}), ChatReply("{'a': 1}", "content_filter", "m")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_fields_of_a_wrong_type_are_dropped_and_the_reply_can_be_cached(name: str, tmp_path: Path) -> None:
    raw, expected = HOSTILE[name]
    reply = read_completion(raw)
    assert reply == expected
    cache = ReplyCache(tmp_path / "replies.sqlite")
    cache.put("key", reply)
    assert cache.get_many(["key"])["key"] == reply


@pytest.mark.parametrize(
    "raw", [b"[" * 200_000, b'{"choices":' * 100_000, b"\xff\xfe{", b"", b"null", b'{"choices":{}}']
)
def test_a_body_without_a_completion_is_invalid(raw: bytes) -> None:
    with pytest.raises(NoCompletion) as caught:
        read_completion(raw)
    assert caught.value.reason == "invalid_reply"
    assert len(caught.value.detail) < 2_000


@pytest.mark.parametrize("error", [{"message": "upstream", "code": 502}, "upstream", ["upstream \ud800"]])
@pytest.mark.parametrize("beside_the_text", [True, False])
def test_an_error_beside_a_text_is_a_failure(error: Any, beside_the_text: bool) -> None:
    with pytest.raises(NoCompletion, match="upstream") as caught:
        read_completion(body(choice={"error": error}) if beside_the_text else body(error=error))
    assert caught.value.reason == "broken_off" and caught.value.detail.encode()


def test_a_too_deeply_nested_error_is_truncated() -> None:
    code, message = read_error(b'{"error":' * 100_000)
    assert code == "" and message.startswith('{"error":') and len(message) == 300


@given(JSON, JSON, JSON, JSON)
def test_any_body_gives_a_serialisable_reply_or_none(content: Any, finish: Any, model: Any, usage: Any) -> None:
    raw = body({"content": content}, {"finish_reason": finish}, model=model, usage=usage)
    try:
        reply = read_completion(raw)
    except NoCompletion:
        return
    hash(reply)
    json.dumps([reply.text, reply.finish_reason, reply.model], ensure_ascii=False).encode()


@given(JSON)
def test_any_error_body_gives_texts(error: Any) -> None:
    assert all(isinstance(part, str) for part in read_error(json.dumps({"error": error}).encode()))
