"""Many questions to one endpoint: the cache first, then all missing ones with a bounded number in flight.

Equal questions are asked once. Every reply that `keep` accepts is in the cache before it is used. An
endpoint that has stopped answering is noticed: once as many questions in a row as are in flight
have failed, the rest is given up at once instead of after hours of time-outs.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.llm.cache import Cache
from lmms_eval_ad2.llm.client import Client, Endpoint, Failure, Reply

Payloads = Mapping[str, Mapping[str, Any]]
Outcomes = dict[str, Reply | Failure]

_MIN_STREAK = 16  # failures in a row before an endpoint counts as down, whatever the concurrency
_REFUSED_FIRST = 8  # so many refusals and no success yet: the request is wrong, not the items

_SHOW_EVERY = 16  # items between two updates of the token count on screen


@dataclass(slots=True)
class Tally:
    """What a batch has cost."""

    requests: int = 0
    retries: int = 0
    cached: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unreported: int = 0  # replies whose endpoint named no token counts

    def count(self, outcome: Reply | Failure) -> None:
        if isinstance(outcome, Failure):
            self.failed += 1
            return
        self.prompt_tokens += outcome.prompt_tokens or 0
        self.completion_tokens += outcome.completion_tokens or 0
        self.unreported += outcome.prompt_tokens is None


def ask(
    payloads: Payloads,
    endpoint: Endpoint,
    *,
    cache: Cache | None = None,
    keep: Callable[[str, Reply], bool] = lambda key, reply: True,
    tally: Tally | None = None,
    label: str = "",
    progress: bool = True,
) -> Outcomes:
    """A Reply or Failure for every key of `payloads`. Replies that `keep` refuses are not cached.

    May be called with or without a running event loop. Raises Ad2Error where no request can succeed; what came until
    then is in the cache, and counted in `tally`.
    """
    outcomes: Outcomes = dict(cache.get_many(payloads)) if cache else {}
    tally = tally if tally is not None else Tally()
    tally.cached += len(outcomes)
    missing = {key: payload for key, payload in payloads.items() if key not in outcomes}
    if missing:
        with tqdm(total=len(payloads), initial=len(outcomes), desc=label, unit="item", disable=not progress) as bar:
            batch = _Batch(missing, endpoint, cache, keep, tally, bar)
            _run(batch)
        outcomes |= batch.outcomes
    return outcomes


class _Batch:
    def __init__(
        self, missing: Payloads, endpoint: Endpoint, cache: Cache | None, keep: Callable[[str, Reply], bool],
        tally: Tally, bar: Any,
    ) -> None:  # fmt: skip
        self.missing, self.endpoint, self.cache, self.keep, self.tally, self.bar = (
            missing, endpoint, cache, keep, tally, bar,
        )  # fmt: skip
        self.outcomes: Outcomes = {}
        self._succeeded = False
        self._streak = self._refused = 0
        self._down: Failure | None = None

    async def run(self) -> None:
        """All workers to their end; the first Ad2Error stops the others and is raised."""
        queue = iter(self.missing.items())
        async with Client(self.endpoint) as client:
            await client.reach()
            workers = [
                asyncio.create_task(self._work(client, queue))
                for _ in range(min(self.endpoint.concurrency, len(self.missing)))
            ]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
                self.tally.requests += client.requests
                self.tally.retries += client.retries

    async def _work(self, client: Client, queue: Iterator[tuple[str, Mapping[str, Any]]]) -> None:
        for key, payload in queue:
            outcome = self._down or await client.complete(payload)
            if isinstance(outcome, Reply) and self.cache is not None and self.keep(key, outcome):
                self.cache.put(key, outcome)
            self.outcomes[key] = outcome
            self.tally.count(outcome)
            if not self.bar.disable and len(self.outcomes) % _SHOW_EVERY == 0:
                self.bar.set_postfix(tokens=self.tally.prompt_tokens + self.tally.completion_tokens, refresh=False)
            self.bar.update()
            self._watch(outcome)

    def _watch(self, outcome: Reply | Failure) -> None:
        """Notice an endpoint that refuses everything (Ad2Error) or has gone (the rest fails at once)."""
        if isinstance(outcome, Reply):
            self._succeeded, self._streak = True, 0
        elif outcome.refused:
            self._refused += 1
            if not self._succeeded and self._refused >= _REFUSED_FIRST:
                raise Ad2Error(
                    f"{self.endpoint.base_url} refused each of the first {self._refused} requests: {outcome.detail}"
                )
        elif self._down is None:
            self._streak += 1
            if self._streak >= max(_MIN_STREAK, self.endpoint.concurrency):
                self._down = Failure("endpoint_down", f"after {self._streak} failures in a row: {outcome.reason}")


def _run(batch: _Batch) -> None:
    """Run to the end, in a thread of its own where this one already runs an event loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(batch.run())
    else:
        _run_aside(batch)


def _run_aside(batch: _Batch) -> None:
    failure: list[BaseException] = []

    def target() -> None:
        try:
            asyncio.run(batch.run())
        except BaseException as exc:  # carried over to the caller's thread
            failure.append(exc)

    thread = threading.Thread(target=target, name="ad2-batch")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
