"""A course through ROS on this machine: a master, the sandbox's node, the real on-board client, each a process.

The one loop of the paper's section 3.2 but for the vehicle itself: planner -> TCP (or ssh) -> on-board client -> rospy
-> simulated vehicle -> camera, and back. Runs in real time.
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
from pathlib import Path as File

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.robots import deploy
from closedloop_plugin.robots.course.route_hint import Pose
from closedloop_plugin.robots.course.runner import placed
from closedloop_plugin.robots.course.transports.linked import LinkedRun, LinkedTransport, PlannerSetup, Truth
from closedloop_plugin.robots.sandbox.node_process import READY, SandboxNodeProcess
from closedloop_plugin.robots.sandbox.track import TrackSegment
from closedloop_plugin.robots.transport.ros import RosChildProcess, RosMaster
from lmms_eval_ad2.errors import Ad2Error

WITNESS = "closedloop_plugin.robots.course.transports.ground_truth_node"
CLIENT = "closedloop_plugin.robots.onboard.client"
PLACED_S = 10.0  # for the vehicle to stand where it was put
NEAR_M, NEAR_RAD = 0.005, math.radians(1)
STANDS = 0.005  # m/s
GRACE_S = 5.0


class GroundTruthProcess(RosChildProcess):
    """The witness's process; `truths` in their order, `latest` the newest."""

    def __init__(self, master: RosMaster) -> None:
        super().__init__("the witness", [sys.executable, "-m", WITNESS], master.env())
        if self.said != READY:
            self.close()
            raise Ad2Error(f"the witness said {self.said!r} instead of {READY!r}")
        self.truths: queue.SimpleQueue[Truth] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="ad2-witness", daemon=True).start()

    def place(self, pose: Pose) -> float:
        """Put the vehicle there and wait until it stands there; the stamp of that truth. Earlier ones are gone."""
        stdin, until = self.process.stdin, time.monotonic() + PLACED_S
        assert stdin is not None
        asked = float("-inf")
        while time.monotonic() < until:
            if time.monotonic() - asked > 1.0:  # the first may be lost: its publisher has no listener yet
                asked = time.monotonic()
                with suppress(BrokenPipeError):  # it has ended: told below
                    stdin.write(json.dumps(list(pose)).encode() + b"\n")
                    stdin.flush()
            with suppress(queue.Empty):
                t, x, y, yaw, speed = self.truths.get(timeout=0.1)
                there = math.dist((x, y), pose[:2]) < NEAR_M and abs(wrap(yaw - pose[2])) < NEAR_RAD
                if there and abs(speed) < STANDS:
                    return t
        raise Ad2Error(
            f"the sandbox's vehicle did not stand at {pose} within {PLACED_S:.0f} s: are its node and the "
            "witness alive? See their messages above"
        )

    def _read(self) -> None:
        out = self.process.stdout
        assert out is not None
        with suppress(ValueError, OSError):  # the pipe was closed under us: the course is over
            for text in out:
                t, x, y, yaw, speed = json.loads(text)
                self.truths.put((t, x, y, yaw, speed))


class OnboardClientProcess:
    """The on-board client, as `ad2 robot deploy` would set it up, in a folder of its own."""

    def __init__(self, link: PlannerSetup, master: RosMaster, folder: File, port: int, log: File) -> None:
        """`port`: of this machine's loopback, where the planner is found."""
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
        self.process.terminate()  # it stops the vehicle, and its relay, before it ends
        try:
            self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class RosTransport(LinkedTransport):
    """See the head of this file."""

    name = "ros"

    def __init__(
        self,
        link: PlannerSetup,
        log: File,
        way: Callable[[int], AbstractContextManager[int]] = lambda port: nullcontext(port),
    ) -> None:
        """`link`: as on_this_machine has it. `log`: of the client. `way`: to the planner's port; gives the port where
        the client finds it, a tunnel's end say."""
        super().__init__(link)
        with ExitStack() as undo:
            folder = File(undo.enter_context(tempfile.TemporaryDirectory(prefix="ad2_onboard_")))
            master = undo.enter_context(RosMaster())
            node = SandboxNodeProcess(master, link.robot.file)
            undo.callback(node.close)
            self._witness = GroundTruthProcess(master)
            undo.callback(self._witness.close)
            client = OnboardClientProcess(link, master, folder, undo.enter_context(way(link.port)), log)
            undo.callback(client.close)
            self._children = {
                "the sandbox's node": node.process,
                "the witness": self._witness.process,  # without it a run would end as too slow
                "the client": client.process,
            }
            self._began = 0.0
            self._undo = undo.pop_all()

    def place(self, segment: TrackSegment, seed: int) -> Pose:
        pose = placed(segment, seed)
        self._began = self._witness.place(pose)
        return pose

    def look(self, run: LinkedRun) -> None:
        dead = next((name for name, process in self._children.items() if process.poll() is not None), None)
        if dead:
            raise Ad2Error(f"{dead} ended by itself: see its log. The same command goes on with this run")
        with suppress(queue.Empty):
            while run.watch.end is None:
                t, x, y, yaw, speed = self._witness.truths.get_nowait()
                run.see((t - self._began, x, y, yaw, speed))

    def close(self) -> None:
        self._undo.close()


def free_port() -> int:
    """One of loopback's that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def on_this_machine(link: PlannerSetup) -> PlannerSetup:
    """With a token of its own and a port that client and planner agree on."""
    return replace(link, token=secrets.token_bytes(32), port=link.port or free_port())
