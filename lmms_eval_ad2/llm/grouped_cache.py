"""GroupedCacheAccess: reads and writes of a reply cache for an event loop, several in one visit to the disk.

They run in a separate thread, since waiting for the disk must not block the event loop. Waking that thread and opening
a transaction takes more processor time than the access itself, so what arrives within GROUP_S of the last visit waits
for the next one. The first access after a pause does not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from lmms_eval_ad2.llm.cache import ReplyCache
from lmms_eval_ad2.llm.completion import ChatReply

GROUP_S = 0.02
_Access = tuple[str, ChatReply | None, Callable[[ChatReply | None, BaseException | None], None]]


class GroupedCacheAccess:
    """`get`, `put` and `store` for one event loop. Errors are those of `cache`; `close` waits for all writes.

    `most_unsaved`: replies of `store` that are not on the disk yet and do not hold their callers.
    """

    def __init__(self, cache: ReplyCache, most_unsaved: int) -> None:
        self._cache = cache
        self._unsaved = asyncio.Semaphore(most_unsaved)
        self._thread = ThreadPoolExecutor(1, "ad2-replies")
        self._next: list[_Access] = []
        self._timer: asyncio.TimerHandle | None = None
        self._visit: asyncio.Future[dict[str, ChatReply]] | None = None
        self._last_visit = float("-inf")
        self._failure: BaseException | None = None  # of a `store`

    async def get(self, key: str) -> ChatReply | None:
        """The cached reply, or None."""
        return await self._awaited(key, None)

    async def put(self, key: str, reply: ChatReply) -> None:
        """Store a reply. It is stored even if the calling task is cancelled meanwhile."""
        await self._awaited(key, reply)

    async def store(self, key: str, reply: ChatReply, done: Callable[[str, ChatReply], None]) -> None:
        """Store a reply, then call `done(key, reply)`. Returns when at most `most_unsaved` are being stored.

        It is stored even if the calling task is cancelled meanwhile. A failure to write, or of `done`, is raised by
        this call, the next one or `close`.
        """
        self._raise_failure()

        def end(found: ChatReply | None, failure: BaseException | None) -> None:
            self._unsaved.release()
            try:
                if failure is not None:
                    raise failure
                done(key, reply)
            except BaseException as exc:  # `done` may print progress: a full disk, a closed pipe
                self._failure = exc

        self._add((key, reply, end))
        await self._unsaved.acquire()
        self._raise_failure()

    async def close(self) -> None:
        """Finish what was begun."""
        while self._next or self._visit is not None:
            if self._timer is not None:
                self._timer.cancel()
            if self._visit is None:
                self._start()
            elif not self._visit.done():
                await asyncio.wait([self._visit])
            else:
                await asyncio.sleep(0)  # until `_end` was called
        self._thread.shutdown(wait=True)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _awaited(self, key: str, reply: ChatReply | None) -> asyncio.Future[ChatReply | None]:
        waiting: asyncio.Future[ChatReply | None] = asyncio.get_running_loop().create_future()

        def end(found: ChatReply | None, failure: BaseException | None) -> None:
            if waiting.done():  # its task was cancelled
                return
            if failure is None:
                waiting.set_result(found)
            else:
                waiting.set_exception(failure)

        self._add((key, reply, end))
        return waiting

    def _add(self, access: _Access) -> None:
        self._next.append(access)
        if len(self._next) == 1 and self._visit is None:
            self._timer = asyncio.get_running_loop().call_at(self._last_visit + GROUP_S, self._start)

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        group, self._next, self._timer = self._next, [], None
        self._last_visit = loop.time()
        self._visit = loop.run_in_executor(self._thread, self._access, group)
        self._visit.add_done_callback(lambda visit: self._end(group, visit))

    def _access(self, group: list[_Access]) -> dict[str, ChatReply]:
        self._cache.put_many((key, reply) for key, reply, _ in group if reply is not None)
        return self._cache.get_many(key for key, reply, _ in group if reply is None)

    def _end(self, group: list[_Access], visit: asyncio.Future[dict[str, ChatReply]]) -> None:
        self._visit, failure = None, visit.exception()
        found = visit.result() if failure is None else {}
        for key, reply, end in group:
            end(found.get(key) if reply is None else None, failure)
        if self._next and self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(self._last_visit + GROUP_S, self._start)
