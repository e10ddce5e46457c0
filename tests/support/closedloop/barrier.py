"""A world that waits for others: all begin their first episode at once, so none has finished before the next starts."""

from __future__ import annotations

import os
import time
from pathlib import Path

from closedloop_plugin.core.state import Observation
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.testing.fake_world import FakeWorld

FOLDER, NUMBER = "CL_BARRIER_FOLDER", 2


def wait_for_all(folder: Path, name: str, number: int) -> None:
    """Create a file in `folder`, and wait until `number` processes have done so."""
    (folder / f"{name}.there").touch()
    while len(list(folder.glob("*.there"))) < number:
        time.sleep(0.005)


class BarrierWorld(FakeWorld):
    """Waits in `folder` (default: from the environment) for `number` worlds before it begins an episode."""

    def __init__(self, folder: str = "", number: int = NUMBER) -> None:
        super().__init__()
        self.folder, self.number = Path(folder or os.environ[FOLDER]), number

    def reset(self, setup: EpisodeSetup) -> Observation:
        wait_for_all(self.folder, str(os.getpid()), self.number)
        return super().reset(setup)
