"""Judge and `ad2 mcq build` at a local endpoint of fixed latency: share of the ideal rate, processor time per request.

    python benchmarks/request_rate.py [--only judge-64,build-64,bare-64] [--json FILE]

The endpoint (fixed_latency_endpoint.py) is a process of its own. It answers any number of requests at a time, each
after its latency, so the ideal rate is (requests in flight) / latency. On a shared machine timers and sockets are late
for every program: `bare` is a loop that only sends and reads. The processor time depends less on other work.

judge   an item is a request
build   17 or 18 requests per question; reading images, checking replies, the cache and idle places at the end included
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from measured_json import in_own_process, run_benchmark

LOADS = {16: 0.2, 64: 0.1, 256: 0.4}  # latency, s, by requests in flight
# Of the ideal rate. The last requests of a build find too few others to fill all places, so it needs more of them.
SECONDS = {"judge": 12.0, "build": 40.0, "bare": 6.0}
REPLIES = {"judge": "Fine. Rating: [[7]]", "build": "mcq", "bare": "Fine."}
REQUESTS_A_QUESTION = 17.3
WARM_UP = 8  # items before the measured ones: imports, first connections
BODY = 8_000  # bytes of a bare request, about the mean of the build
SIZE = (160, 90)  # pixels of an image: small, so that copying over loopback does not matter


def measure(part: str, in_flight: int, scale: float) -> dict[str, float]:
    """In a process of its own, which shares nothing with the endpoint."""
    with _endpoint(part, LOADS[in_flight]) as url:
        found = in_own_process(__file__, "--measure", part, url, in_flight, SECONDS[part] * scale / LOADS[in_flight])
    return {"share": found["per_s"] * LOADS[in_flight] / in_flight, **found}


def judge(url: str, in_flight: int, rounds: float) -> dict[str, float]:
    """rounds: requests of each place."""
    from lmms_eval_ad2.judge import make_judge
    from lmms_eval_ad2.judge.base import JudgeItem

    def items(first: int, count: int) -> list[JudgeItem]:
        numbers = range(first, first + count)
        return [JudgeItem(f"i{i}", "ad2_vqa", f"The car {i} turns left.", "It does.", "What happens?") for i in numbers]

    count = max(1, int(rounds * in_flight))
    with tempfile.TemporaryDirectory() as folder:
        spec = {"backend": "openai", "model": "fake", "base_url": url, "concurrency": in_flight}
        judge = make_judge(spec, cache=Path(folder) / "judge.sqlite")
        judge.rate(items(count, WARM_UP), progress=False)
        started, cpu = time.perf_counter(), time.process_time()
        ratings = judge.rate(items(0, count), progress=False)
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    assert all(getattr(r, "score", None) == 7 for r in ratings)  # a rating that failed has no score
    return {"per_s": count / seconds, "cpu_ms": 1000 * cpu / count}


def build(url: str, in_flight: int, rounds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        _built(url, in_flight, Path(first), 2)
        return _built(url, in_flight, Path(second), max(2, int(rounds * in_flight / REQUESTS_A_QUESTION)))


def _built(url: str, in_flight: int, folder: Path, questions: int) -> dict[str, float]:
    from lmms_eval_ad2.mcq.base import AcceptedQuestion, Outcome
    from lmms_eval_ad2.mcq.makers import make_maker

    done: list[Outcome] = []
    asked = _questions(folder, questions)
    spec = f"openai:model=fake,base_url={url},concurrency={in_flight}"
    maker = make_maker(spec, cache=folder / "replies.sqlite", progress=False)
    started, cpu = time.perf_counter(), time.process_time()
    maker.make(iter(asked), done.append)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    assert sum(isinstance(o, AcceptedQuestion) for o in done) > 0.99 * questions
    requests = maker.account()["requests"]
    return {"per_s": requests / seconds, "cpu_ms": 1000 * cpu / requests, "requests_per_question": requests / questions}


def _questions(folder: Path, n: int) -> list[Any]:
    from PIL import Image

    from lmms_eval_ad2.core.records import BilingualText, Record
    from lmms_eval_ad2.mcq.base import OpenQuestion

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


def bare(url: str, in_flight: int, rounds: float) -> dict[str, float]:
    import aiohttp

    body = {"model": "fake", "messages": [{"role": "user", "content": "x" * BODY}]}
    count = max(1, int(rounds * in_flight))
    left = iter(range(count))

    async def requests() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=in_flight)) as session:

            async def place() -> None:
                for _ in left:
                    async with session.post(f"{url}/chat/completions", json=body) as response:
                        await response.json()

            await asyncio.gather(*(place() for _ in range(in_flight)))

    started, cpu = time.perf_counter(), time.process_time()
    asyncio.run(requests())
    return {"per_s": count / (time.perf_counter() - started), "cpu_ms": 1000 * (time.process_time() - cpu) / count}


MEASURES = {"judge": judge, "build": build, "bare": bare}
PARTS = {f"{part}-{n}": partial(measure, part, n) for part in MEASURES for n in LOADS if part != "bare" or n == 64}


@contextmanager
def _endpoint(part: str, latency: float) -> Iterator[str]:
    """The base URL of an endpoint in a process of its own."""
    script = Path(__file__).with_name("fixed_latency_endpoint.py")
    command = [sys.executable, str(script), "--latency", str(latency), "--reply", REPLIES[part]]
    with Popen(command, stdout=PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.kill()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        part, url, in_flight, rounds = sys.argv[2:]
        print(json.dumps(MEASURES[part](url, int(in_flight), float(rounds))))
    else:
        raise SystemExit(run_benchmark(__doc__, PARTS))
