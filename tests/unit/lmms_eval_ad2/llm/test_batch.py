"""llm/batch: many requests, bounded in flight; an endpoint that is down is detected."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm import batch
from lmms_eval_ad2.llm.cache import ReplyCache
from lmms_eval_ad2.llm.client import ChatReply, EndpointConfig, RequestFailure
from lmms_eval_ad2.testing.fake_endpoint import FakeEndpointServer, serve

pytestmark = pytest.mark.integration


def payloads(n: int) -> dict[str, dict[str, Any]]:
    return {f"k{i}": {"model": "m", "messages": [{"role": "user", "content": f"question {i}"}]} for i in range(n)}


def endpoint(server: FakeEndpointServer, **settings: Any) -> EndpointConfig:
    return EndpointConfig(server.url, **{"backoff_s": 0.001, "max_retries": 1, "concurrency": 8, **settings})


def answer(body: dict[str, Any]) -> str:
    return "to " + body["messages"][-1]["content"]


def test_every_question_gets_its_own_reply_within_the_concurrency_limit() -> None:
    with serve(reply=answer, latency_s=0.05) as server:
        outcomes = batch.ask(payloads(60), endpoint(server), progress=False)
    assert {k: r.text for k, r in outcomes.items() if isinstance(r, ChatReply)} == {
        f"k{i}": f"to question {i}" for i in range(60)
    }
    assert server.requests == 60
    assert 2 <= server.most_in_flight <= 8


def test_cached_replies_are_reused_and_only_accepted_ones_are_stored(tmp_path: Path) -> None:
    cache, tally = ReplyCache(tmp_path / "c.sqlite"), batch.RequestUsage()
    with serve(reply=answer, failures=["400"]) as server:
        batch.ask(payloads(10), endpoint(server), cache=cache, keep=lambda k, r: k != "k5", progress=False)
        assert len(cache) == 8  # not the refused one, not k5
        outcomes = batch.ask(payloads(10), endpoint(server), cache=cache, tally=tally, progress=False)
    assert server.requests == 12
    assert (tally.cached, tally.requests, tally.failed) == (8, 2, 0)
    assert len(outcomes) == 10


def test_requests_stop_when_the_endpoint_is_down() -> None:
    with serve(failures=lambda n, body: "ok" if n < 20 else "500") as server:
        outcomes = batch.ask(payloads(400), endpoint(server, max_retries=0), progress=False)
    reasons = [o.reason for o in outcomes.values() if isinstance(o, RequestFailure)]
    assert len(outcomes) == 400 and len(reasons) == 380
    assert reasons.count("endpoint_down") > 300
    assert server.requests < 60


def test_single_failures_do_not_stop_the_requests() -> None:
    with serve(failures=["500", "500", "ok"], cycle=True) as server:
        outcomes = batch.ask(payloads(120), endpoint(server, max_retries=0, concurrency=1), progress=False)
    reasons = {o.reason for o in outcomes.values() if isinstance(o, RequestFailure)}
    assert reasons == {"http_500"}
    assert server.requests == 120


def test_an_invalid_api_key_stops_the_run_after_saving_received_replies(tmp_path: Path) -> None:
    cache, tally = ReplyCache(tmp_path / "c.sqlite"), batch.RequestUsage()
    with serve(failures=lambda n, body: "ok" if n < 20 else "401") as server, pytest.raises(Ad2Error, match="HTTP 401"):
        batch.ask(payloads(5000), endpoint(server), cache=cache, tally=tally, progress=False)
    assert server.requests < 20 + 2 * 8
    assert len(cache) == 20
    assert tally.requests >= 21


def test_an_invalid_api_key_is_found_with_few_requests_in_flight() -> None:
    with serve(failures=["401"], cycle=True, latency_s=0.05) as server, pytest.raises(Ad2Error, match="OPENAI_API_KEY"):
        batch.ask(payloads(500), endpoint(server, concurrency=64), progress=False)
    assert server.requests <= 4


def test_with_a_key_that_was_accepted_before_all_requests_start_at_once() -> None:
    with serve(reply=answer) as server:
        batch.ask(payloads(1), endpoint(server, concurrency=8), progress=False)
        server.behaviour.latency_s = 0.5
        batch.ask(payloads(8), endpoint(server, concurrency=8), progress=False)
    assert server.most_in_flight == 8, "with a new key, four start after the reply to another"


def test_refusals_of_all_first_requests_are_an_error() -> None:
    with serve(failures=["400"], cycle=True) as server, pytest.raises(Ad2Error, match="refused each of the first 8"):
        batch.ask(payloads(5000), endpoint(server), progress=False)
    assert server.requests < 24


def test_all_requests_succeed_despite_throttling() -> None:
    """At least one request is throttled; how many more depends on the machine's speed."""
    with serve(reply=answer, failures=["429"], per_second=40, retry_after_s=0.2) as server:
        tally = batch.RequestUsage()
        outcomes = batch.ask(payloads(80), endpoint(server, concurrency=16, max_retries=6), tally=tally, progress=False)
    assert all(isinstance(o, ChatReply) for o in outcomes.values())
    assert server.replies == 80
    assert tally.retries == server.requests - 80 > 0


def test_all_workers_pause_for_retry_after() -> None:
    arrivals: list[float] = []

    def second_is_throttled(number: int, body: dict[str, Any]) -> str:
        arrivals.append(time.monotonic())
        return "429" if number == 1 else "ok"

    with serve(failures=second_is_throttled, retry_after_s=0.4, latency_s=0.01) as server:
        outcomes = batch.ask(payloads(60), endpoint(server, concurrency=2), progress=False)
    assert all(isinstance(o, ChatReply) for o in outcomes.values()) and len(arrivals) == 61
    # Two requests of the other worker may have been in flight; all others came after the pause.
    assert arrivals[4] - arrivals[1] > 0.39


def test_ask_works_within_a_running_event_loop() -> None:
    async def notebook() -> batch.Outcomes:
        return batch.ask(payloads(3), endpoint(server), progress=False)

    with serve(reply=answer) as server:
        assert len(asyncio.run(notebook())) == 3
    with serve(failures=["401"]) as server, pytest.raises(Ad2Error, match="401"):
        asyncio.run(notebook())


def test_replies_without_token_counts_are_counted() -> None:
    tally = batch.RequestUsage()
    with serve(report_usage=False) as server:
        batch.ask(payloads(4), endpoint(server), tally=tally, progress=False)
    assert (tally.unreported, tally.prompt_tokens) == (4, 0)
