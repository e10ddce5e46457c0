"""llm/session: cached replies first, equal requests once, bounded in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from support.running import nobody

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.llm.cache import ReplyCache
from lmms_eval_ad2.llm.client import ChatReply, EndpointConfig, RequestFailure
from lmms_eval_ad2.llm.session import EndpointSession, run
from lmms_eval_ad2.testing.fake_endpoint import EndpointBehaviour, FakeEndpointServer, serve

pytestmark = pytest.mark.integration


def payload(i: int) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": f"question {i}"}]}


def answer(body: dict[str, Any]) -> str:
    return "to " + body["messages"][-1]["content"]


def within(
    server: FakeEndpointServer,
    todo: Callable[[EndpointSession], Coroutine[Any, Any, Any]],
    cache: ReplyCache | None = None,
    **settings: Any,
) -> tuple[Any, EndpointSession]:
    """What `todo(session)` gives, and the session."""
    endpoint = EndpointConfig(server.url, **{"backoff_s": 0.001, "max_retries": 1, "concurrency": 4, **settings})
    kept: list[Any] = []

    async def main() -> None:
        async with EndpointSession(endpoint, cache) as session:
            kept.append(await todo(session))
        kept.append(session)

    run(main)
    return kept[0], kept[1]


def test_a_reply_may_depend_on_another_and_the_limit_holds() -> None:
    async def chain(session: EndpointSession, i: int) -> str:
        first = await session.ask(payload(i), key=f"a{i}")
        assert isinstance(first, ChatReply)
        second = await session.ask({"model": "m", "messages": [{"role": "user", "content": first.text}]}, key=f"b{i}")
        assert isinstance(second, ChatReply)
        return second.text

    async def todo(session: EndpointSession) -> list[str]:
        return await asyncio.gather(*(chain(session, i) for i in range(20)))

    with serve(reply=answer, latency_s=0.05) as server:
        texts, session = within(server, todo)
    assert texts == [f"to to question {i}" for i in range(20)]
    assert 2 <= server.most_in_flight <= 4
    assert (session.tally.requests, session.tally.failed) == (40, 0)


def test_equal_requests_in_flight_are_sent_once_and_marked_cached() -> None:
    async def todo(session: EndpointSession) -> list[Any]:
        return await asyncio.gather(*(session.ask(payload(0), key="same") for _ in range(5)))

    with serve(reply=answer, latency_s=0.02) as server:
        replies, session = within(server, todo)
    assert server.requests == 1
    assert [r.cached for r in replies] == [False, True, True, True, True]
    assert (session.tally.requests, session.tally.cached) == (1, 4)


def test_the_cache_answers_first_and_a_refused_reply_is_not_kept(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "c.sqlite")

    async def todo(session: EndpointSession) -> list[Any]:
        return [
            await session.ask(payload(0), key="good"),
            await session.ask(payload(1), key="bad", accept=lambda reply: False),
        ]

    with serve(reply=answer) as server:
        first, _ = within(server, todo, cache)
        again, session = within(server, todo, cache)
    assert first == again and [r.cached for r in again] == [True, False]
    assert len(cache) == 1 and server.requests == 3
    assert (session.tally.cached, session.tally.requests) == (1, 1)


def test_a_kept_reply_that_is_no_longer_accepted_is_asked_again(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "c.sqlite")
    cache.put("k", ChatReply("old"))

    async def todo(session: EndpointSession) -> Any:
        return await session.ask(payload(0), key="k", accept=lambda reply: reply.text != "old")

    with serve(reply="new") as server:
        reply, _ = within(server, todo, cache)
    assert reply.text == "new"
    assert cache.get_many(["k"])["k"].text == "new"


def test_a_dear_payload_is_built_only_when_it_is_sent(tmp_path: Path) -> None:
    cache, built = ReplyCache(tmp_path / "c.sqlite"), []

    async def todo(session: EndpointSession) -> Any:
        return await session.ask(lambda: built.append(1) or payload(0), key="k")

    with serve(reply=answer) as server:
        within(server, todo, cache)
        within(server, todo, cache)
    assert built == [1]


def test_an_endpoint_that_has_gone_is_given_up() -> None:
    async def todo(session: EndpointSession) -> list[Any]:
        return [await session.ask(payload(i), key=str(i)) for i in range(40)]

    with serve(failures=["500"], cycle=True) as server:
        outcomes, session = within(server, todo, max_retries=0)
    assert all(isinstance(o, RequestFailure) for o in outcomes)
    assert session.down is not None and outcomes[-1].reason == "endpoint_down"
    assert server.requests == 16


def test_what_no_request_can_survive_is_raised() -> None:
    async def todo(session: EndpointSession) -> list[Any]:
        return await asyncio.gather(*(session.ask(payload(i), key=str(i)) for i in range(9)))

    with serve(failures=["401"], cycle=True) as server, pytest.raises(Ad2Error, match="HTTP 401"):
        within(server, todo)
    with serve(failures=["400"], cycle=True) as server, pytest.raises(Ad2Error, match="refused each of the first 8"):
        within(server, todo)
    with nobody() as port, pytest.raises(Ad2Error, match="no endpoint answers"):
        within(FakeEndpointServer(EndpointBehaviour(), f"http://127.0.0.1:{port}/v1"), todo)


async def each(session: EndpointSession, numbers: range) -> list[Any]:
    return [await session.ask(payload(i), key=str(i)) for i in numbers]


def test_a_refusal_before_any_success_says_nothing_of_the_item() -> None:
    with serve(reply=answer, failures=["400", "400", "ok", "400"]) as server:
        found, _ = within(server, lambda session: each(session, range(4)))
    assert [getattr(outcome, "refused", None) for outcome in found] == [False, False, None, True]


def test_the_way_out_is_named_where_json_is_asked_for() -> None:
    async def todo(session: EndpointSession) -> None:
        for i in range(20):
            await session.ask({**payload(i), "response_format": {"type": "json_object"}}, key=str(i))

    with serve(failures=["400"], cycle=True) as server, pytest.raises(Ad2Error, match="structured=none"):
        within(server, todo)


def test_an_endpoint_that_comes_to_refuse_everything_is_down() -> None:
    with serve(reply=answer, failures=lambda number, body: "ok" if number < 3 else "400") as server:
        found, session = within(server, lambda session: each(session, range(80)))
    assert session.down is not None and "64 refusals in a row" in session.down.detail
    assert server.requests == 67
    assert [outcome.refused for outcome in found[-13:]] == [False] * 13  # asked again by the next start


def test_refusals_now_and_then_are_the_items_own() -> None:
    with serve(reply=answer, failures=lambda number, body: "ok" if number % 3 == 0 else "400") as server:
        _, session = within(server, lambda session: each(session, range(120)))
    assert session.down is None and server.requests == 120
