"""Time limits of ticks on the fake CARLA, in a real town."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_carla.world import World
from support.carla.rig import EGO, Rig, rig_on

from closedloop_plugin.carla.world.simulation import FIRST_TICKS_S, SETTLE_TICKS, TICK_S


@pytest.fixture(scope="module")
def rig(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig_on("Town01", data_dir / "opendrive", tmp_path_factory.mktemp("ticks")) as rig:
        yield rig


@pytest.mark.integration
def test_only_the_first_ticks_of_an_episode_have_the_long_time_limit(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    tick = World.tick

    def recorded(self: World, seconds: float = 0.0) -> int:
        limits.append(seconds)
        return tick(self, seconds)

    monkeypatch.setattr(World, "tick", recorded)
    for _ in range(2):
        limits.clear()
        rig.play(EGO)
        first = len(limits)
        rig.ticks(3)
        begun = [limit for limit in limits[:first] if limit]  # 0: of the last episode's clean-up
        assert begun[:SETTLE_TICKS] == [FIRST_TICKS_S] * SETTLE_TICKS
        assert begun[SETTLE_TICKS:] + limits[first:] == [TICK_S] * (len(begun) - SETTLE_TICKS + 3)
