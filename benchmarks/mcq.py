"""`ad2 mcq build` against a local endpoint of a fixed latency: questions a second beside what the endpoint allows.

The endpoint answers after LATENCY, IN_FLIGHT at a time: its limit is IN_FLIGHT / LATENCY requests a second, and that
over the requests that a question took is the ideal. On a machine that is shared, timers and sockets are late for
everybody, so the same limit is also measured: a bare aiohttp loop with bodies of the same size, before and after.
Reading pictures, checking replies, the cache and the last questions' empty places all count against us.

    python benchmarks/mcq.py
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

QUESTIONS, LATENCY, IN_FLIGHT = 480, 0.25, 32
BARE = 1000  # requests of a bare loop
BODY = 8_000  # bytes of a bare request: about the mean of the pipeline's
SIZE = (160, 90)  # pixels of a picture: small, since it is not the loopback's copying that is measured


def measure(questions: int = QUESTIONS, latency: float = LATENCY) -> dict[str, float]:
    with _endpoint(latency) as url, tempfile.TemporaryDirectory() as folder:
        bare = asyncio.run(_bare(url))
        seconds, cpu, requests = _ours(url, Path(folder), questions)
        bare = (bare + asyncio.run(_bare(url))) / 2
    ideal = IN_FLIGHT / latency
    return {
        "requests a question": requests / questions,
        "ideal, questions/s": ideal / (requests / questions),
        "ours, questions/s": questions / seconds,
        "ours / ideal": requests / seconds / ideal,
        "bare loop / ideal": bare / ideal,
        "ours / bare loop": requests / seconds / bare,
        "processor time a request, ms": 1000 * cpu / requests,
        "load of this machine's processors": os.getloadavg()[0] / (os.cpu_count() or 1),
    }


def _ours(url: str, folder: Path, questions: int) -> tuple[float, float, int]:
    """Seconds, processor seconds and requests of a build."""
    from lmms_eval_ad2.mcq.base import AcceptedQuestion, Outcome
    from lmms_eval_ad2.mcq.maker_spec import make_maker

    done: list[Outcome] = []
    asked = _questions(folder, questions)
    spec = f"openai:model=fake,base_url={url},concurrency={IN_FLIGHT}"
    maker = make_maker(spec, cache=folder / "replies.sqlite", progress=False)
    started, cpu = time.perf_counter(), time.process_time()
    maker.make(iter(asked), done.append)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    assert sum(isinstance(o, AcceptedQuestion) for o in done) > 0.99 * questions
    return seconds, cpu, maker.account()["requests"]


async def _bare(url: str) -> float:
    """Requests a second of IN_FLIGHT loops that only send and read."""
    import aiohttp

    body = {"model": "fake", "messages": [{"role": "user", "content": "x" * BODY}]}
    left = iter(range(BARE))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=IN_FLIGHT)) as session:

        async def loop() -> None:
            for _ in left:
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    await response.json()

        started = time.perf_counter()
        await asyncio.gather(*(loop() for _ in range(IN_FLIGHT)))
        return BARE / (time.perf_counter() - started)


@contextmanager
def _endpoint(latency: float) -> Iterator[str]:
    command = [sys.executable, "-m", "lmms_eval_ad2.testing.fake_endpoint", "--latency", str(latency), "--reply", "mcq"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.kill()


def _questions(folder: Path, n: int) -> list[Any]:
    from PIL import Image

    from lmms_eval_ad2.mcq.base import OpenQuestion
    from lmms_eval_ad2.records import BilingualText, Record

    Image.linear_gradient("L").resize(SIZE).convert("RGB").save(folder / "front.jpg")
    found = []
    for i in range(n):
        record = Record(
            id=f"q{i}",
            benchmark="drivelm",
            task="perception",
            subtask="surrounding objects",
            form="vqa",
            images=("front.jpg",),
            views=("CAM_FRONT",),
            question=BilingualText(f"What is object {i} ahead of the ego car?"),
            answer=BilingualText("A white van."),
        )
        found.append(OpenQuestion(record.id, record, "drivelm", record.task, record.subtask, "A white van.", folder))
    return found


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:36} {value:10.3f}")
