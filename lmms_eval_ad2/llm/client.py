"""An async client of one OpenAI-compatible endpoint: POST {base_url}/chat/completions.

`ChatClient.complete` gives a Reply or a Failure; what may pass (throttling, 5xx, time-outs, cut
connections, nonsense instead of JSON, an empty text) is tried again a bounded number of times.
What concerns every request alike (a wrong key, an unknown model, no credit) raises Ad2Error.

aiohttp rather than httpx: with 64 requests in flight httpx 0.28 took 9.7 ms of processor time a request,
aiohttp 0.2 ms, so that httpx reaches 0.15 of the rate that a latency of 100 ms allows (docs/judge.md).
"""

from __future__ import annotations

import asyncio
import email.utils
import random
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.llm.completion import (
    DETAIL,
    LONGEST_BODY,
    ChatReply,
    NoCompletion,
    printable,
    read_completion,
    read_error,
)
from lmms_eval_ad2.llm.request_body import encoded

__all__ = ["ChatClient", "ChatReply", "EndpointConfig", "RequestFailure"]

# A throttled request was never looked at, so it gets more patience than a failed one.
THROTTLE_FACTOR = 4
_CHUNK = 2**16
_REACH_TRIES, _REACH_TIMEOUT_S = 3, 5.0


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """Where and how to ask. `rpm` is requests a minute; `max_retries` counts repeats of one request."""

    base_url: str
    api_key: str = field(default="", repr=False)
    timeout_s: float = 60.0
    max_retries: int = 6
    concurrency: int = 64
    rpm: float | None = None
    backoff_s: float = 0.5
    seed: int = 0


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """No completion. `reason` is a short stable code; `refused` where the request itself was turned down (HTTP 4xx)."""

    reason: str
    detail: str = ""
    refused: bool = False


class _RetryableError(Exception):
    """This attempt failed in a way that may pass."""

    def __init__(self, reason: str, detail: str = "", wait_s: float | None = None, throttled: bool = False) -> None:
        super().__init__(reason)
        self.failure = RequestFailure(reason, detail)
        self.wait_s, self.throttled = wait_s, throttled


class ChatClient:
    """`async with ChatClient(endpoint) as client: await client.complete(payload)`. Counts requests and retries."""

    def __init__(self, endpoint: EndpointConfig) -> None:
        self.endpoint = endpoint
        self.requests = 0
        self.retries = 0
        self._url = endpoint.base_url.rstrip("/") + "/chat/completions"
        self._proxy = _proxy(self._url)
        self._backoff = RetryBackoff(endpoint.backoff_s, endpoint.seed)
        self._session: aiohttp.ClientSession | None = None
        self._pace = RequestRateLimiter(endpoint.rpm)

    async def __aenter__(self) -> ChatClient:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.endpoint.api_key:
            headers["Authorization"] = f"Bearer {self.endpoint.api_key}"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.endpoint.concurrency, ttl_dns_cache=300),
            timeout=aiohttp.ClientTimeout(total=self.endpoint.timeout_s),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def reach(self) -> None:
        """Raise Ad2Error where nobody listens at the address: better at once than after every item's retries."""
        if self._proxy:
            return
        parts = urlsplit(self._url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        for attempt in range(_REACH_TRIES):
            try:
                _, writer = await asyncio.wait_for(asyncio.open_connection(parts.hostname, port), _REACH_TIMEOUT_S)
                writer.close()
                return
            except (OSError, TimeoutError) as exc:
                failure = exc
                if attempt + 1 < _REACH_TRIES:
                    await asyncio.sleep(0.2 * 4**attempt)
        raise Ad2Error(
            f"no endpoint answers at {self.endpoint.base_url} ({failure}); start it or correct base_url, then run the "
            "same command again: what came before is kept"
        )

    async def complete(self, payload: Mapping[str, Any]) -> ChatReply | RequestFailure:
        """One completion of `payload` (the JSON body). Raises Ad2Error where no request can succeed."""
        body = encoded(payload)
        failed = throttled = 0
        while True:
            await self._pace.wait()
            self.requests += 1
            try:
                return await self._attempt(body)
            except _RetryableError as again:
                throttled, failed = throttled + again.throttled, failed + (not again.throttled)
                limit = self.endpoint.max_retries
                if failed > limit or throttled > limit * THROTTLE_FACTOR:
                    return again.failure
                await self._wait(again, failed + throttled - 1)
            self.retries += 1

    async def _wait(self, again: _RetryableError, attempt: int) -> None:
        delay = self._backoff.delay(attempt)
        if again.throttled:
            # All workers hold still; each then starts at a moment of its own, not all at once.
            quiet = min(again.wait_s if again.wait_s is not None else delay, LONGEST_RETRY_AFTER_S)
            self._pace.quiet(quiet)
            delay = quiet + self._backoff.delay(0)
        await asyncio.sleep(delay)

    async def _attempt(self, body: bytes) -> ChatReply | RequestFailure:
        assert self._session is not None, "use the client in 'async with'"
        try:
            async with self._session.post(self._url, data=body, proxy=self._proxy, allow_redirects=False) as response:
                raw, status, headers = await _bounded(response), response.status, response.headers
        except TimeoutError as exc:
            raise _RetryableError("timeout", f"no reply within {self.endpoint.timeout_s:g} s") from exc
        except aiohttp.InvalidURL as exc:
            raise Ad2Error(f"base_url {self.endpoint.base_url!r} is not a URL") from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise _RetryableError("connection", self._clean(f"{type(exc).__name__}: {exc}")) from exc
        if 200 <= status < 300:
            try:
                return read_completion(raw)
            except NoCompletion as exc:
                raise _RetryableError(exc.reason, self._clean(exc.detail)) from exc
        return self._turned_down(status, headers, raw)

    def _turned_down(self, status: int, headers: Mapping[str, str], raw: bytes) -> RequestFailure:
        code, message = read_error(raw)
        text = self._clean(f"HTTP {status}: {message}")
        if status < 400 or status in _FOR_ALL or code in _FOR_ALL_CODES:
            raise Ad2Error(f"{self.endpoint.base_url} refuses every request: {text}. {_hint(status)}".rstrip())
        if status == 429:
            raise _RetryableError("throttled", text, retry_after(headers), throttled=True)
        if status == 503 and (wait := retry_after(headers)) is not None:
            raise _RetryableError("http_503", text, wait, throttled=True)
        if status >= 500 or status in (408, 409, 425):
            raise _RetryableError(f"http_{status}", text)
        return RequestFailure(f"http_{status}", text, refused=True)

    def _clean(self, text: str) -> str:
        """`text` on one line, short, and without the key, which some servers repeat in their messages."""
        key = self.endpoint.api_key
        return printable(text.replace(key, "***") if key else text)[:DETAIL]


# Not the request is at fault, but the key, the account or the address: none after it will fare better.
_FOR_ALL = (401, 402, 403, 404, 405)
_FOR_ALL_CODES = ("insufficient_quota", "billing_hard_limit_reached", "model_not_found")
_HINTS = {
    401: "Is the key in the environment right? (OPENAI_API_KEY, or the variable named by api_key_env)",
    402: "The account has no credit left",
    403: "The key has no right to this model or endpoint",
    404: "Check the model's name, and that base_url ends as the server's does (often in /v1)",
    405: "Check base_url: something else than a chat endpoint answers there",
    429: "The account has no credit left",
}


def _hint(status: int) -> str:
    if status < 400:
        return "It points elsewhere, and requests with a key are not sent on: correct base_url"
    return _HINTS.get(status, "")


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    """The body; _Again where it is longer than any completion, before it has filled the memory."""
    parts, size = [], 0
    async for part in response.content.iter_chunked(_CHUNK):
        size += len(part)
        if size > LONGEST_BODY:
            raise _RetryableError("too_long", f"a body of more than {LONGEST_BODY:,} bytes")
        parts.append(part)
    return b"".join(parts)


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for `url` (HTTPS_PROXY, NO_PROXY ...), looked up once."""
    parts = urlsplit(url)
    if not parts.hostname or urllib.request.proxy_bypass(parts.hostname):
        return None
    return urllib.request.getproxies().get(parts.scheme)


# When to ask again, and how fast to ask: backoff, Retry-After, one pace for all workers.
LONGEST_BACKOFF_S = 30.0
LONGEST_RETRY_AFTER_S = 120.0  # a server that asks for hours is answered with a failure, not with a hanging run


@dataclass(slots=True)
class RetryBackoff:
    """Exponential waiting with jitter, the same in every run with the same seed."""

    first_s: float = 0.5
    seed: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def delay(self, attempt: int) -> float:
        """Seconds to wait after the failed attempt number `attempt` (0 is the first)."""
        full = min(self.first_s * 2.0 ** min(attempt, 16), LONGEST_BACKOFF_S)
        return full * self._random.uniform(0.5, 1.0)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks us to wait (Retry-After as seconds or a date; retry-after-ms), else None."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            return max(0.0, float(value) * unit)
        except ValueError:
            pass
    try:
        when = email.utils.parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return max(0.0, when - time.time())


class RequestRateLimiter:
    """The common gate of all workers: at most `per_minute` starts, and none while the server asks for quiet."""

    def __init__(self, per_minute: float | None = None) -> None:
        self._gap_s = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._quiet_until = 0.0

    def quiet(self, seconds: float) -> None:
        """Let nobody start for `seconds` from now."""
        self._quiet_until = max(self._quiet_until, asyncio.get_running_loop().time() + seconds)

    async def wait(self) -> None:
        """Return when it is this worker's turn."""
        clock = asyncio.get_running_loop().time
        while True:
            start = max(clock(), self._next, self._quiet_until)
            if self._gap_s:
                self._next = start + self._gap_s
            if (delay := start - clock()) <= 0:
                return
            await asyncio.sleep(delay)
            if clock() >= self._quiet_until:
                return
