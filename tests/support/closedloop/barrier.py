"""Worlds in processes that begin at once, however long each takes to start: else one could be done before the next."""

from __future__ import annotations

import os
import time
from pathlib import Path

from closedloop_plugin.core.state import Observation
from closedloop_plugin.testing.fake_world import FakeWorld
from closedloop_plugin.worlds.base import EpisodeSetup

FOLDER, NUMBER = "CL_BARRIER_FOLDER", 2


def wait_for_all(folder: Path, name: str, number: int) -> None:
    """Leave word in `folder`, and wait until so many have."""
    (folder / f"{name}.there").touch()
    while len(list(folder.glob("*.there"))) < number:
        time.sleep(0.005)


class BarrierWorld(FakeWorld):
    """Meets in `folder` before its first episode; without one, two wait_for_all where the environment says."""

    def __init__(self, folder: str = "", number: int = NUMBER) -> None:
        super().__init__()
        self.folder, self.number = Path(folder or os.environ[FOLDER]), number

    def reset(self, setup: EpisodeSetup) -> Observation:
        wait_for_all(self.folder, str(os.getpid()), self.number)
        return super().reset(setup)
