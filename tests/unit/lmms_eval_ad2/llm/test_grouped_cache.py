"""llm/grouped_cache: callers wait for the disk; failures to write are raised."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.llm.cache import ReplyCache
from lmms_eval_ad2.llm.completion import ChatReply
from lmms_eval_ad2.llm.grouped_cache import GroupedCacheAccess

REPLY = ChatReply("text")


class BlockedCache(ReplyCache):
    """Writes when `disk` is set, with an error if `failure` is."""

    def __init__(self, path: Path, failure: Ad2Error | None = None) -> None:
        super().__init__(path)
        self.disk, self.failure = threading.Event(), failure

    def put_many(self, replies: Iterable[tuple[str, ChatReply]]) -> None:
        replies = list(replies)
        if replies:
            assert self.disk.wait(60)
            if self.failure is not None:
                raise self.failure
        super().put_many(replies)


def test_a_caller_waits_while_more_replies_than_allowed_are_being_stored(tmp_path: Path) -> None:
    cache, done = BlockedCache(tmp_path / "c.sqlite"), []

    async def main() -> None:
        access = GroupedCacheAccess(cache, most_unsaved=3)

        def store(key: str) -> asyncio.Task[None]:
            return asyncio.create_task(access.store(key, REPLY, lambda key, reply: done.append(key)))

        first, fourth, cancelled = [store(f"k{i}") for i in range(3)], store("k3"), store("k4")
        await asyncio.gather(*first)
        assert not fourth.done() and not cancelled.done() and not done
        cancelled.cancel()
        cache.disk.set()
        await fourth
        await access.close()

    asyncio.run(main())
    assert done == ["k0", "k1", "k2", "k3", "k4"] and len(cache) == 5, "also the reply of the cancelled task"


def test_a_failed_write_is_raised_by_the_next_call(tmp_path: Path) -> None:
    cache = BlockedCache(tmp_path / "c.sqlite", Ad2Error("the disk is full"))
    cache.disk.set()

    async def main() -> None:
        access = GroupedCacheAccess(cache, most_unsaved=1)
        await access.store("k0", REPLY, lambda key, reply: None)
        with pytest.raises(Ad2Error, match="full"):
            await access.store("k1", REPLY, lambda key, reply: None)
        await access.close()

    asyncio.run(main())
