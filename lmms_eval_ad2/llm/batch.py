"""Many requests to one endpoint: cached replies first, then the missing ones with a bounded number in flight.

Every reply that `keep` accepts is in the cache before it is used. Handling of an endpoint that is down or refuses
everything: session.py. All calls in a process share one connection pool (request_loop.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.llm.cache import ReplyCache
from lmms_eval_ad2.llm.client import ChatReply, EndpointConfig, RequestFailure
from lmms_eval_ad2.llm.request_loop import ConnectionPool, run
from lmms_eval_ad2.llm.session import EndpointSession, RequestUsage, together

__all__ = ["Outcomes", "Payloads", "RequestUsage", "ask"]

Payloads = Mapping[str, Mapping[str, Any]]
Outcomes = dict[str, ChatReply | RequestFailure]

_SHOW_EVERY = 16  # items between two updates of the displayed token count


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
    if missing:
        with tqdm(total=len(payloads), initial=len(outcomes), desc=label, unit="item", disable=not progress) as bar:
            batch = _Batch(missing, endpoint, cache, keep, tally, bar)
            run(batch.run)
        outcomes |= batch.outcomes
    return outcomes


class _Batch:
    def __init__(
        self,
        missing: Payloads,
        endpoint: EndpointConfig,
        cache: ReplyCache | None,
        keep: Callable[[str, ChatReply], bool],
        tally: RequestUsage,
        bar: Any,
    ) -> None:
        self.missing, self.endpoint, self.cache, self.keep, self.tally, self.bar = (
            missing, endpoint, cache, keep, tally, bar,
        )  # fmt: skip
        self.outcomes: Outcomes = {}

    async def run(self, pool: ConnectionPool) -> None:
        """Run all workers to their end; the first Ad2Error cancels the others and is raised."""
        queue = iter(self.missing.items())
        async with EndpointSession(self.endpoint, self.cache, self.tally, pool) as session:
            workers = min(self.endpoint.in_flight, len(self.missing))
            await together(self._work(session, queue) for _ in range(workers))

    async def _work(self, session: EndpointSession, queue: Iterator[tuple[str, Mapping[str, Any]]]) -> None:
        for key, payload in queue:
            accept = functools.partial(self.keep, key)
            self._finished(key, await session.fetch(payload, key=key, accept=accept))

    def _finished(self, key: str, outcome: ChatReply | RequestFailure) -> None:
        self.outcomes[key] = outcome
        if not self.bar.disable and len(self.outcomes) % _SHOW_EVERY == 0:
            self.bar.set_postfix(tokens=self.tally.prompt_tokens + self.tally.completion_tokens, refresh=False)
        self.bar.update()
