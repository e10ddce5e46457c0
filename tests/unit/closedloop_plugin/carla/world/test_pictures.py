"""Conditions of the pictures in CARLA's world, on the fake CARLA: drops are drawn, others make the episode invalid."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.carla.rig import EGO, HEAD, Rig, rig_on

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.state import COAST
from closedloop_plugin.worlds.base import InvalidScene

CAMERA = Camera("front", 160, 90, 90, 1.5, 0.0, 1.6)


@pytest.fixture(scope="module")
def rig(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig_on("Town01", data_dir / "opendrive", tmp_path_factory.mktemp("pictures")) as rig:
        yield rig


def _picture(rig: Rig, param: str) -> np.ndarray:
    rig.play(EGO, head=param + HEAD, cameras=(CAMERA,))
    return rig.world.step(COAST).images("front")


@pytest.mark.integration
def test_drops_are_drawn_over_the_pictures(rig: Rig) -> None:
    plain, drops = _picture(rig, ""), _picture(rig, "param lens_drops = 40\n")
    assert plain.shape == drops.shape == (90, 160, 3)
    assert not np.array_equal(plain, drops) and rig.world.drawn == {"lens_drops": 40}


@pytest.mark.integration
def test_other_conditions_make_the_episode_invalid(rig: Rig) -> None:
    params = 'param worn_markings = 50\nparam contradictory_sign = "stop"\n'
    with pytest.raises(InvalidScene, match="the carla world do not show worn_markings and contradictory_sign"):
        rig.play(EGO, head=params + HEAD)
