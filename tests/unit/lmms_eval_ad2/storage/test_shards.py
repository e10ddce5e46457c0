"""Shards: the parts of a run are disjoint, complete and of equal sizes, for any limit and number of ranks."""

from __future__ import annotations

from collections import Counter

import pytest

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.shards import ENV, RunShard, shard_of_environment, shards_text


@pytest.mark.parametrize("of", [1, 2, 3, 7, 8])
def test_every_question_is_in_one_shard_and_all_beginnings_are_divided_equally(of: int) -> None:
    shards = [RunShard(i, of) for i in range(1, of + 1)]
    owners = [[s.index for s in shards if s.has(question)] for question in range(300)]
    assert all(len(found) == 1 for found in owners)
    for limit in (of - 1, of, 50, 299):
        sizes = Counter(found[0] for found in owners[:limit])
        assert max(sizes.values(), default=0) - min((sizes[s.index] for s in shards), default=0) <= 1


@pytest.mark.parametrize(("of", "ranks"), [(2, 2), (2, 4), (4, 2), (8, 8)])
def test_each_shard_keeps_all_ranks_busy(of: int, ranks: int) -> None:
    """Rank r of R has every R-th question: a shard of every N-th would leave ranks without any."""
    n = 4000
    busy = Counter(question % ranks for question in range(n) if RunShard(1, of).has(question))
    assert min(busy[r] for r in range(ranks)) > 0.7 * n / of / ranks


def test_the_assignment_never_changes() -> None:
    """Shards of two versions, or of an interrupted run, would otherwise overlap."""
    assert [q for q in range(40) if RunShard(2, 4).has(q)] == [1, 4, 11, 14, 19, 22, 26, 31, 34, 37]


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "1/2/3", "-1/2"])
def test_another_form_is_an_error(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Ad2Error, match=f"^--shard {text}: "):
        RunShard.parse(text)
    monkeypatch.setenv(ENV, text)
    with pytest.raises(Ad2Error, match=f"^AD2_SHARD {text}: "):
        shard_of_environment()


def test_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(RunShard.parse(" 2/3")) == "2/3"
    assert shards_text([2], 3) == "shard 2/3"
    assert shards_text([1, 3], 4) == "shards 1, 3 of 4"
    monkeypatch.delenv(ENV, raising=False)
    assert shard_of_environment() is None
