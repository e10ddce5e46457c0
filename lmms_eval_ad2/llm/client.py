"""Asynchronous client of one OpenAI-compatible endpoint: POST {base_url}/chat/completions.

`ChatClient.complete` returns a ChatReply or a RequestFailure. Failures that may be temporary (throttling, 5xx,
time-outs, cut connections, invalid JSON, an empty text) are retried a bounded number of times. Failures that concern
every request (a wrong key, an unknown model, no credit) raise Ad2Error.

Why aiohttp and not the openai SDK: docs/decisions/0011-llm-client.md.
"""

from __future__ import annotations

import asyncio
import email.utils
import random
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
    read_completion,
    read_error,
)
from lmms_eval_ad2.llm.connections import ConnectionPool
from lmms_eval_ad2.llm.endpoint_gate import EndpointGate
from lmms_eval_ad2.llm.refusal import FATAL_CODES, FATAL_STATUS, remedy
from lmms_eval_ad2.llm.request_body import encoded
from lmms_eval_ad2.printed import one_line
from lmms_eval_ad2.storage.redaction import HIDDEN, without_keys

__all__ = ["ChatClient", "ChatReply", "EndpointConfig", "RequestFailure"]

# The server has not processed a throttled request, so it may be repeated more often than a failed one.
THROTTLE_FACTOR = 4
_KEY_VARIABLE = "OPENAI_API_KEY, or the variable named by api_key_env"
_CHUNK = 2**16  # bytes
_REACH_TRIES, _REACH_TIMEOUT_S = 3, 5.0


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """Address and request limits. `rpm`: requests per minute; `max_retries`: repeats of one request."""

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
    """No completion. `reason` is a short stable code; `refused`: the server rejected this request (HTTP 4xx)."""

    reason: str
    detail: str = ""
    refused: bool = False


class _RetryableError(Exception):
    """This attempt failed, and a repeat may succeed."""

    def __init__(self, reason: str, detail: str = "", wait_s: float | None = None, throttled: bool = False) -> None:
        super().__init__(reason)
        self.failure = RequestFailure(reason, detail)
        self.wait_s, self.throttled = wait_s, throttled


class ChatClient:
    """`async with ChatClient(endpoint) as client: await client.complete(payload)`. Counts requests and retries.

    `pool`: connections that outlive the client; without one the client opens and closes its own. `gate`: limits that
    are shared with other clients.
    """

    def __init__(
        self, endpoint: EndpointConfig, pool: ConnectionPool | None = None, gate: EndpointGate | None = None
    ) -> None:
        self.endpoint = endpoint
        self.requests = 0
        self.retries = 0
        self._url = endpoint.base_url.rstrip("/") + "/chat/completions"
        self._proxy = _proxy(self._url)
        self._backoff = RetryBackoff(endpoint.backoff_s, endpoint.seed)
        self._headers = {
            "Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity",
        }  # fmt: skip
        if endpoint.api_key:
            self._headers["Authorization"] = f"Bearer {endpoint.api_key}"
        self._timeout = aiohttp.ClientTimeout(total=endpoint.timeout_s)
        self._pool, self._owns_pool = pool, pool is None
        self._limiter = (gate or EndpointGate(endpoint)).limiter

    async def __aenter__(self) -> ChatClient:
        if self._owns_pool:
            self._pool = ConnectionPool(limit=self.endpoint.concurrency)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns_pool and self._pool is not None:
            await self._pool.close()

    async def reach(self) -> None:
        """Raise Ad2Error if no server listens at the address, before every item spends its retries.

        Not checked behind a proxy, or if the pool had a reply from this address within the last seconds.
        """
        if self._proxy or (self._pool is not None and self._pool.replied_recently(self._url)):
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
            "same command again: earlier results are kept"
        )

    async def complete(self, payload: Mapping[str, Any]) -> ChatReply | RequestFailure:
        """One completion of `payload` (the JSON body). Raises Ad2Error if no request can succeed."""
        body = encoded(payload)
        failed = throttled = 0
        while True:
            await self._limiter.wait()
            self.requests += 1
            try:
                return await self._attempt(body)
            except _RetryableError as error:
                throttled, failed = throttled + error.throttled, failed + (not error.throttled)
                limit = self.endpoint.max_retries
                if failed > limit or throttled > limit * THROTTLE_FACTOR:
                    return error.failure
                await self._wait(error, failed + throttled - 1)
            self.retries += 1

    async def _wait(self, error: _RetryableError, attempt: int) -> None:
        delay = self._backoff.delay(attempt)
        if error.throttled:
            # All workers pause; the jitter then spreads their next requests.
            pause = min(error.wait_s if error.wait_s is not None else delay, LONGEST_RETRY_AFTER_S)
            self._limiter.pause(pause)
            delay = pause + self._backoff.delay(0)
        await asyncio.sleep(delay)

    async def _attempt(self, body: bytes) -> ChatReply | RequestFailure:
        assert self._pool is not None, "use the client in 'async with'"
        try:
            async with self._pool.http.post(
                self._url,
                data=body,
                headers=self._headers,
                timeout=self._timeout,
                proxy=self._proxy,
                allow_redirects=False,
            ) as response:
                raw, status, headers = await _bounded(response), response.status, response.headers
        except TimeoutError as exc:
            self._pool.note_connection_failure(self._url)
            raise _RetryableError("timeout", f"no reply within {self.endpoint.timeout_s:g} s") from exc
        except aiohttp.InvalidURL as exc:
            raise Ad2Error(f"base_url {self.endpoint.base_url!r} is not a URL") from exc
        except (aiohttp.ClientError, OSError) as exc:
            self._pool.note_connection_failure(self._url)
            raise _RetryableError("connection", self._clean(f"{type(exc).__name__}: {exc}")) from exc
        self._pool.note_reply(self._url)
        if 200 <= status < 300:
            try:
                return self._without_key(read_completion(raw))
            except NoCompletion as exc:
                raise _RetryableError(exc.reason, self._clean(exc.detail)) from exc
        return self._read_error(status, headers, raw)

    def _read_error(self, status: int, headers: Mapping[str, str], raw: bytes) -> RequestFailure:
        code, message = read_error(raw)
        text = self._clean(f"HTTP {status}: {message}")
        if status < 400 or status in FATAL_STATUS or code in FATAL_CODES:
            hint = remedy(status, _KEY_VARIABLE)
            raise Ad2Error(f"{self.endpoint.base_url} refuses every request: {text}. {hint}".rstrip())
        if status == 429:
            raise _RetryableError("throttled", text, retry_after(headers), throttled=True)
        if status == 503 and (wait := retry_after(headers)) is not None:
            raise _RetryableError("http_503", text, wait, throttled=True)
        if status >= 500 or status in (408, 409, 425):
            raise _RetryableError(f"http_{status}", text)
        return RequestFailure(f"http_{status}", text, refused=True)

    def _without_key(self, reply: ChatReply) -> ChatReply:
        """The reply without the key, which a server may repeat in its text: replies are stored."""
        keys = (self.endpoint.api_key,)
        model = reply.model and without_keys(reply.model, keys)
        return replace(reply, text=without_keys(reply.text, keys), model=model)

    def _clean(self, text: str) -> str:
        """`text` on one line, shortened, without the key, which some servers repeat in their messages."""
        key = self.endpoint.api_key
        return one_line(" ".join((text.replace(key, HIDDEN) if key else text).split()))[:DETAIL]


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    """The body. Raises _RetryableError if it is compressed, or as soon as it is longer than any completion."""
    if (coding := response.headers.get("Content-Encoding", "identity").strip().lower()) not in ("", "identity"):
        raise _RetryableError("invalid_reply", f"a body with Content-Encoding {coding[:40]!r}, which was not requested")
    parts, size = [], 0
    async for part in response.content.iter_chunked(_CHUNK):
        size += len(part)
        if size > LONGEST_BODY:
            raise _RetryableError("too_long", f"a body of more than {LONGEST_BODY:,} bytes")
        parts.append(part)
    return b"".join(parts)


def _proxy(url: str) -> str | None:
    """The proxy for `url` from the environment (HTTPS_PROXY, NO_PROXY ...)."""
    parts = urlsplit(url)
    if not parts.hostname or urllib.request.proxy_bypass(parts.hostname):
        return None
    return urllib.request.getproxies().get(parts.scheme)


LONGEST_BACKOFF_S = 30.0
LONGEST_RETRY_AFTER_S = 120.0  # a longer Retry-After must not block the run: the request fails in the end


@dataclass(slots=True)
class RetryBackoff:
    """Exponential backoff with jitter, reproducible with `seed`: min(first_s * 2^n, LONGEST_BACKOFF_S) * U(0.5, 1)."""

    first_s: float = 0.5
    seed: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def delay(self, attempt: int) -> float:
        """Seconds to wait after failed attempt number `attempt` (from 0)."""
        full = min(self.first_s * 2.0 ** min(attempt, 16), LONGEST_BACKOFF_S)
        return full * self._random.uniform(0.5, 1.0)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from retry-after-ms or Retry-After (seconds or a date), else None."""
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
