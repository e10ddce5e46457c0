"""harness/several_servers: the openai clients of lmms-eval's wrappers over several servers."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.running import refusing_port

from lmms_eval_ad2.harness.several_servers import server_of, spread_over_servers
from lmms_eval_ad2.llm import server_balancer
from lmms_eval_ad2.testing.fake_endpoint import serve

pytestmark = pytest.mark.integration
openai = pytest.importorskip("openai")


def question(i: int) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": f"question {i}"}]}


def client(*urls: str, cls: Any = openai.OpenAI, **options: Any) -> Any:
    made = cls(base_url="+".join(urls), api_key="sk-test-key", **{"max_retries": 0, **options})
    assert len(spread_over_servers(made)) == len(spread_over_servers(made)) == len(urls)
    return made


def test_a_client_with_one_address_stays_as_it_is() -> None:
    one = openai.OpenAI(base_url="http://127.0.0.1:1/v1", api_key="x")
    assert spread_over_servers(one) == [one] and "create" not in vars(one.chat.completions)
    assert spread_over_servers(None) == [None]


def test_requests_of_threads_go_to_the_least_loaded_server() -> None:
    with serve(latency_s=0.02) as first, serve(latency_s=0.02) as second:
        spread = client(first.url, second.url)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda i: spread.chat.completions.create(**question(i)), range(24)))
    assert first.requests + second.requests == 24
    assert 8 <= first.requests <= 16
    assert first.most_in_flight <= 3 and second.most_in_flight <= 3


def test_a_dead_server_costs_no_request() -> None:
    with refusing_port() as port, serve(reply="fine") as server:
        spread = client(f"http://127.0.0.1:{port}/v1", server.url)
        replies = [spread.chat.completions.create(**question(i)) for i in range(6)]
    assert [r.choices[0].message.content for r in replies] == ["fine"] * 6
    assert server.requests == 6


def test_a_dead_server_costs_no_request_of_the_asynchronous_client() -> None:
    async def ask(*urls: str) -> list[Any]:
        async with client(*urls, cls=openai.AsyncOpenAI) as spread:
            return await asyncio.gather(*(spread.chat.completions.create(**question(i)) for i in range(6)))

    with refusing_port() as port, serve(reply="fine") as server:
        replies = asyncio.run(ask(server.url, f"http://127.0.0.1:{port}/v1"))
    assert len(replies) == server.requests == 6


def test_a_server_that_came_back_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_balancer, "_FIRST_PAUSE_S", 0.0)
    failing = ["500"] * 3
    with serve(failures=failing) as first, serve() as second:
        spread = client(first.url, second.url)
        for i in range(60):
            try:
                spread.chat.completions.create(**question(i))
            except openai.InternalServerError:
                assert first.requests < 3  # the wrapper repeats those
    assert first.replies > 0 and first.requests == first.replies + 3
    assert first.replies + second.replies == 58


def test_without_any_server_the_error_is_the_clients() -> None:
    with refusing_port() as one, refusing_port() as two:
        spread = client(f"http://127.0.0.1:{one}/v1", f"http://127.0.0.1:{two}/v1")
        with pytest.raises(openai.APIConnectionError):
            spread.chat.completions.create(**question(0))


def test_the_server_that_refuses_the_key_is_named() -> None:
    with serve() as first, serve(failures=["401"], cycle=True) as second:
        spread = client(first.url, second.url)
        with pytest.raises(openai.AuthenticationError) as caught:
            for i in range(3):
                spread.chat.completions.create(**question(i))
    assert server_of(caught.value) == second.url
    assert server_of(ValueError("x")) == ""


def test_a_probe_that_the_end_of_its_event_loop_cancels_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_balancer, "_FIRST_PAUSE_S", 0.0)

    async def ask_once(spread: Any) -> None:
        await spread.chat.completions.create(**question(0))

    with refusing_port() as port, serve(reply="fine") as server:
        spread = client(server.url, f"http://127.0.0.1:{port}/v1", cls=openai.AsyncOpenAI)
        choice = spread.chat.completions.create.__self__
        dead = choice.servers[1]
        choice._choice.note_failure(dead, "gone", gone=True)
        asyncio.run(ask_once(spread))  # starts a probe, and ends before its reply or with it
        assert dead.out and not dead.probing
