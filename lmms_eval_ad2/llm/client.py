"""Asynchronous client of an OpenAI-compatible endpoint of one or several servers: POST {base_url}/chat/completions.

`ChatClient.complete` returns a ChatReply or a RequestFailure. Failures that may be temporary (throttling, 5xx,
time-outs, cut connections, invalid JSON, an empty text) are retried a bounded number of times. Failures that concern
every request (a wrong key, an unknown model, no credit) raise Ad2Error.

Why aiohttp, and not the openai SDK: docs/decisions/0013-aiohttp-again.md.
"""

from __future__ import annotations

import asyncio
import email.utils
import math
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import one_line
from lmms_eval_ad2.llm.completion import (
    DETAIL,
    FATAL_CODES,
    FATAL_STATUS,
    ChatReply,
    NoCompletion,
    read_completion,
    read_error,
    remedy,
)
from lmms_eval_ad2.llm.http_address import EndpointConfig, HttpAddress
from lmms_eval_ad2.llm.request_body import encoded
from lmms_eval_ad2.llm.request_loop import ConnectionPool, EndpointGate
from lmms_eval_ad2.llm.server_balancer import EndpointServer
from lmms_eval_ad2.storage.redaction import without_keys

if TYPE_CHECKING:
    from lmms_eval_ad2.llm.http_client import HttpReply

__all__ = ["ChatClient", "ChatReply", "EndpointConfig", "RequestFailure"]

# The server has not processed a throttled request, so it may be repeated more often than a failed one.
THROTTLE_FACTOR = 4
_KEY_VARIABLE = "OPENAI_API_KEY, or the variable named by api_key_env"
_REACH_TRIES, _REACH_TIMEOUT_S = 3, 5.0
_EYEBALLS_S = 0.25  # before the next address of a name is tried, as aiohttp does


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
        self._backoff = RetryBackoff(endpoint.backoff_s, endpoint.seed)
        self._pool, self._owns_pool = pool, pool is None
        self._balancer = (gate or EndpointGate(endpoint)).balancer

    async def __aenter__(self) -> ChatClient:
        if self._owns_pool:
            self._pool = ConnectionPool()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns_pool and self._pool is not None:
            await self._pool.close()

    async def reach(self) -> None:
        """Raise Ad2Error if no server listens at any address, before every item spends its retries.

        Not checked behind a proxy, or if one of them replied within the last seconds. Of several servers, those that
        do not listen are left out.
        """
        servers = [server for server in self._balancer.servers if not server.out] or self._balancer.servers
        if any(server.address.proxy or server.replied_recently for server in servers):
            return
        for attempt in range(_REACH_TRIES):
            faults = await asyncio.gather(*(_listening_fault(server.address) for server in servers))
            if not all(faults):
                for server, fault in zip(servers, faults, strict=True):
                    if fault:
                        self._balancer.choice.take_out(server, fault)
                return
            if attempt + 1 < _REACH_TRIES:
                await asyncio.sleep(0.2 * 4**attempt)
        where = ", ".join(f"{server.url} ({fault})" for server, fault in zip(servers, faults, strict=True))
        raise Ad2Error(
            f"no endpoint answers at {where}; start it or correct base_url, then run the same command again: earlier "
            "results are kept"
        )

    async def complete(self, payload: Mapping[str, Any]) -> ChatReply | RequestFailure:
        """One completion of `payload` (the JSON body). Raises Ad2Error if no request can succeed.

        A request whose server is left out because of it goes to another one, which does not count as one of its
        repeats; at most once for each other server, since the request itself may be the cause.
        """
        assert self._pool is not None, "use the client in 'async with'"
        body = encoded(payload)
        failed = throttled = moved = 0
        server = None
        while True:
            server = await self._balancer.acquire(self._pool.http, avoid=server)
            try:
                await server.limiter.wait()
                self.requests += 1
                return await self._attempt(self._pool, server, body)
            except _RetryableError as exc:
                error = exc
            finally:
                self._balancer.release(server)
            if moved < len(self._balancer.servers) - 1 and self._balancer.choice.is_replaced(server):
                moved += 1
            else:
                throttled, failed = throttled + error.throttled, failed + (not error.throttled)
                limit = self.endpoint.max_retries
                if failed > limit or throttled > limit * THROTTLE_FACTOR:
                    return error.failure
                await self._wait(error, server, failed + throttled - 1)
            self.retries += 1

    async def _wait(self, error: _RetryableError, server: EndpointServer, attempt: int) -> None:
        delay = self._backoff.delay(attempt)
        if error.throttled:
            # All workers pause; the jitter then spreads their next requests.
            pause = min(error.wait_s if error.wait_s is not None else delay, LONGEST_RETRY_AFTER_S)
            server.limiter.pause(pause)
            others = [other for other in self._balancer.servers if not other.out and other is not server]
            delay = (0.0 if others else pause) + self._backoff.delay(0)
        await asyncio.sleep(delay)

    async def _attempt(self, pool: ConnectionPool, server: EndpointServer, body: bytes) -> ChatReply | RequestFailure:
        try:
            response = await pool.http.send("POST", server.address, "chat/completions", self.endpoint.timeout_s, body)
        except TimeoutError as exc:
            server.replied_at = -math.inf
            self._balancer.choice.note_failure(server, "timeout")
            raise _RetryableError("timeout", f"no reply within {self.endpoint.timeout_s:g} s") from exc
        except NoCompletion as exc:
            raise _RetryableError(exc.reason, exc.detail) from exc
        except OSError as exc:
            server.replied_at = -math.inf
            detail = self._clean(f"{type(exc).__name__}: {exc}")
            self._balancer.choice.note_failure(server, detail, gone=True)
            raise _RetryableError("connection", detail) from exc
        server.replied_at = time.monotonic()
        if response.status >= 500 and "retry-after" not in response.headers:
            self._balancer.choice.note_failure(server, f"http_{response.status}")
        else:
            self._balancer.note_reply(server)
        if not 200 <= response.status < 300:
            return self._read_error(server, response)
        try:
            return self._without_key(read_completion(response.body))
        except NoCompletion as exc:
            raise _RetryableError(exc.reason, self._clean(exc.detail)) from exc

    def _read_error(self, server: EndpointServer, response: HttpReply) -> RequestFailure:
        status, headers = response.status, response.headers
        code, message = read_error(response.body)
        text = self._clean(f"HTTP {status}: {message}")
        if status < 400 or status in FATAL_STATUS or code in FATAL_CODES:
            hint = remedy(status, _KEY_VARIABLE)
            raise Ad2Error(f"{server.url} refuses every request: {text}. {hint}".rstrip())
        if status == 429:
            raise _RetryableError("throttled", text, retry_after(headers), throttled=True)
        if status == 503 and (wait := retry_after(headers)) is not None:
            raise _RetryableError("http_503", text, wait, throttled=True)
        if status >= 500 or status in (408, 409, 425):
            raise _RetryableError(f"http_{status}", text)
        return RequestFailure(f"http_{status}", text, refused=True)

    def _without_key(self, reply: ChatReply) -> ChatReply:
        """The reply without the key, which a server may repeat in its text: replies are stored."""
        key = self.endpoint.api_key
        if not key or key not in f"{reply.text}\n{reply.model}":
            return reply
        model = reply.model and without_keys(reply.model, (key,))
        return replace(reply, text=without_keys(reply.text, (key,)), model=model)

    def _clean(self, text: str) -> str:
        """`text` on one line, shortened, without the key, which some servers repeat in their messages."""
        return one_line(" ".join(without_keys(text, (self.endpoint.api_key,)).split()))[:DETAIL]


async def _listening_fault(address: HttpAddress) -> str:
    """Why no connection to `address` can be opened, or ""."""
    try:
        opening = asyncio.open_connection(address.host, address.port, happy_eyeballs_delay=_EYEBALLS_S)
        _, writer = await asyncio.wait_for(opening, _REACH_TIMEOUT_S)
    except (OSError, TimeoutError) as exc:
        return str(exc) or f"no connection within {_REACH_TIMEOUT_S:g} s"
    writer.close()
    return ""


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
