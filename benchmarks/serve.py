"""Request rate of `ad2 serve` with a model that takes 100 ms per batch of up to 8, and the overhead of a request.

    python benchmarks/serve.py [--json FILE]

The server runs in a separate process, as in production. Each of 32 clients sends its next question when it has received
the last answer. "ideal" is 8 answers per 100 ms. The image is a front camera's at 1600 x 900, as JPEG.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import aiohttp
import numpy as np
from measured_json import run_benchmark, scaled
from PIL import Image

from closedloop_plugin.driver.agents.endpoint import EndpointModel
from closedloop_plugin.driver.agents.model_backend import ModelQuestion, ModelReply
from closedloop_plugin.interfaces.serve.batching import RequestBatcher
from closedloop_plugin.interfaces.serve.http_api import ChatHttpApi, RequestLimits
from closedloop_plugin.interfaces.serve.server import listening
from closedloop_plugin.interfaces.serve.services import ModelService

BATCH, LATENCY_S, IN_FLIGHT, SECONDS, LONE = 8, 0.1, 32, 8.0, 40


TEXT = ModelQuestion("0", "What should the car do?")


class SleepingModel:
    """Answers any batch after 100 ms."""

    name = "slow"

    def ask(self, questions: Sequence[ModelQuestion]) -> list[ModelReply]:
        time.sleep(LATENCY_S)
        return [ModelReply("Keep going straight.")] * len(questions)

    def describe(self) -> dict[str, Any]:
        return {"model": self.name}


def words(scale: float) -> dict[str, float]:
    return _measure(scale, BATCH, TEXT)


def picture(scale: float) -> dict[str, float]:
    return _measure(scale, BATCH, replace(TEXT, images=(_picture(),)))


def without_batches(scale: float) -> dict[str, float]:
    return _measure(scale, 1, TEXT)


def _measure(scale: float, batch: int, question: ModelQuestion) -> dict[str, float]:
    """Answers of 32 clients at a time, and the time of lone requests beyond the model's own."""
    with _Server(batch) as url:
        rate = asyncio.run(_clients(url, _body(question), SECONDS * scale))
        lone = _served_each(url, _body(question), scaled(LONE, scale))
    direct = _each(SleepingModel(), TEXT, scaled(LONE, scale))
    return {"requests_per_s": rate, "share": rate * LATENCY_S / BATCH, "lone_ms_beyond_model": 1000 * (lone - direct)}


def _picture() -> np.ndarray:
    """1600 x 900 pixels of noise at a scale of 16 pixels, about as detailed as a street: some 100 KB of JPEG."""
    noise = np.random.default_rng(0).integers(0, 256, (57, 100, 3), np.uint8)
    return np.asarray(Image.fromarray(noise).resize((1600, 900), Image.Resampling.BICUBIC))


async def _clients(url: str, body: bytes, seconds: float) -> float:
    """Answers/s of 32 clients."""
    headers = {"Content-Type": "application/json"}
    until = time.perf_counter() + seconds
    answers = 0

    async def client(session: aiohttp.ClientSession) -> None:
        nonlocal answers
        while time.perf_counter() < until:
            async with session.post(f"{url}/chat/completions", data=body, headers=headers) as reply:
                assert reply.status == 200, await reply.text()
                await reply.read()
            answers += 1

    started = time.perf_counter()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(client(session) for _ in range(IN_FLIGHT)))
    return answers / (time.perf_counter() - started)


def _served_each(url: str, body: bytes, count: int) -> float:
    """Median time of sequential requests, s, without the encoding of the image by the client."""
    spent = []
    for _ in range(count):
        request = urllib.request.Request(f"{url}/chat/completions", body, {"Content-Type": "application/json"})
        started = time.perf_counter()
        with urllib.request.urlopen(request) as reply:
            reply.read()
        spent.append(time.perf_counter() - started)
    return statistics.median(spent)


def _each(model: SleepingModel, question: ModelQuestion, count: int) -> float:
    spent = []
    for _ in range(count):
        started = time.perf_counter()
        model.ask([question])
        spent.append(time.perf_counter() - started)
    return statistics.median(spent)


def _body(question: ModelQuestion) -> bytes:
    """The request body as EndpointModel sends it."""
    model = EndpointModel.from_spec("slow@http://127.0.0.1:1/v1")
    payload = model._payload(question, [model.encoding.data_url(np.asarray(image)) for image in question.images])
    return json.dumps({"model": "slow", "messages": payload["messages"]}).encode()


class _Server:
    """The server in a separate process; the context manager returns its base URL."""

    def __init__(self, batch: int) -> None:
        command = [sys.executable, __file__, "--serve", str(batch)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)

    def __enter__(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def __exit__(self, *exc: object) -> None:
        self.process.communicate("", timeout=30)


def _serve(batch: int) -> None:
    """Serve until the end of standard input."""
    api = ChatHttpApi(RequestBatcher(batch), RequestLimits())
    api.open([ModelService(SleepingModel())], None, "slow")
    with listening(api, "127.0.0.1", 0) as url:
        threading.Thread(target=_close_at_end, args=[api.batcher], daemon=True).start()
        print(url, flush=True)
        api.batcher.work()


def _close_at_end(batcher: RequestBatcher) -> None:
    sys.stdin.read()
    batcher.close()


PARTS = {"words": words, "picture": picture, "words-without-batches": without_batches}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        _serve(int(sys.argv[2]))
    else:
        raise SystemExit(run_benchmark(__doc__, PARTS))
