"""llm/grouped_cache: a bounded number of replies is not stored yet; failures to write are raised."""

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


def test_no_more_replies_than_allowed_are_being_stored(tmp_path: Path) -> None:
    cache, done = BlockedCache(tmp_path / "c.sqlite"), []

    async def main() -> None:
        access = GroupedCacheAccess(cache, most_unsaved=3)
        for i in range(3):
            await access.store(f"k{i}", REPLY, lambda key, reply: done.append(key))
        fourth = asyncio.create_task(access.store("k3", REPLY, lambda key, reply: done.append(key)))
        await asyncio.sleep(0)  # the task runs up to its wait
        assert not fourth.done() and not done
        cache.disk.set()
        await fourth
        await access.close()

    asyncio.run(main())
    assert done == ["k0", "k1", "k2", "k3"] and len(cache) == 4


def test_a_failed_write_is_raised_and_frees_its_place(tmp_path: Path) -> None:
    cache = BlockedCache(tmp_path / "c.sqlite", Ad2Error("the disk is full"))
    cache.disk.set()

    async def main() -> None:
        access = GroupedCacheAccess(cache, most_unsaved=1)
        await access.store("k0", REPLY, lambda key, reply: None)
        with pytest.raises(Ad2Error, match="full"):
            await access.store("k1", REPLY, lambda key, reply: None)
        await access.close()

    asyncio.run(main())
