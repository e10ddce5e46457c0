"""What the API wrappers of lmms-eval get from a reply with status 200 that contains no answer, or an odd one."""

from __future__ import annotations

from typing import Any

import pytest

from lmms_eval_ad2.core.records import Unparsed
from lmms_eval_ad2.harness.failed_replies import NO_TEXT, marked
from lmms_eval_ad2.llm.completion import NoCompletion
from lmms_eval_ad2.parsing import parse


def completion(body: dict[str, Any]) -> Any:
    """The object that openai's client makes of a body, which it does not check."""
    return pytest.importorskip("openai.types.chat").ChatCompletion.construct(**body)


def reply(message: dict[str, Any], finish: str = "stop", **more: Any) -> Any:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return completion({"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], **more})


def content(message: dict[str, Any], finish: str = "stop") -> Any:
    return marked(reply(message, finish)).choices[0].message.content


@pytest.mark.parametrize("finish", ["length", "max_tokens", "model_length"])
@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"content": None}, "empty"),
        ({}, "empty"),
        ({"content": ""}, "empty"),
        ({"content": []}, "empty"),
        ({"content": None, "reasoning_content": "The answer is A"}, "empty"),
        ({"content": None, "reasoning": "The answer is A", "reasoning_details": [{"text": "x"}]}, "empty"),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "A"}]}]}, "empty"),
        ({"content": "<think>The answer is A because"}, "unfinished_thought"),
    ],
)
def test_a_thought_that_the_token_limit_ends_is_the_models_answer(
    message: dict[str, Any], reason: str, finish: str
) -> None:
    got = parse(content(message, finish), "mc", letters="AB")
    assert isinstance(got, Unparsed) and got.reason == reason


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([{"type": "text", "text": "A"}], "A"),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "B"}]}, {"type": "text", "text": "A"}], "A"),
        ([{"type": "reasoning", "text": "B"}, {"type": "output_text", "text": "A"}], "A"),
        (["A", " bus"], "A bus"),
        ([{"type": "image_url", "image_url": {"url": "data:"}}], NO_TEXT),
        ({"answer": "A"}, "[GENERATION_FAILED] content is dict, not text"),
        (3, "[GENERATION_FAILED] content is int, not text"),
        (None, NO_TEXT),
    ],
)
def test_parts_of_a_content_are_joined(given: Any, text: str) -> None:
    assert content({"content": given}) == text


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("content_filter", "safety_blocked"), ("SAFETY", "safety_blocked"), ("RECITATION", "safety_blocked"),
     ("refusal", "safety_blocked"), ("sensitive", "safety_blocked"), ("network_error", "generation_failed")],
)  # fmt: skip
def test_what_a_filter_or_a_failure_leaves_of_a_reply_is_no_answer(finish: str, reason: str) -> None:
    got = parse(content({"content": "A"}, finish), "mc", letters="AB")
    assert isinstance(got, Unparsed) and got.reason == reason


def test_an_error_beside_a_text_is_a_failure() -> None:
    error = {"message": "upstream is gone", "code": 502}
    odd = reply({"content": "A"})
    odd.choices[0].error = error
    got = marked(odd).choices[0].message.content
    unread = parse(got, "mc", letters="AB")
    assert "upstream is gone" in got and isinstance(unread, Unparsed) and unread.reason == "generation_failed"
    with pytest.raises(NoCompletion, match="upstream is gone"):
        marked(reply({"content": "A"}, error=error))
    assert marked(reply({"content": "A"}, error=None)).choices[0].message.content == "A"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "Provider returned error", "code": 502}}, "Provider returned error"),
        ({"error": "model overloaded"}, "model overloaded"),
        ({"object": "error", "message": "context length exceeded", "code": 400}, "context length exceeded"),
        ({"object": "error", "detail": "no such model"}, "no such model"),
        ({"choices": None, "error": {"message": "try again"}}, "try again"),
        ({"choices": [], "note": "busy"}, '"note":"busy"'),
        ({"choices": [None], "note": "busy"}, '"note":"busy"'),
    ],
)
def test_an_error_with_status_200_is_raised_with_the_endpoints_message(body: dict[str, Any], message: str) -> None:
    with pytest.raises(NoCompletion, match="no completion: ") as caught:
        marked(completion({"id": "x", "model": "m", **body}))
    assert message in str(caught.value)


def test_a_page_in_place_of_a_reply_is_raised_with_its_beginning() -> None:
    with pytest.raises(NoCompletion, match="Sign in"):
        marked("<html><title>Sign in</title></html>")


@pytest.mark.parametrize("count", ["n/a", None, -1, 10**30, [3]])
def test_a_token_count_that_is_no_number_is_left_out(count: Any) -> None:
    usage = {
        "prompt_tokens": count,
        "completion_tokens": count,
        "completion_tokens_details": {"reasoning_tokens": count},
    }
    got = marked(reply({"content": "A"}, usage=usage))
    counts = got.usage.prompt_tokens, got.usage.completion_tokens, got.usage.completion_tokens_details.reasoning_tokens
    assert counts == (None, None, None) and got.choices[0].message.content == "A"
    assert marked(reply({"content": "A"}, usage={"prompt_tokens": 7})).usage.prompt_tokens == 7
    assert marked(reply({"content": "A"}, usage="n/a")).choices[0].message.content == "A"
