"""llm/client: backoff, Retry-After, rate limit."""

from __future__ import annotations

import asyncio
import email.utils
import time

import pytest

from lmms_eval_ad2.llm.client import LONGEST_BACKOFF_S, RetryBackoff, retry_after
from lmms_eval_ad2.llm.server_balancer import RequestRateLimiter


def test_backoff_doubles_with_jitter_up_to_a_limit() -> None:
    delays = [RetryBackoff(0.5, seed=3).delay(n) for n in range(4)]
    for n, delay in enumerate(delays):
        assert 0.25 * 2**n <= delay <= 0.5 * 2**n
    assert RetryBackoff(0.5).delay(1000) <= LONGEST_BACKOFF_S
    one, two = RetryBackoff(0.5, seed=3), RetryBackoff(0.5, seed=3)
    assert [one.delay(0) for _ in range(5)] == [two.delay(0) for _ in range(5)]
    assert len({one.delay(0) for _ in range(5)}) == 5


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "-4"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_as_a_date() -> None:
    found = retry_after({"retry-after": email.utils.formatdate(time.time() + 100, usegmt=True)})
    assert found is not None and 40 < found <= 100  # a minute of slack for a slow machine


def test_the_limiter_spaces_requests_and_pauses() -> None:
    async def starts(limiter: RequestRateLimiter, n: int) -> list[float]:
        clock = asyncio.get_running_loop().time
        start_s = clock()

        async def one() -> float:
            await limiter.wait()
            return clock() - start_s

        return sorted(await asyncio.gather(*(one() for _ in range(n))))

    async def paced() -> list[float]:
        return await starts(RequestRateLimiter(per_minute=6000), 6)  # one each 10 ms

    assert all(at >= 0.0099 * n for n, at in enumerate(asyncio.run(paced())))

    async def paused() -> list[float]:
        limiter = RequestRateLimiter()
        limiter.pause(0.05)
        return await starts(limiter, 3)

    assert min(asyncio.run(paused())) >= 0.049
