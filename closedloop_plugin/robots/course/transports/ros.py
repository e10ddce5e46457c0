"""A course through ROS on this machine: master, sandbox node and the real on-board client, each in its own process.

The loop of section 3.2 of the paper except for the vehicle, which is simulated: planner -> TCP (or ssh) -> on-board
client -> rospy -> simulated vehicle -> camera -> planner. Runs in real time.
"""

from __future__ import annotations

import json
import math
import queue
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.robots import deploy
from closedloop_plugin.robots.course.route_hint import Pose
from closedloop_plugin.robots.course.runner import placement
from closedloop_plugin.robots.course.transports.linked import LinkedRun, LinkedTransport, PlannerSetup, Truth
from closedloop_plugin.robots.sandbox.node_process import READY, SandboxNodeProcess
from closedloop_plugin.robots.sandbox.track import TrackSegment
from closedloop_plugin.robots.transport.ros import RosChildProcess, RosMaster
from lmms_eval_ad2.errors import Ad2Error

GROUND_TRUTH_MODULE = "closedloop_plugin.robots.course.transports.ground_truth_node"
CLIENT = "closedloop_plugin.robots.onboard.client"
PLACED_S = 10.0  # for the vehicle to stand where it was placed
NEAR_M, NEAR_RAD = 0.005, math.radians(1)
STANDS = 0.005  # m/s
GRACE_S = 5.0


class GroundTruthProcess(RosChildProcess):
    """The ground-truth node as a child process. `truths`: queue of true poses in order."""

    def __init__(self, master: RosMaster) -> None:
        super().__init__("the ground-truth node", [sys.executable, "-m", GROUND_TRUTH_MODULE], master.env())
        if self.first_line != READY:
            self.close()
            raise Ad2Error(f"the ground-truth node printed {self.first_line!r} instead of {READY!r}")
        self.truths: queue.SimpleQueue[Truth] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="ad2-ground-truth", daemon=True).start()

    def place(self, pose: Pose) -> float:
        """Place the vehicle and wait for its pose there; returns the stamp of that pose. Earlier poses are dropped."""
        stdin, deadline = self.process.stdin, time.monotonic() + PLACED_S
        assert stdin is not None
        sent = float("-inf")
        while time.monotonic() < deadline:
            if time.monotonic() - sent > 1.0:  # repeated: the first may be sent before a subscriber is connected
                sent = time.monotonic()
                with suppress(BrokenPipeError):  # the process has ended: reported below
                    stdin.write(json.dumps(list(pose)).encode() + b"\n")
                    stdin.flush()
            with suppress(queue.Empty):
                t, x, y, yaw, speed = self.truths.get(timeout=0.1)
                there = math.dist((x, y), pose[:2]) < NEAR_M and abs(wrap(yaw - pose[2])) < NEAR_RAD
                if there and abs(speed) < STANDS:
                    return t
        raise Ad2Error(
            f"the sandbox's vehicle did not stand at {pose} within {PLACED_S:.0f} s: are its node and the "
            "ground-truth node running? See their messages above"
        )

    def _read(self) -> None:
        out = self.process.stdout
        assert out is not None
        with suppress(ValueError, OSError):  # the pipe was closed: the course is over
            for text in out:
                t, x, y, yaw, speed = json.loads(text)
                self.truths.put((t, x, y, yaw, speed))


class OnboardClientProcess:
    """The on-board client with the settings of `ad2 robot deploy`, in its own folder."""

    def __init__(self, link: PlannerSetup, master: RosMaster, folder: Path, port: int, log: Path) -> None:
        """`port`: port of the planner on the loopback of this machine."""
        settings = deploy.settings(link.robot)
        settings["planner"]["port"] = port
        (folder / deploy.SETTINGS).write_text(json.dumps(settings), "utf-8")
        token = folder / deploy.TOKEN
        token.touch(0o600)
        token.write_text(link.token.hex(), "ascii")
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            words = [sys.executable, "-m", CLIENT, str(folder / deploy.SETTINGS)]
            self.process = subprocess.Popen(words, env=master.env(), stdin=subprocess.DEVNULL, stderr=out)

    def close(self) -> None:
        self.process.terminate()  # it stops the vehicle and its relay before it ends
        try:
            self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class RosTransport(LinkedTransport):
    """See the module docstring."""

    name = "ros"

    def __init__(
        self,
        link: PlannerSetup,
        log: Path,
        way: Callable[[int], AbstractContextManager[int]] = lambda port: nullcontext(port),
    ) -> None:
        """`link`: from on_this_machine. `log`: log file of the client. `way`: context manager from the planner's port
        to the port that the client uses, for example the end of a tunnel."""
        super().__init__(link)
        with ExitStack() as undo:
            folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="ad2_onboard_")))
            master = undo.enter_context(RosMaster())
            node = SandboxNodeProcess(master, link.robot.file)
            undo.callback(node.close)
            self._ground_truth = GroundTruthProcess(master)
            undo.callback(self._ground_truth.close)
            client = OnboardClientProcess(link, master, folder, undo.enter_context(way(link.port)), log)
            undo.callback(client.close)
            self._children = {
                "the sandbox's node": node.process,
                "the ground-truth node": self._ground_truth.process,  # without it a run would end as too slow
                "the client": client.process,
            }
            self._began = 0.0
            self._undo = undo.pop_all()

    def place(self, segment: TrackSegment, seed: int) -> Pose:
        pose = placement(segment, seed)
        self._began = self._ground_truth.place(pose)
        return pose

    def poll(self, run: LinkedRun) -> None:
        dead = next((name for name, process in self._children.items() if process.poll() is not None), None)
        if dead:
            raise Ad2Error(f"{dead} ended by itself: see its log. The same command continues with this run")
        with suppress(queue.Empty):
            while run.referee.end is None:
                t, x, y, yaw, speed = self._ground_truth.truths.get_nowait()
                run.see((t - self._began, x, y, yaw, speed))

    def close(self) -> None:
        self._undo.close()


def free_port() -> int:
    """A loopback port on which no process listens now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def on_this_machine(link: PlannerSetup) -> PlannerSetup:
    """The setup with a new token and a fixed port for client and planner."""
    return replace(link, token=secrets.token_bytes(32), port=link.port or free_port())
