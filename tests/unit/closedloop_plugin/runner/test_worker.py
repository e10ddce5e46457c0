"""Garbage collection of world processes: no full collection within an episode, and one after every fourth."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from support.closedloop.doubles import Follower
from support.closedloop.runs import tasks, worker_config

from closedloop_plugin.runner import worker
from closedloop_plugin.runner.worker import DecisionResponder, drive
from closedloop_plugin.worlds.testing.fake_world import FakeWorld


class Cycle:
    """An object that only a collection removes."""

    def __init__(self) -> None:
        self.itself = self


class LitteringWorld(FakeWorld):
    """Makes garbage at its reset, and enough objects to start collections of all generations."""

    def reset(self, setup: Any) -> Any:
        self.garbage = weakref.ref(Cycle())
        self.kept = [[] for _ in range(300_000)]  # type: ignore[var-annotated]
        self.full_collections = gc.get_stats()[2]["collections"]
        return super().reset(setup)


@pytest.fixture
def no_other_full_collections() -> Iterator[None]:
    """Outside of episodes the interpreter's own settings hold, with which one may run at any allocation."""
    before = gc.get_threshold()
    gc.set_threshold(before[0], before[1], 100_000)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("no_other_full_collections")
def test_a_full_collection_runs_after_every_fourth_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_EPISODES", itertools.count(1))
    run_plan, world, before = worker_config(), LitteringWorld(), gc.get_threshold()
    at_start = gc.get_stats()[2]["collections"]
    for episode in range(worker.FULL_EVERY):
        assert gc.get_stats()[2]["collections"] == at_start, f"after {episode} episodes"
        drive(world, tasks(max_ticks=2)[0], run_plan, DecisionResponder(run_plan, Follower(), None, None))
        assert world.full_collections == at_start, "within the episode"
        assert gc.get_threshold() == before
    assert gc.get_stats()[2]["collections"] == at_start + 1
    assert world.garbage() is None
