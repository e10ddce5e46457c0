"""llm/client against a local endpoint: every way in which a request can fail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.running import refusing_port

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm.client import ChatClient, ChatReply, RequestFailure
from lmms_eval_ad2.llm.http_address import EndpointConfig
from lmms_eval_ad2.testing.fake_endpoint import EndpointBehaviour, FakeEndpointServer, serve

pytestmark = pytest.mark.integration

PAYLOAD = {"model": "m", "messages": [{"role": "user", "content": "one two three"}]}


def complete(server: FakeEndpointServer, **settings: Any) -> tuple[ChatReply | RequestFailure, ChatClient]:
    endpoint = EndpointConfig(server.url, **{"backoff_s": 0.001, "max_retries": 2, **settings})

    async def run() -> tuple[ChatReply | RequestFailure, ChatClient]:
        async with ChatClient(endpoint) as client:
            return await client.complete(PAYLOAD), client

    return asyncio.run(run())


def test_a_reply_has_text_and_token_counts() -> None:
    with serve(reply="fine", keep_bodies=True) as server:
        reply, client = complete(server, api_key="sk-secret")
    assert reply == ChatReply("fine", "stop", "m", 3, 1)
    assert (client.requests, client.retries) == (1, 0)
    assert server.bodies == [PAYLOAD]
    assert server.headers[0]["Authorization"] == "Bearer sk-secret"


def test_without_a_key_no_authorization_header_is_sent() -> None:
    with serve(keep_bodies=True) as server:
        complete(server)
    assert "Authorization" not in server.headers[0]


TEMPORARY = [
    "429", "500", "502", "503", "408", "cut", "cut_body", "invalid_json", "no_choices", "error_200", "broken_off",
    "empty", "html", "html_200",
]  # fmt: skip


@pytest.mark.parametrize("kind", TEMPORARY)
def test_temporary_failures_are_retried(kind: str) -> None:
    with serve(reply="fine", failures=[kind, kind]) as server:
        reply, client = complete(server)
    assert isinstance(reply, ChatReply) and reply.text == "fine"
    assert (server.requests, client.retries) == (3, 2)


REASONS = {
    "500": "http_500", "502": "http_502", "html": "http_502", "cut": "connection", "cut_body": "connection",
    "invalid_json": "invalid_reply", "no_choices": "invalid_reply", "html_200": "invalid_reply", "empty": "empty_reply",
    "error_200": "invalid_reply", "broken_off": "broken_off",
}  # fmt: skip


@pytest.mark.parametrize(("kind", "reason"), REASONS.items())
def test_retries_are_bounded(kind: str, reason: str) -> None:
    with serve(failures=[kind], cycle=True) as server:
        outcome, _ = complete(server)
    assert isinstance(outcome, RequestFailure) and outcome.reason == reason
    assert server.requests == 3


def test_throttled_requests_have_more_but_not_endless_retries() -> None:
    with serve(failures=["429"] * 7, retry_after_s=0.001) as server:
        assert isinstance(complete(server)[0], ChatReply)
    with serve(failures=["429"], cycle=True, retry_after_s=0.001) as server:
        outcome, _ = complete(server, max_retries=1)
    assert isinstance(outcome, RequestFailure) and outcome.reason == "throttled"
    assert server.requests == 5


def test_a_hanging_endpoint_times_out() -> None:
    with serve(reply="fine", failures=["hang"]) as server:
        reply, client = complete(server, timeout_s=0.5, max_retries=10)  # a slow machine misses a good reply too
    assert isinstance(reply, ChatReply)
    assert client.requests == client.retries + 1 >= 2
    with serve(failures=["hang"], cycle=True) as server:
        outcome, _ = complete(server, timeout_s=0.1, max_retries=1)
    assert isinstance(outcome, RequestFailure) and outcome.reason == "timeout"


def test_a_refused_connection_is_a_failure() -> None:
    with refusing_port() as port:
        outcome, client = complete(FakeEndpointServer(EndpointBehaviour(), f"http://127.0.0.1:{port}/v1"))
    assert isinstance(outcome, RequestFailure) and outcome.reason == "connection"
    assert client.requests == 3


def test_a_refused_request_is_not_repeated() -> None:
    with serve(failures=["400"]) as server:
        outcome, _ = complete(server)
    assert outcome == RequestFailure("http_400", "HTTP 400: the fake endpoint says 400", refused=True)
    assert server.requests == 1


@pytest.mark.parametrize(
    ("kind", "finish"), [("truncated", "length"), ("refusal", "content_filter"), ("filtered", "content_filter")]
)
def test_the_finish_reason_is_kept(kind: str, finish: str) -> None:
    with serve(failures=[kind]) as server:
        reply, _ = complete(server)
    assert isinstance(reply, ChatReply) and reply.finish_reason == finish


def test_the_key_stays_out_of_messages_and_representations() -> None:
    endpoint = EndpointConfig("http://host/v1", api_key="sk-secret")
    assert "sk-secret" not in repr(endpoint)
    assert ChatClient(endpoint)._clean("wrong key sk-secret given") == "wrong key [REDACTED] given"


@pytest.mark.parametrize("key", ["x", "1", "a", "EMPTY"])
def test_a_short_key_is_no_key_in_a_message(key: str) -> None:
    """As users of local servers set it: its letters are also part of other words."""
    message = "This model's maximum context length is 4096 tokens, not EMPTY."
    assert ChatClient(EndpointConfig("http://host/v1", api_key=key))._clean(message) == message


def test_a_key_that_a_completion_repeats_is_not_kept() -> None:
    with serve(reply="Your key is sk-secret-1, thank you. It is EMPTY.") as server:
        reply, _ = complete(server, api_key="sk-secret-1")
        assert isinstance(reply, ChatReply) and reply.text == "Your key is [REDACTED], thank you. It is EMPTY."
        reply, _ = complete(server, api_key="EMPTY")  # as users of local servers set it
        assert isinstance(reply, ChatReply) and "EMPTY" in reply.text


def test_a_reply_body_of_excessive_length_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmms_eval_ad2.llm.http_client.LONGEST_BODY", 10_000)
    with serve(reply="long " * 4_000) as server:
        outcome, client = complete(server, max_retries=1)
    assert isinstance(outcome, RequestFailure) and (outcome.reason, outcome.refused) == ("too_long", False)
    assert client.requests == 2


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ("401", "HTTP 401"), ("403", "HTTP 403"), ("404", "HTTP 404"), ("402", "no credit"), ("405", "base_url"),
        ("307", "points elsewhere"),
    ],
)  # fmt: skip
def test_what_concerns_every_request_stops_the_run_with_the_reason(status: str, why: str) -> None:
    with serve(failures=[status], cycle=True) as server, pytest.raises(Ad2Error, match=why):
        complete(server)
    assert server.requests == 1
