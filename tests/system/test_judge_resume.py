"""A judge that is killed in the middle loses what was under way and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from support.judging import items, judge_for
from support.running import TESTS

from lmms_eval_ad2.judge import JudgeRating
from lmms_eval_ad2.llm.cache import ReplyCache
from lmms_eval_ad2.testing import fake_replies
from lmms_eval_ad2.testing.fake_endpoint import serve

N, CONCURRENCY = 200, 8
CHILD = f"""
import sys
sys.path[:0] = [{str(TESTS)!r}]
from pathlib import Path
from types import SimpleNamespace
from support.judging import items, judge_for
judge = judge_for(SimpleNamespace(url=sys.argv[1]), Path(sys.argv[2]), concurrency={CONCURRENCY})
judge.rate(items({N}), progress=False)
"""


def before_the_end(number: int, body: dict[str, Any]) -> str:
    """However late the kill is, the judge has not come to its end before."""
    return "hang" if number >= N // 2 else "ok"


def test_kill_9_and_again(tmp_path: Path) -> None:
    cache = tmp_path / "judge.sqlite"
    with serve(latency_s=0.05, reply="hash", failures=before_the_end, keep_bodies=True) as server:
        child = subprocess.Popen([sys.executable, "-c", CHILD, server.url, str(cache)])
        try:
            while server.replies < N // 3 and child.poll() is None:
                time.sleep(0.005)
            os.kill(child.pid, signal.SIGKILL)
        finally:
            child.wait()
        assert child.returncode == -signal.SIGKILL
        kept = len(ReplyCache(cache))
        assert N // 3 - CONCURRENCY <= kept <= server.replies <= N // 2
        server.behaviour.failures = ()
        judge = judge_for(server, cache)
        ratings = judge.rate(items(N), progress=False)
        assert judge.usage["requests"] == N - kept
        assert server.requests <= N + CONCURRENCY, "what was under way when it was killed"
    assert all(isinstance(r, JudgeRating) for r in ratings)
    times = Counter(fake_replies.asked(body) for body in server.bodies)
    assert len(times) == N
    assert max(times.values()) <= 2 and sum(n > 1 for n in times.values()) <= CONCURRENCY
