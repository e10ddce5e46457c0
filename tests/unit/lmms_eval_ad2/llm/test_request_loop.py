"""llm/request_loop: one pool of connections for all requests of a process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web_protocol

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm import request_loop, session
from lmms_eval_ad2.llm.client import ChatReply, RequestFailure
from lmms_eval_ad2.llm.http_address import EndpointConfig
from lmms_eval_ad2.llm.server_balancer import RequestRateLimiter
from lmms_eval_ad2.testing.fake_endpoint import FakeEndpointServer, serve

pytestmark = pytest.mark.integration


def ask(server: FakeEndpointServer, name: str, **settings: Any) -> ChatReply | RequestFailure:
    """One request in its own call, as for a decision in closed loop."""
    payload = {"model": "m", "messages": [{"role": "user", "content": name}]}
    endpoint = EndpointConfig(server.url, **{"max_retries": 0, "backoff_s": 0.001, **settings})
    return session.ask({name: payload}, endpoint, progress=False)[name]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The connections that servers of this process accept."""
    made: list[Any] = []
    original = web_protocol.RequestHandler.connection_made

    def record(self: Any, transport: Any) -> None:
        made.append(transport)
        original(self, transport)

    monkeypatch.setattr(web_protocol.RequestHandler, "connection_made", record)
    return made


def test_calls_share_the_connections_of_each_base_url(opened: list[Any]) -> None:
    with serve(reply="one") as first, serve(reply="two") as second:
        for i in range(10):
            replies = [ask(first, f"a{i}"), ask(second, f"b{i}")]
            assert [r.text for r in replies if isinstance(r, ChatReply)] == ["one", "two"]
    assert len(opened) == 4  # per server: one to check that it listens, one for its ten requests


def test_a_key_is_sent_only_to_its_own_endpoint() -> None:
    with serve(keep_bodies=True) as first, serve(keep_bodies=True) as second:
        ask(first, "a", api_key="sk-one")
        ask(second, "b")
    assert first.headers[0]["Authorization"] == "Bearer sk-one" and "Authorization" not in second.headers[0]


def test_a_connection_that_the_server_closed_is_replaced() -> None:
    with serve(failures=["ok", "cut", "ok"]) as server:
        assert isinstance(ask(server, "a"), ChatReply)
        assert ask(server, "b") == RequestFailure(
            "connection", "ClosedConnectionError: the server closed the connection"
        )
        assert isinstance(ask(server, "c"), ChatReply)


def test_a_server_that_ends_between_two_calls_is_a_failure() -> None:
    with serve() as server:
        assert isinstance(ask(server, "a"), ChatReply)
    failure = ask(server, "b")
    assert isinstance(failure, RequestFailure) and failure.reason == "connection"
    with pytest.raises(Ad2Error, match="no endpoint answers"):
        ask(server, "c")


def test_an_interrupt_cancels_the_requests_and_later_calls_work() -> None:
    with serve(reply="fine", failures=["hang"]) as server:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            ask(server, "a")
        timer.join()
        assert isinstance(ask(server, "b"), ChatReply)


@pytest.mark.parametrize("scheduled", [True, False])
def test_an_interrupt_while_a_call_is_being_scheduled_leaves_no_request(
    monkeypatch: pytest.MonkeyPatch, scheduled: bool
) -> None:
    requests = request_loop._RequestLoop()
    schedule = requests._loop.call_soon_threadsafe
    interrupts = iter([KeyboardInterrupt])

    def interrupted(callback: Callable[[], object]) -> None:
        error = next(interrupts, None)
        if scheduled or error is None:
            schedule(callback)
        if error is not None:
            raise error

    async def main(pool: request_loop.ConnectionPool) -> None:
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(requests._loop, "call_soon_threadsafe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            requests.run(main)
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), requests._loop).result()  # a scheduled task has begun
    assert not asyncio.all_tasks(requests._loop)
    requests.close()


def test_a_process_ends_without_warnings() -> None:
    code = (
        "from lmms_eval_ad2.llm import session; from lmms_eval_ad2.llm.client import EndpointConfig\n"
        "import sys; session.ask({'k': {'messages': []}}, EndpointConfig(sys.argv[1]), progress=False)"
    )
    with serve() as server:
        done = subprocess.run([sys.executable, "-X", "dev", "-c", code, server.url], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def ask_in_threads(server: FakeEndpointServer, number: int, **settings: Any) -> list[Any]:
    """One call in each of `number` threads at once, as of `number` worlds: replies, failures and errors."""
    outcomes: list[Any] = [None] * number

    def call(i: int) -> None:
        try:
            outcomes[i] = ask(server, f"q{i}", **settings)
        except Ad2Error as exc:
            outcomes[i] = exc

    threads = [threading.Thread(target=call, args=(i,)) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_calls_at_the_same_time_share_the_limit_of_requests_in_flight() -> None:
    with serve(reply="one", latency_s=0.02) as server:
        outcomes = ask_in_threads(server, 12, concurrency=3)
        assert all(isinstance(outcome, ChatReply) for outcome in outcomes)
        assert server.most_in_flight <= 3


def test_a_key_that_is_refused_is_sent_by_few_of_many_calls() -> None:
    with serve(failures=lambda number, body: "401", latency_s=1.0) as server:
        outcomes = ask_in_threads(server, 12)
        assert all(isinstance(outcome, Ad2Error) for outcome in outcomes)
        assert server.requests <= 4


def test_a_later_call_asks_again_after_a_refusal() -> None:
    with serve(reply="one", failures=["401"]) as server:
        with pytest.raises(Ad2Error):
            ask(server, "first")
        assert isinstance(ask(server, "second"), ChatReply)


def test_the_limit_per_minute_holds_over_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    limiters: list[object] = []
    original = RequestRateLimiter.wait

    async def note(self: RequestRateLimiter) -> None:
        limiters.append(self)
        await original(self)

    monkeypatch.setattr(RequestRateLimiter, "wait", note)
    with serve(reply="one") as server:
        for name in ("a", "b"):
            ask(server, name, rpm=60_000)
        ask(server, "c", rpm=30_000)
    assert limiters[0] is limiters[1] and limiters[0] is not limiters[2]
