"""llm/cache: keys by content, shared between processes, errors for unusable files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm.cache import ReplyCache, key_of
from lmms_eval_ad2.llm.client import ChatReply


def test_the_key_depends_on_content_not_on_order() -> None:
    assert key_of({"a": 1, "b": [1, 2]}) == key_of({"b": [1, 2], "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 1.5})
    assert key_of({"a": [1, 2]}) != key_of({"a": [2, 1]})
    assert len(key_of("路")) == 64
    assert key_of("\ud800") != key_of("?")  # a lone surrogate in a model's text is no error


def test_a_reply_is_read_back_unchanged(tmp_path: Path) -> None:
    reply = ChatReply("评分 Rating: [[7]]\n", "stop", "m-1", 11, None)
    first = ReplyCache(tmp_path / "deep" / "c.sqlite")
    first.put("k", reply)
    second = ReplyCache(tmp_path / "deep" / "c.sqlite")  # as another process would, without closing the first
    assert second.get_many(["k", "absent"]) == {"k": reply}
    assert len(second) == 1


def test_get_many_takes_more_keys_than_one_select(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "c.sqlite")
    keys = [key_of(i) for i in range(1201)]
    for key in keys[:600]:
        cache.put(key, ChatReply(key))
    assert cache.get_many(keys) == {key: ChatReply(key) for key in keys[:600]}


def test_a_file_that_is_not_a_cache_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    path.write_text("this is no database, but it is long enough to be read as one " * 20)
    with pytest.raises(Ad2Error, match=r"c\.sqlite cannot be used.*Move the file away"):
        ReplyCache(path)


def test_threads_share_a_cache(tmp_path: Path) -> None:
    """As the two sessions of `ad2 mcq build` with a separate evaluator do."""
    cache = ReplyCache(tmp_path / "c.sqlite")

    def store(thread: int) -> None:
        for i in range(200):
            cache.put(f"{thread} {i}", ChatReply("text"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(store, range(4)))
    assert len(cache) == 800
