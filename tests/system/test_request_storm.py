"""Thousands of requests to an endpoint that throttles, fails, hangs, cuts and lies: each has exactly one outcome.

The client is a separate process (this file as a script), so that its memory and its connections can be measured.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web_protocol
from support.tiers import count

from lmms_eval_ad2.llm import session
from lmms_eval_ad2.llm.cache import ReplyCache
from lmms_eval_ad2.llm.client import ChatReply
from lmms_eval_ad2.llm.http_address import EndpointConfig
from lmms_eval_ad2.testing.fake_endpoint import FakeEndpointServer, serve

CONCURRENCY, BATCHES = 32, 10
GROWTH_MIB = 10  # allowed growth of the client after the first tenth of the requests
OTHER_SOCKETS = 4  # of the client's event loop
TEMPORARY = ("429", "500", "503", "408", "cut", "cut_body", "invalid_json", "no_choices", "empty", "html", "html_200")
FINISHED_EARLY = ("truncated", "refusal", "filtered")
REASONS = {
    "throttled", "http_500", "http_502", "http_503", "http_408", "http_400", "connection", "invalid_reply",
    "empty_reply", "timeout",
}  # fmt: skip


def storm(number: int, body: dict[str, Any]) -> str:
    """The outcome of request `number`: a third fails, a thirtieth is refused or incomplete, one of 1,000 hangs."""
    dice = random.Random(number)
    if dice.random() < 1 / 1000:
        return "hang"
    if dice.random() < 1 / 3:
        return dice.choice(TEMPORARY)
    return dice.choice(("400", *FINISHED_EARLY)) if dice.random() < 1 / 30 else "ok"


def answer(body: dict[str, Any]) -> str:
    return "to " + body["messages"][-1]["content"]


def send(url: str, folder: Path, n: int) -> dict[str, Any]:
    """Send `n` requests in batches; returns counts of outcomes, and memory and sockets after each batch."""
    endpoint = EndpointConfig(url, backoff_s=0.001, max_retries=3, concurrency=CONCURRENCY, timeout_s=2.0)
    cache, tally, outcomes = ReplyCache(folder / "replies.sqlite"), session.RequestUsage(), Counter[str]()
    resident_mib, sockets = [], []
    for start in range(0, n, n // BATCHES):
        numbers = range(start, start + n // BATCHES)
        found = session.ask({str(k): question(k) for k in numbers}, endpoint, cache=cache, tally=tally, progress=False)
        assert set(map(int, found)) == set(numbers), "one outcome for each"
        outcomes.update(category(key, outcome) for key, outcome in found.items())
        resident_mib.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20)
        sockets.append(sum(_target(fd).startswith("socket:") for fd in Path("/proc/self/fd").iterdir()))
    return {
        "outcomes": outcomes, "requests": tally.requests, "retries": tally.retries, "cached": len(cache),
        "resident_mib": resident_mib, "sockets": sockets,
    }  # fmt: skip


def question(number: int) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": f"question {number}"}]}


def category(key: str, outcome: Any) -> str:
    """The reason of a failure, or the finish reason of a reply; "wrong" for the reply to another question."""
    if not isinstance(outcome, ChatReply):
        return str(outcome.reason)
    own = outcome.finish_reason != "stop" or outcome.text == f"to question {key}"
    return f"finish {outcome.finish_reason}" if own else "wrong"


def _target(fd: Path) -> str:
    try:
        return str(fd.readlink())
    except OSError:  # of the listing itself
        return ""


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> set[Any]:
    """The open connections of servers in this process."""
    opened: set[Any] = set()
    made, lost = web_protocol.RequestHandler.connection_made, web_protocol.RequestHandler.connection_lost

    def connection_made(self: Any, transport: Any) -> None:
        opened.add(self)
        made(self, transport)

    def connection_lost(self: Any, exc: BaseException | None) -> None:
        opened.discard(self)
        lost(self, exc)

    monkeypatch.setattr(web_protocol.RequestHandler, "connection_made", connection_made)
    monkeypatch.setattr(web_protocol.RequestHandler, "connection_lost", connection_lost)
    return opened


def run_client(server: FakeEndpointServer, folder: Path, n: int) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, __file__, server.url, str(folder), str(n)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr[-3000:]
    return dict(json.loads(done.stdout))


@pytest.mark.soak
def test_each_request_has_one_outcome_and_the_client_keeps_nothing(
    tmp_path: Path, connections: set[Any], record_property: Callable[[str, object], None]
) -> None:
    n = count(40_000)
    with serve(reply=answer, failures=storm, retry_after_s=0.01) as server:
        first = run_client(server, tmp_path, n)
        replies = Counter({name: k for name, k in first["outcomes"].items() if name.startswith("finish")})
        failures = Counter(first["outcomes"]) - replies
        assert replies.total() + failures.total() == n and set(failures) <= REASONS, first
        assert replies["finish stop"] <= server.replies and first["cached"] == replies.total()
        assert n <= server.requests <= first["requests"] and first["requests"] - first["retries"] == n, first
        assert max(first["sockets"]) <= CONCURRENCY + OTHER_SOCKETS, first["sockets"]
        grown = max(first["resident_mib"]) - first["resident_mib"][0]
        assert grown <= GROWTH_MIB, first["resident_mib"]
        server.behaviour.failures = ()
        again = run_client(server, tmp_path, n)
        assert again["requests"] - again["retries"] == failures.total(), "only what failed is requested again"
        end = time.monotonic() + 60
        while connections:
            assert time.monotonic() < end, f"{len(connections)} connections are open after the client ended"
            time.sleep(0.01)
    record_property("questions", n)
    record_property("requests", server.requests)
    record_property("failed after all retries", failures.total())
    record_property("most MiB of growth", round(grown, 1))


if __name__ == "__main__":
    print(json.dumps(send(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
