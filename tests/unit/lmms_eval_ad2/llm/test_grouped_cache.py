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


def test_a_failure_of_the_receiver_is_raised_and_the_others_get_their_replies(tmp_path: Path) -> None:
    received = []

    def receive(key: str, reply: ChatReply) -> None:
        if key == "k1":
            raise OSError(28, "No space left on device")  # of a progress bar
        received.append(key)

    async def main() -> None:
        access = GroupedCacheAccess(ReplyCache(tmp_path / "c.sqlite"), most_unsaved=8)
        tasks = [asyncio.create_task(access.store(f"k{i}", REPLY, receive)) for i in range(4)]
        await asyncio.gather(*tasks)
        with pytest.raises(OSError, match="No space"):
            await access.close()

    asyncio.run(main())
    assert received == ["k0", "k2", "k3"]
