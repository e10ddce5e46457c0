"""Tasks of a run: keys, seeds, shards."""

from __future__ import annotations

import pytest
from support.closedloop.runs import tasks

from closedloop_plugin.runner.task import EpisodeTask, episode_seed, shard
from closedloop_plugin.worlds.base import EpisodeSetup
from lmms_eval_ad2.core.errors import Ad2Error


def test_an_id_that_would_leave_the_folder_is_refused() -> None:
    with pytest.raises(Ad2Error, match="letters, digits"):
        EpisodeTask("x", "../../etc", 0, EpisodeSetup(None, 0))


def test_seeds_depend_on_the_episode_alone() -> None:
    assert episode_seed(1, "101", 0) == episode_seed(1, "101", 0)
    seeds = [episode_seed(s, r, k) for s in (0, 1) for r in ("1", "11") for k in (0, 1, 11)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= s < 2**31 for s in seeds)


@pytest.mark.parametrize("which", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_an_invalid_shard_is_an_error(which: str) -> None:
    with pytest.raises(Ad2Error, match=f"--shard {which}"):
        shard(tasks(), which)


def test_shards_are_disjoint_and_complete() -> None:
    todo = tasks(3)
    parts = [shard(todo, f"{i}/4") for i in (1, 2, 3, 4)]
    assert sorted(t.key for part in parts for t in part) == sorted(t.key for t in todo)
    assert {len(part) for part in parts} == {4, 5}
