"""Rate of 10,000 judged items at a local endpoint, relative to the ideal rate; a plain thread pool for comparison."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ITEMS, LATENCY, IN_FLIGHT, PLAIN_ITEMS = 10_000, 0.1, 64, 2_000


def measure() -> dict[str, float]:
    from lmms_eval_ad2.judge import make_judge
    from lmms_eval_ad2.judge.base import JudgeItem, JudgeRating

    command = [sys.executable, "-m", "lmms_eval_ad2.testing.fake_endpoint", "--port", "0", "--latency", str(LATENCY),
               "--reply", "Fine. Rating: [[7]]"]  # fmt: skip
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip().split()[-1]
        items = [
            JudgeItem(f"i{i}", "ad2_vqa", f"The car {i} turns left.", "A car turns left.", "What happens?")
            for i in range(ITEMS)
        ]
        with tempfile.TemporaryDirectory() as folder:
            spec = {"backend": "openai", "model": "fake", "base_url": url, "concurrency": IN_FLIGHT}
            judge = make_judge(spec, cache=Path(folder) / "judge.sqlite")
            started = time.perf_counter()
            ratings = judge.rate(items, progress=False)
            ours = ITEMS / (time.perf_counter() - started)
        assert all(isinstance(r, JudgeRating) and r.score == 7 for r in ratings)
        plain = _plain(url)
    finally:
        server.kill()
    ideal = IN_FLIGHT / LATENCY
    return {
        "ideal, items/s": ideal,
        "our judge, items/s": ours,
        "our judge / ideal": ours / ideal,
        "plain thread pool, items/s": plain,
        "plain thread pool / ideal": plain / ideal,
    }


def _plain(url: str) -> float:
    """A typical evaluation script: one blocking client call per sample in a thread pool, without a cache."""
    from openai import OpenAI

    client = OpenAI(base_url=url, api_key="none", max_retries=0)

    def ask(i: int) -> str:
        messages = [{"role": "user", "content": f"Rate the answer: the car {i} turns left."}]
        reply = client.chat.completions.create(model="fake", messages=messages, temperature=0)  # type: ignore[arg-type]
        return reply.choices[0].message.content or ""

    started = time.perf_counter()
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        replies = list(pool.map(ask, range(PLAIN_ITEMS)))
    assert len(replies) == PLAIN_ITEMS
    return PLAIN_ITEMS / (time.perf_counter() - started)
