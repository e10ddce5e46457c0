"""Time limits of ticks on the fake CARLA, and conditions of the pictures: drops are drawn, others are invalid."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fake_carla.world import World
from support.carla.rig import EGO, HEAD, Rig, rig_on

from closedloop_plugin.carla.world.simulation import FIRST_TICKS_S, SETTLE_TICKS, TICK_S
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.state import COAST
from closedloop_plugin.worlds.base import InvalidScene

pytestmark = pytest.mark.integration

CAMERA = Camera("front", 160, 90, 90, 1.5, 0.0, 1.6)


@pytest.fixture(scope="module")
def rig(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig_on("Town01", data_dir / "opendrive", tmp_path_factory.mktemp("ticks")) as rig:
        yield rig


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


def _picture(rig: Rig, param: str) -> np.ndarray:
    rig.play(EGO, head=param + HEAD, cameras=(CAMERA,))
    return rig.world.step(COAST).images("front")


def test_drops_are_drawn_over_the_pictures(rig: Rig) -> None:
    plain, drops = _picture(rig, ""), _picture(rig, "param lens_drops = 40\n")
    assert plain.shape == drops.shape == (90, 160, 3)
    assert not np.array_equal(plain, drops) and rig.world.drawn == {"lens_drops": 40}


def test_other_conditions_make_the_episode_invalid(rig: Rig) -> None:
    params = 'param worn_markings = 50\nparam contradictory_sign = "stop"\n'
    with pytest.raises(InvalidScene, match="the carla world do not show worn_markings and contradictory_sign"):
        rig.play(EGO, head=params + HEAD)
