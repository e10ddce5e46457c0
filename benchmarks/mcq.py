"""Rate of `ad2 mcq build` at a local endpoint of fixed latency, relative to the limit of that endpoint.

The endpoint answers IN_FLIGHT requests at a time, each after LATENCY: its limit is IN_FLIGHT / LATENCY requests/s. The
ideal rate of questions is this limit divided by the requests per question. On a shared machine timers and sockets are
late for every program, so the limit is also measured with a bare aiohttp loop and bodies of the same size, before and
after the build. Reading images, checking replies, the cache, and idle slots at the end count against the build.

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
BODY = 8_000  # bytes of a bare request, about the mean of the build
SIZE = (160, 90)  # pixels of an image: small, so that copying over loopback does not matter


def measure(questions: int = QUESTIONS, latency: float = LATENCY) -> dict[str, float]:
    with _endpoint(latency) as url, tempfile.TemporaryDirectory() as folder:
        bare = asyncio.run(_bare(url))
        seconds, cpu, requests = build(url, Path(folder), questions)
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


def build(url: str, folder: Path, questions: int) -> tuple[float, float, int]:
    """(wall time in s, processor time in s, requests) of a build."""
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
    """Requests/s of IN_FLIGHT loops that only send and read."""
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
