"""Several servers of one model: balance, death, return, one clear error; every item is answered once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.running import refusing_port

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm import server_balancer, session
from lmms_eval_ad2.llm.client import ChatReply, RequestFailure
from lmms_eval_ad2.llm.http_address import EndpointConfig
from lmms_eval_ad2.llm.session import RequestUsage
from lmms_eval_ad2.testing.fake_endpoint import serve

pytestmark = pytest.mark.integration


def payloads(count: int) -> dict[str, dict[str, Any]]:
    return {f"k{i}": {"model": "m", "messages": [{"role": "user", "content": f"question {i}"}]} for i in range(count)}


def ask(urls: list[str], count: int, **settings: Any) -> tuple[session.Outcomes, RequestUsage]:
    tally = RequestUsage()
    endpoint = EndpointConfig("+".join(urls), **{"backoff_s": 0.001, "concurrency": 4, **settings})
    return session.ask(payloads(count), endpoint, tally=tally, progress=False), tally


def all_replied(outcomes: session.Outcomes, count: int) -> bool:
    return len(outcomes) == count and all(isinstance(o, ChatReply) for o in outcomes.values())


def test_each_server_has_its_own_limit_and_half_of_the_load() -> None:
    with serve(latency_s=0.02) as first, serve(latency_s=0.02) as second:
        outcomes, tally = ask([first.url, second.url], 80)
    assert all_replied(outcomes, 80) and (tally.requests, tally.retries) == (80, 0)
    assert first.requests + second.requests == 80 and 25 <= first.requests <= 55
    assert (first.most_in_flight, second.most_in_flight) == (4, 4)


def test_a_slow_server_gets_fewer_requests() -> None:
    with serve(latency_s=0.2) as slow, serve(latency_s=0.01) as fast:
        outcomes, _ = ask([slow.url, fast.url], 80)
    assert all_replied(outcomes, 80)
    assert slow.requests < 20 < fast.requests and slow.most_in_flight <= 4


def dying(after: int) -> Callable[[int, dict[str, Any]], str]:
    """Connections are cut from request `after` on, as by a killed process."""
    return lambda number, body: "ok" if number < after else "cut"


def test_requests_of_a_server_that_dies_move_without_using_up_their_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_balancer, "_FIRST_PAUSE_S", 3600.0)  # it would answer a probe
    with serve(latency_s=0.01, failures=dying(6)) as mortal, serve(latency_s=0.01) as other:
        outcomes, tally = ask([mortal.url, other.url], 60, max_retries=0)
    assert all_replied(outcomes, 60) and tally.failed == 0
    assert mortal.replies + other.replies == 60  # none was answered twice
    lost = mortal.requests - mortal.replies
    assert lost <= 4 and tally.retries == lost and tally.requests == 60 + lost


def test_a_server_that_does_not_listen_at_the_start_is_left_out() -> None:
    with refusing_port() as port, serve() as server:
        outcomes, tally = ask([f"http://127.0.0.1:{port}/v1", server.url], 20, max_retries=0)
    assert all_replied(outcomes, 20) and (server.requests, tally.retries) == (20, 0)


def test_failures_in_a_row_take_a_server_out_and_a_probe_takes_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_balancer, "_FIRST_PAUSE_S", 0.01)
    with serve(failures=["500"] * 5, latency_s=0.005) as ill, serve(latency_s=0.005) as other:
        outcomes, tally = ask([ill.url, other.url], 200, max_retries=2)
    assert all_replied(outcomes, 200) and ill.replies > 0
    assert ill.replies + other.replies == 200 and tally.retries == ill.requests - ill.replies == 5


def test_a_server_that_dies_is_left_out(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_balancer, "_FIRST_PAUSE_S", 3600.0)  # it would answer a probe
    with serve(failures=dying(0)) as dead, serve(latency_s=0.005) as other:
        outcomes, _ = ask([dead.url, other.url], 100)
    assert all_replied(outcomes, 100) and dead.requests <= 4
    assert [r.getMessage() for r in caplog.records if "left out" in r.getMessage()] == [
        f"{dead.url} is left out (ClosedConnectionError: the server closed the connection); "
        "the other servers get its requests"
    ]


def test_all_servers_dead_ends_as_with_one() -> None:
    with refusing_port() as one, refusing_port() as two, pytest.raises(Ad2Error, match=r"no endpoint answers at .*, "):
        ask([f"http://127.0.0.1:{one}/v1", f"http://127.0.0.1:{two}/v1"], 5)
    with serve(failures=["cut"], cycle=True) as one_cut, serve(failures=["cut"], cycle=True) as two_cut:
        outcomes, _ = ask([one_cut.url, two_cut.url], 60, max_retries=0)
    reasons = [o.reason for o in outcomes.values() if isinstance(o, RequestFailure)]
    assert len(reasons) == 60 and set(reasons) == {"connection", "endpoint_down"}


def test_a_request_that_kills_every_server_is_not_repeated_for_ever() -> None:
    def poison(number: int, body: dict[str, Any]) -> str:
        return "cut" if body["messages"][0]["content"] == "question 3" else "ok"

    with serve(failures=poison, latency_s=0.002) as one, serve(failures=poison, latency_s=0.002) as two:
        outcomes, tally = ask([one.url, two.url], 40, max_retries=2)
    failed = {key: o for key, o in outcomes.items() if isinstance(o, RequestFailure)}
    assert list(failed) == ["k3"] and len(outcomes) == 40
    assert tally.retries <= 3 + 16  # requests that shared a server with it may have moved


def test_a_refused_key_is_an_error_that_names_the_server() -> None:
    with serve() as good, serve(failures=["401"], cycle=True) as strict, pytest.raises(Ad2Error) as caught:
        ask([good.url, strict.url], 40)
    assert str(caught.value).startswith(f"{strict.url} refuses every request: HTTP 401")
    assert good.url not in str(caught.value)


def test_a_throttling_server_pauses_alone() -> None:
    with serve(failures=["429"] * 2, retry_after_s=5.0) as busy, serve(latency_s=0.002) as free:
        outcomes, _ = ask([busy.url, free.url], 40)
    assert all_replied(outcomes, 40) and busy.requests <= 4 + 2 and free.replies >= 34


def test_waiting_requests_get_the_slots_of_a_server_that_is_released_or_taken_back() -> None:
    """The dead server's share of the workers waits for the other server's limit, and nothing is lost."""
    event = threading.Event()

    def hold(number: int, body: dict[str, Any]) -> str:
        event.set()
        return "ok"

    with refusing_port() as port, serve(latency_s=0.01, failures=hold) as server:
        outcomes, _ = ask([server.url, f"http://127.0.0.1:{port}/v1"], 40, concurrency=2)
    assert all_replied(outcomes, 40) and server.most_in_flight == 2 and event.is_set()


def test_a_cancelled_waiter_passes_its_turn_on() -> None:
    from lmms_eval_ad2.llm.request_loop import ConnectionPool
    from lmms_eval_ad2.llm.server_balancer import ServerBalancer

    async def main() -> None:
        pool = ConnectionPool()
        balancer = ServerBalancer(EndpointConfig("http://a/v1+http://b/v1", concurrency=1))
        held = [await balancer.acquire(pool.http) for _ in range(2)]
        assert held[0] is not held[1]
        waiters = [asyncio.create_task(balancer.acquire(pool.http)) for _ in range(2)]
        await asyncio.sleep(0)
        balancer.release(held[0])
        waiters[0].cancel()
        assert await asyncio.wait_for(waiters[1], 5) is held[0]
        await pool.close()

    asyncio.run(main())
