"""Requests to one endpoint: cached replies first, equal requests once, a bounded number in flight.

`ask` is for many requests that are known in advance, `EndpointSession.ask` for requests that depend on earlier replies.
Every accepted reply is in the cache before it is used. All calls of `ask` share one connection pool (request_loop.py).
If as many requests in a row fail as may be in flight, the endpoint counts as down and the remaining ones fail
at once instead of after hours of time-outs.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm.cache import ReplyCache
from lmms_eval_ad2.llm.client import ChatClient, ChatReply, RequestFailure
from lmms_eval_ad2.llm.http_address import EndpointConfig
from lmms_eval_ad2.llm.request_loop import ConnectionPool, EndpointGate, run

Payloads = Mapping[str, Mapping[str, Any]]
Outcomes = dict[str, ChatReply | RequestFailure]

_SHOW_EVERY = 16  # items between two updates of the displayed token count


Payload = Mapping[str, Any]
Accept = Callable[[ChatReply], bool]

_MIN_STREAK = 16  # failures in a row before an endpoint counts as down, whatever the concurrency
_REFUSED_FIRST = 8  # refusals without any success: the request format is wrong, not the items
_REFUSED_STREAK = 64  # refusals in a row after a success: the endpoint has changed, not the items

# Servers differ in how they accept a request for JSON (model.py).
_HINT = ". If it does not know `response_format`, write structured=json_object or structured=none beside the model"


@dataclass(slots=True)
class RequestUsage:
    """Counts of requests and tokens so far."""

    requests: int = 0
    retries: int = 0
    cached: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unreported: int = 0  # replies without token counts

    def count(self, outcome: ChatReply | RequestFailure) -> None:
        """Add one reply or failure of the endpoint."""
        if isinstance(outcome, RequestFailure):
            self.failed += 1
            return
        self.prompt_tokens += outcome.prompt_tokens or 0
        self.completion_tokens += outcome.completion_tokens or 0
        self.unreported += outcome.prompt_tokens is None


class EndpointSession:
    """`async with EndpointSession(endpoint, cache) as session: await session.ask(payload, key=...)`.

    `pool`: connections that outlive the session. Entering raises Ad2Error if no server listens at the address.
    """

    def __init__(
        self,
        endpoint: EndpointConfig,
        cache: ReplyCache | None = None,
        tally: RequestUsage | None = None,
        pool: ConnectionPool | None = None,
    ) -> None:
        self.endpoint, self.cache = endpoint, cache
        self.tally = tally if tally is not None else RequestUsage()
        self.down: RequestFailure | None = None
        self._gate = pool.gate(endpoint) if pool is not None else EndpointGate(endpoint)
        self._client = ChatClient(endpoint, pool, self._gate)
        self._pending: dict[str, asyncio.Future[ChatReply | RequestFailure]] = {}
        self._succeeded = False
        self._streak = self._refused = 0  # since the last success
        self._counted = (0, 0)  # requests and retries of the client that are already in `tally`

    async def __aenter__(self) -> EndpointSession:
        await self._client.__aenter__()
        try:
            await self._client.reach()
        except BaseException:
            await self._client.__aexit__(None, None, None)
            raise
        self._gate.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gate.leave()
        self._count_requests()
        await self._client.__aexit__(kind, exc, trace)

    async def ask(
        self, payload: Payload | Callable[[], Payload], *, key: str, accept: Accept = lambda reply: True
    ) -> ChatReply | RequestFailure:
        """The reply to `payload`: a cached one that passes `accept`, otherwise the endpoint's.

        key: `cache.key_of` of everything that can change the reply. A payload that is expensive to build (images) may
        be a function, which is called only when the request is sent. A reply that fails `accept` is returned, but not
        cached. Raises Ad2Error if no request can succeed.
        """
        if (pending := self._pending.get(key)) is not None:
            self.tally.cached += 1
            outcome = await asyncio.shield(pending)
            return outcome if isinstance(outcome, RequestFailure) else replace(outcome, cached=True)
        pending = self._pending[key] = asyncio.get_running_loop().create_future()
        try:
            outcome = await self._find(payload, key, accept)
        except BaseException as exc:
            pending.set_exception(exc)
            pending.exception()  # retrieved, if no equal request waits for it
            raise
        else:
            pending.set_result(outcome)
            return outcome
        finally:
            del self._pending[key]

    async def _find(
        self, payload: Payload | Callable[[], Payload], key: str, accept: Accept
    ) -> ChatReply | RequestFailure:
        """The cached reply, or the endpoint's."""
        if self.cache is not None:
            found = self.cache.get_many([key]).get(key)
            if found is not None and accept(found):
                self.tally.cached += 1
                return found
        return await self.fetch(payload, key=key, accept=accept)

    async def fetch(
        self, payload: Payload | Callable[[], Payload], *, key: str, accept: Accept = lambda reply: True
    ) -> ChatReply | RequestFailure:
        """The endpoint's reply, requested when fewer than its limit are in flight; cached if it passes `accept`."""
        outcome = await self._send(payload)
        if isinstance(outcome, ChatReply) and self.cache is not None and accept(outcome):
            self.cache.put(key, outcome)
        return outcome

    async def _send(self, payload: Payload | Callable[[], Payload]) -> ChatReply | RequestFailure:
        async with self._gate.slots:
            await self._gate.wait_for_first()
            if self.down is None:
                body = payload() if callable(payload) else payload
                outcome = await self._complete(body)
            else:
                body, outcome = {}, self.down
        await asyncio.sleep(0)  # whoever has the free slot now sends its request before this reply is read
        self.tally.count(outcome)
        self._count_requests()
        self._watch(outcome, _HINT if "response_format" in body else "")
        if isinstance(outcome, RequestFailure) and not self._succeeded:
            return replace(outcome, refused=False)  # before the first success, any item might be refused
        return outcome

    async def _complete(self, body: Payload) -> ChatReply | RequestFailure:
        refusal = None
        try:
            return await self._client.complete(body)
        except Ad2Error as exc:
            refusal = exc
            raise
        finally:
            self._gate.note_outcome(refusal)

    def _count_requests(self) -> None:
        """Add the client's requests and retries since the last call to `tally`."""
        now = (self._client.requests, self._client.retries)
        self.tally.requests += now[0] - self._counted[0]
        self.tally.retries += now[1] - self._counted[1]
        self._counted = now

    def _watch(self, outcome: ChatReply | RequestFailure, hint: str) -> None:
        """Detect an endpoint that refuses everything (raises Ad2Error) or is down (the remaining requests fail)."""
        if isinstance(outcome, ChatReply):
            self._succeeded, self._streak, self._refused = True, 0, 0
            self._gate.accepted = True
        elif outcome.refused:
            self._refused += 1
            if not self._succeeded and self._refused >= _REFUSED_FIRST:
                raise Ad2Error(
                    f"{self.endpoint.base_url} refused each of the first {self._refused} requests: {outcome.detail}"
                    f"{hint}"
                )
            if self._refused >= max(_REFUSED_STREAK, self.endpoint.in_flight):
                self._mark_down(f"after {self._refused} refusals in a row: {outcome.detail}")
        else:
            self._streak += 1
            if self._streak >= max(_MIN_STREAK, self.endpoint.in_flight):
                self._mark_down(f"after {self._streak} failures in a row: {outcome.reason}")

    def _mark_down(self, detail: str) -> None:
        self.down = self.down or RequestFailure("endpoint_down", detail)


def workers_for(endpoint: EndpointConfig, items: int) -> int:
    """How many items to work on at once: more than may be in flight, since some are being stored or prepared."""
    return min(items, endpoint.in_flight + max(4, endpoint.in_flight // 4))


async def together(workers: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all workers concurrently to their end; the first exception cancels the others and is raised."""
    tasks = [asyncio.create_task(worker) for worker in workers]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def ask(
    payloads: Payloads,
    endpoint: EndpointConfig,
    *,
    cache: ReplyCache | None = None,
    keep: Callable[[str, ChatReply], bool] = lambda key, reply: True,
    tally: RequestUsage | None = None,
    label: str = "",
    progress: bool = True,
) -> Outcomes:
    """A ChatReply or RequestFailure for each key of `payloads`. Replies that `keep` refuses are not cached.

    Callable with or without a running event loop; `keep` is called in another thread. Raises Ad2Error if no request can
    succeed; replies until then are in the cache and counted in `tally`.
    """
    outcomes: Outcomes = dict(cache.get_many(payloads)) if cache else {}
    tally = tally if tally is not None else RequestUsage()
    tally.cached += len(outcomes)
    missing = {key: payload for key, payload in payloads.items() if key not in outcomes}
    if not missing:
        return outcomes
    with tqdm(total=len(payloads), initial=len(outcomes), desc=label, unit="item", disable=not progress) as bar:
        queue = iter(missing.items())

        async def work(session: EndpointSession) -> None:
            for key, payload in queue:
                outcomes[key] = await session.fetch(payload, key=key, accept=functools.partial(keep, key))
                if not bar.disable and len(outcomes) % _SHOW_EVERY == 0:
                    bar.set_postfix(tokens=tally.prompt_tokens + tally.completion_tokens, refresh=False)
                bar.update()

        async def work_all(pool: ConnectionPool) -> None:
            async with EndpointSession(endpoint, cache, tally, pool) as session:
                await together(work(session) for _ in range(min(endpoint.in_flight, len(missing))))

        run(work_all)  # the first Ad2Error of a worker cancels the others and is raised
    return outcomes
