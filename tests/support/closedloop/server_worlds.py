"""Worlds with one server each, importable by name in world processes; files in a folder set how each fails."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from support.closedloop.barrier import wait_for_all

from closedloop_plugin.core.state import Control, Observation
from closedloop_plugin.worlds.base import EpisodeSetup, WorldError
from closedloop_plugin.worlds.testing.fake_world import FakeWorld


class ServerWorld(FakeWorld):
    """The file `folder`/<server> sets a failure: "gone" does not start, "broken" fails every episode.

    drives.txt lists the episodes. None begins before `together` worlds have started.
    """

    def __init__(self, folder: str, server: str, bad_route: str = "", together: int = 1) -> None:
        super().__init__()
        self.folder, self.server, self.bad_route, self.together = Path(folder), server, bad_route, together
        if self._mode() == "gone":
            raise WorldError(f"{server}: nobody there")
        if self._mode() == "silent":
            time.sleep(3600)
        if self._mode() == "babbles":
            os.kill(os.getpid(), signal.SIGABRT)

    def _mode(self) -> str:
        file = self.folder / self.server
        return file.read_text() if file.exists() else ""

    def reset(self, setup: EpisodeSetup) -> Observation:
        assert setup.route is not None
        wait_for_all(self.folder, self.server, self.together)
        with (self.folder / "drives.txt").open("a") as lines:
            lines.write(f"{self.server} {setup.route.id}\n")
        if self.bad_route in (setup.route.id, "all"):
            raise WorldError("this route kills the server")
        return super().reset(setup)

    def step(self, control: Control) -> Observation:
        observation = super().step(control)
        if self._mode() == "broken" and observation.tick == 3:
            raise WorldError("lost a frame")
        if self._mode() == "goes" and observation.tick == 3:
            (self.folder / self.server).write_text("gone")
            os.kill(os.getpid(), signal.SIGKILL)
        return observation
