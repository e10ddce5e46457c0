"""Starts the sandbox's node as a child process."""

from __future__ import annotations

import sys
from pathlib import Path

from closedloop_plugin.robots.transport.ros import START_S, RosChildProcess, RosMaster
from lmms_eval_ad2.core.errors import Ad2Error

MODULE = "closedloop_plugin.robots.sandbox.node"
READY = "ready"


class SandboxNodeProcess(RosChildProcess):
    """`robot`: a file, or a name in configs/robots. `mode`: the mode its status reports, instead of the robot's."""

    def __init__(
        self, master: RosMaster, robot: str | Path, mode: int | None = None, timeout_s: float = START_S
    ) -> None:
        words = [sys.executable, "-m", MODULE, "--robot", str(robot)]
        words += [] if mode is None else ["--mode", str(mode)]
        super().__init__("the sandbox's node", words, master.env(), timeout_s)
        if self.first_line != READY:
            self.close()
            raise Ad2Error(f"the sandbox's node printed {self.first_line!r} instead of {READY!r}")
