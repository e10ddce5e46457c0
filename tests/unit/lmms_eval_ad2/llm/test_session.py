"""llm/session: cached replies first, equal requests once, bounded in flight."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from support.running import refusing_port

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm.cache import ReplyCache
from lmms_eval_ad2.llm.client import ChatReply, RequestFailure
from lmms_eval_ad2.llm.http_address import EndpointConfig
from lmms_eval_ad2.llm.request_loop import run
from lmms_eval_ad2.llm.session import EndpointSession, Outcomes, RequestUsage, ask
from lmms_eval_ad2.testing.fake_endpoint import EndpointBehaviour, FakeEndpointServer, serve


def payloads(n: int) -> dict[str, dict[str, Any]]:
    return {f"k{i}": {"model": "m", "messages": [{"role": "user", "content": f"question {i}"}]} for i in range(n)}


def endpoint(server: FakeEndpointServer, **settings: Any) -> EndpointConfig:
    return EndpointConfig(server.url, **{"backoff_s": 0.001, "max_retries": 1, "concurrency": 8, **settings})


def test_every_question_gets_its_own_reply_within_the_concurrency_limit() -> None:
    with serve(reply=answer, latency_s=0.05) as server:
        outcomes = ask(payloads(60), endpoint(server), progress=False)
    assert {k: r.text for k, r in outcomes.items() if isinstance(r, ChatReply)} == {
        f"k{i}": f"to question {i}" for i in range(60)
    }
    assert server.requests == 60
    assert 2 <= server.most_in_flight <= 8


def test_cached_replies_are_reused_and_only_accepted_ones_are_stored(tmp_path: Path) -> None:
    cache, tally = ReplyCache(tmp_path / "c.sqlite"), RequestUsage()
    with serve(reply=answer, failures=["400"]) as server:
        ask(payloads(10), endpoint(server), cache=cache, keep=lambda k, r: k != "k5", progress=False)
        assert len(cache) == 8  # not the refused one, not k5
        outcomes = ask(payloads(10), endpoint(server), cache=cache, tally=tally, progress=False)
    assert server.requests == 12
    assert (tally.cached, tally.requests, tally.failed) == (8, 2, 0)
    assert len(outcomes) == 10


def test_single_failures_do_not_stop_the_requests() -> None:
    with serve(failures=["500", "500", "ok"], cycle=True) as server:
        outcomes = ask(payloads(120), endpoint(server, max_retries=0, concurrency=1), progress=False)
    reasons = {o.reason for o in outcomes.values() if isinstance(o, RequestFailure)}
    assert reasons == {"http_500"}
    assert server.requests == 120


def test_an_invalid_api_key_stops_the_run_after_saving_received_replies(tmp_path: Path) -> None:
    cache, tally = ReplyCache(tmp_path / "c.sqlite"), RequestUsage()
    with serve(failures=lambda n, body: "ok" if n < 20 else "401") as server, pytest.raises(Ad2Error, match="HTTP 401"):
        ask(payloads(5000), endpoint(server), cache=cache, tally=tally, progress=False)
    assert server.requests < 20 + 2 * 8
    assert len(cache) == 20
    assert tally.requests >= 21


def test_an_invalid_api_key_is_found_with_few_requests_in_flight() -> None:
    with serve(failures=["401"], cycle=True, latency_s=0.05) as server, pytest.raises(Ad2Error, match="OPENAI_API_KEY"):
        ask(payloads(500), endpoint(server, concurrency=64), progress=False)
    assert server.requests <= 4


def test_with_a_key_that_was_accepted_before_all_requests_start_at_once() -> None:
    with serve(reply=answer) as server:
        ask(payloads(1), endpoint(server, concurrency=8), progress=False)
        server.behaviour.latency_s = 0.5
        ask(payloads(8), endpoint(server, concurrency=8), progress=False)
    assert server.most_in_flight == 8, "with a new key, four start after the reply to another"


def test_all_requests_succeed_despite_throttling() -> None:
    """At least one request is throttled; how many more depends on the machine's speed."""
    with serve(reply=answer, failures=["429"], per_second=40, retry_after_s=0.2) as server:
        tally = RequestUsage()
        outcomes = ask(payloads(80), endpoint(server, concurrency=16, max_retries=6), tally=tally, progress=False)
    assert all(isinstance(o, ChatReply) for o in outcomes.values())
    assert server.replies == 80
    assert tally.retries == server.requests - 80 > 0


def test_all_workers_pause_for_retry_after() -> None:
    arrivals: list[float] = []

    def second_is_throttled(number: int, body: dict[str, Any]) -> str:
        arrivals.append(time.monotonic())
        return "429" if number == 1 else "ok"

    with serve(failures=second_is_throttled, retry_after_s=0.4, latency_s=0.01) as server:
        outcomes = ask(payloads(60), endpoint(server, concurrency=2), progress=False)
    assert all(isinstance(o, ChatReply) for o in outcomes.values()) and len(arrivals) == 61
    # Two requests of the other worker may have been in flight; all others came after the pause.
    assert arrivals[4] - arrivals[1] > 0.39


def test_ask_works_within_a_running_event_loop() -> None:
    async def notebook() -> Outcomes:
        return ask(payloads(3), endpoint(server), progress=False)

    with serve(reply=answer) as server:
        assert len(asyncio.run(notebook())) == 3
    with serve(failures=["401"]) as server, pytest.raises(Ad2Error, match="401"):
        asyncio.run(notebook())


def test_replies_without_token_counts_are_counted() -> None:
    tally = RequestUsage()
    with serve(report_usage=False) as server:
        ask(payloads(4), endpoint(server), tally=tally, progress=False)
    assert (tally.unreported, tally.prompt_tokens) == (4, 0)


pytestmark = pytest.mark.integration


def payload(i: int) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": f"question {i}"}]}


def answer(body: dict[str, Any]) -> str:
    return "to " + body["messages"][-1]["content"]


def run_in_session(
    server: FakeEndpointServer,
    todo: Callable[[EndpointSession], Coroutine[Any, Any, Any]],
    cache: ReplyCache | None = None,
    **settings: Any,
) -> tuple[Any, EndpointSession]:
    """The result of `todo(session)`, and the session."""
    endpoint = EndpointConfig(server.url, **{"backoff_s": 0.001, "max_retries": 1, "concurrency": 4, **settings})
    results: list[Any] = []

    async def main() -> None:
        async with EndpointSession(endpoint, cache) as session:
            results.append(await todo(session))
        results.append(session)

    run(lambda pool: main())
    return results[0], results[1]


def test_dependent_requests_stay_within_the_concurrency_limit() -> None:
    async def chain(session: EndpointSession, i: int) -> str:
        first = await session.ask(payload(i), key=f"a{i}")
        assert isinstance(first, ChatReply)
        second = await session.ask({"model": "m", "messages": [{"role": "user", "content": first.text}]}, key=f"b{i}")
        assert isinstance(second, ChatReply)
        return second.text

    async def todo(session: EndpointSession) -> list[str]:
        return await asyncio.gather(*(chain(session, i) for i in range(20)))

    with serve(reply=answer, latency_s=0.05) as server:
        texts, session = run_in_session(server, todo)
    assert texts == [f"to to question {i}" for i in range(20)]
    assert 2 <= server.most_in_flight <= 4
    assert (session.tally.requests, session.tally.failed) == (40, 0)


def test_equal_requests_in_flight_are_sent_once_and_marked_cached() -> None:
    async def todo(session: EndpointSession) -> list[Any]:
        return await asyncio.gather(*(session.ask(payload(0), key="same") for _ in range(5)))

    with serve(reply=answer, latency_s=0.02) as server:
        replies, session = run_in_session(server, todo)
    assert server.requests == 1
    assert [r.cached for r in replies] == [False, True, True, True, True]
    assert (session.tally.requests, session.tally.cached) == (1, 4)


def test_cached_replies_are_reused_and_rejected_ones_are_not_stored(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "c.sqlite")

    async def todo(session: EndpointSession) -> list[Any]:
        return [
            await session.ask(payload(0), key="good"),
            await session.ask(payload(1), key="bad", accept=lambda reply: False),
        ]

    with serve(reply=answer) as server:
        first, _ = run_in_session(server, todo, cache)
        again, session = run_in_session(server, todo, cache)
    assert first == again and [r.cached for r in again] == [True, False]
    assert len(cache) == 1 and server.requests == 3
    assert (session.tally.cached, session.tally.requests) == (1, 1)


def test_a_cached_reply_that_is_no_longer_accepted_is_requested_again(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "c.sqlite")
    cache.put("k", ChatReply("old"))

    async def todo(session: EndpointSession) -> Any:
        return await session.ask(payload(0), key="k", accept=lambda reply: reply.text != "old")

    with serve(reply="new") as server:
        reply, _ = run_in_session(server, todo, cache)
    assert reply.text == "new"
    assert cache.get_many(["k"])["k"].text == "new"


def test_a_payload_is_built_only_when_it_is_sent(tmp_path: Path) -> None:
    cache, built = ReplyCache(tmp_path / "c.sqlite"), []

    async def todo(session: EndpointSession) -> Any:
        return await session.ask(lambda: built.append(1) or payload(0), key="k")

    with serve(reply=answer) as server:
        run_in_session(server, todo, cache)
        run_in_session(server, todo, cache)
    assert built == [1]


def test_requests_stop_when_the_endpoint_is_down() -> None:
    async def todo(session: EndpointSession) -> list[Any]:
        return [await session.ask(payload(i), key=str(i)) for i in range(40)]

    with serve(failures=["500"], cycle=True) as server:
        outcomes, session = run_in_session(server, todo, max_retries=0)
    assert all(isinstance(o, RequestFailure) for o in outcomes)
    assert session.down is not None and outcomes[-1].reason == "endpoint_down"
    assert server.requests == 16


def test_errors_that_concern_all_requests_are_raised() -> None:
    async def todo(session: EndpointSession) -> list[Any]:
        return await asyncio.gather(*(session.ask(payload(i), key=str(i)) for i in range(9)))

    with serve(failures=["401"], cycle=True) as server, pytest.raises(Ad2Error, match="HTTP 401"):
        run_in_session(server, todo)
    with serve(failures=["400"], cycle=True) as server, pytest.raises(Ad2Error, match="refused each of the first 8"):
        run_in_session(server, todo)
    with refusing_port() as port, pytest.raises(Ad2Error, match="no endpoint answers"):
        run_in_session(FakeEndpointServer(EndpointBehaviour(), f"http://127.0.0.1:{port}/v1"), todo)


async def each(session: EndpointSession, numbers: range) -> list[Any]:
    return [await session.ask(payload(i), key=str(i)) for i in numbers]


def test_a_refusal_before_any_success_is_not_attributed_to_the_request() -> None:
    with serve(reply=answer, failures=["400", "400", "ok", "400"]) as server:
        found, _ = run_in_session(server, lambda session: each(session, range(4)))
    assert [getattr(outcome, "refused", None) for outcome in found] == [False, False, None, True]


def test_the_error_for_refused_json_requests_suggests_structured_none() -> None:
    async def todo(session: EndpointSession) -> None:
        for i in range(20):
            await session.ask({**payload(i), "response_format": {"type": "json_object"}}, key=str(i))

    with serve(failures=["400"], cycle=True) as server, pytest.raises(Ad2Error, match="structured=none"):
        run_in_session(server, todo)


def test_an_endpoint_that_starts_to_refuse_everything_is_down() -> None:
    with serve(reply=answer, failures=lambda number, body: "ok" if number < 3 else "400") as server:
        found, session = run_in_session(server, lambda session: each(session, range(80)))
    assert session.down is not None and "64 refusals in a row" in session.down.detail
    assert server.requests == 67
    assert [outcome.refused for outcome in found[-13:]] == [False] * 13  # requested again by the next run


def test_occasional_refusals_are_attributed_to_their_requests() -> None:
    with serve(reply=answer, failures=lambda number, body: "ok" if number % 3 == 0 else "400") as server:
        _, session = run_in_session(server, lambda session: each(session, range(120)))
    assert session.down is None and server.requests == 120
