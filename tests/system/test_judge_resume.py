"""A judge that is killed loses only the requests in flight, and as many replies that are being stored."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.judging import items, judge_for
from support.running import TESTS
from support.tiers import seeds

from lmms_eval_ad2.judge import JudgeRating
from lmms_eval_ad2.llm.cache import ReplyCache
from lmms_eval_ad2.testing import fake_replies
from lmms_eval_ad2.testing.fake_endpoint import FakeEndpointServer, serve

N, CONCURRENCY = 200, 8
LOST = 2 * CONCURRENCY  # by a kill, at most: requests in flight, and replies that are being stored
CHILD = f"""
import sys
sys.path[:0] = [{str(TESTS)!r}]
from pathlib import Path
from types import SimpleNamespace
from support.judging import items, judge_for
judge = judge_for(SimpleNamespace(url=sys.argv[1]), Path(sys.argv[2]), concurrency={CONCURRENCY})
judge.rate(items({N}), progress=False)
"""


def hang_in_second_half(number: int, body: dict[str, Any]) -> str:
    """However late the kill is, the judge has not finished before."""
    return "hang" if number >= N // 2 else "ok"


def kill_judge(server: FakeEndpointServer, cache: Path, replies: int) -> None:
    """Start the judge, and kill it as soon as the server has sent `replies` replies in all."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, server.url, str(cache)])
    try:
        while server.replies < replies and child.poll() is None:
            time.sleep(0.002)
        os.kill(child.pid, signal.SIGKILL)
    finally:
        child.wait()
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("seed", seeds(40))
def test_a_killed_judge_resumes(tmp_path: Path, record_property: Callable[[str, object], None], seed: int) -> None:
    cache, dice = tmp_path / "judge.sqlite", random.Random(seed)
    kills, target = 1 + seed % 3, 0
    with serve(latency_s=0.05, reply="hash", failures=hang_in_second_half, keep_bodies=True) as server:
        for _ in range(kills):
            target = min(server.replies + dice.randint(1, 50), N // 2 - 3 * CONCURRENCY)
            kill_judge(server, cache, target)
        kept = len(ReplyCache(cache))
        assert target - kills * LOST <= kept <= server.replies <= N // 2
        server.behaviour.failures = ()
        judge = judge_for(server, cache)
        ratings = judge.rate(items(N), progress=False)
        assert judge.usage["requests"] == N - kept
        assert server.requests <= N + kills * LOST, "requests in flight at a kill are sent again"
    assert all(isinstance(r, JudgeRating) for r in ratings)
    counts = Counter(fake_replies.asked(body) for body in server.bodies)
    assert len(counts) == N
    assert max(counts.values()) <= 1 + kills and counts.total() - N <= kills * LOST
    record_property("kills", kills)
    record_property("requests sent again", counts.total() - N)
