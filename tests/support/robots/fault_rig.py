"""The robot loop on this machine, for fault injection: sshd, rosmaster, the simulated vehicle, `ad2 robot plan`
with its tunnel, the client copied by `ad2 robot deploy`, and a monitor of the vehicle. Each is a process.

benchmarks/robot_faults.py uses it too.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from support.robots import ros_master
from support.robots.far_robot import far_robot, processes, yaml_of
from support.robots.sshd import sshd
from support.running import BIN, environment

from closedloop_plugin.robots import deploy
from closedloop_plugin.robots.planner import control
from closedloop_plugin.robots.sandbox.node import SandboxNodeProcess
from closedloop_plugin.robots.transport.ros import RosChildProcess
from closedloop_plugin.robots.vehicles.robot_config import RobotConfig, read_robot

HERE = Path(__file__).resolve().parent
SPEED = 0.3  # m/s
FULL = 0.675  # m/s at full throttle; the agent `straight` applies 4/9 of it from standstill
START = (0.4, 0.4, 0.0)  # m, m, rad: 3 m are free ahead, along the lower edge of the floor
OFFSET = 0.004  # m between the alternating starts
PATIENCE_S = 60.0
RECENT_S = 0.2  # s: a motion that began before that would end by itself too soon after the fault
STANDSTILL = 1e-3  # m/s: slower counts as standstill
STILL_S = 0.1  # s of standstill until the vehicle counts as stopped


@dataclass(frozen=True)
class Truth:
    """`t`: s on this machine's monotonic clock."""

    t: float
    x: float
    y: float
    v: float
    yaw: float


@dataclass(frozen=True)
class Command:
    t: float
    moves: bool
    node: str


@dataclass(frozen=True)
class Stop:
    """Measured stop after a fault; times from the fault. `stall_s`: the longest stall of this machine meanwhile."""

    zero_s: float  # to the first zero on the command topic
    by: str  # the node that published it
    standstill_s: float
    distance_m: float
    stall_s: float


class VehicleMonitor(RosChildProcess):
    """fault_watch.py in a process, and its reports so far."""

    def __init__(self, master: ros_master.FaultyRosMaster) -> None:
        super().__init__("the monitor", [sys.executable, str(HERE / "fault_watch.py")], master.env())
        assert self.first_line == '["ready"]', self.first_line
        self.truths: list[Truth] = []
        self.commands: list[Command] = []
        self.stalls: list[tuple[float, float]] = []
        self._reported = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, what: str, *values: float) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps([what, *values]).encode() + b"\n")
        self.process.stdin.flush()

    def wait(self, holds: Callable[[], Any], what: str) -> Any:
        """Wait until `holds()`, which is evaluated again after each report; returns its result."""
        with self._reported:
            found = self._reported.wait_for(holds, PATIENCE_S)
        assert found, f"{what}: not within {PATIENCE_S:g} s"
        return found

    def placed(self, y: float) -> bool:
        return bool(self.truths) and abs(self.truths[-1].y - y) < OFFSET / 4

    def under_way(self) -> bool:
        """Whether it drives at full speed in a motion that began recently. Call with the lock held."""
        if not self.commands or self.truths[-1].v < SPEED - 0.002 or not self.commands[-1].moves:
            return False
        zeros = [c.t for c in self.commands[-20:] if not c.moves]
        return bool(zeros) and time.monotonic() - zeros[-1] < RECENT_S + 0.05

    def stop_after(self, t: float) -> Stop:
        """Wait until the vehicle stands still, and measure its distance since `t` (interpolated between reports)."""
        standstill = self.wait(lambda: self._standstill_after(t), "the vehicle stands")
        zero = next(c for c in self.commands if c.t >= t and not c.moves)
        before = max((p for p in self.truths if p.t <= t), key=lambda p: p.t)
        after = [p for p in self.truths if t < p.t <= standstill]
        fraction = (t - before.t) / (after[0].t - before.t)
        distance = (1 - fraction) * math.dist((before.x, before.y), (after[0].x, after[0].y))
        distance += sum(math.dist((a.x, a.y), (b.x, b.y)) for a, b in pairwise(after))
        gaps = [b.t - a.t - 0.02 for a, b in pairwise([before, *after])]
        stall = max([0.0, *gaps, *(late for at, late in self.stalls if t <= at and at - late <= standstill)])
        return Stop(zero.t - t, zero.node, standstill - t, distance, stall)

    def moved_after(self, t: float) -> float:
        """Wait until it drives; returns the time on the monotonic clock, s."""
        return float(self.wait(lambda: next((p.t for p in self.truths if p.t > t and p.v > 0.05), 0.0), "it drives"))

    def _standstill_after(self, t: float) -> float:
        start: float | None = None
        for p in self.truths:
            if p.t > t:
                start = (start or p.t) if abs(p.v) < STANDSTILL else None
                if start is not None and p.t - start >= STILL_S:
                    return start
        return 0.0

    def _read(self) -> None:
        assert self.process.stdout
        with suppress(ValueError, OSError):  # closed at the end of the test
            for line in self.process.stdout:
                what, *values = json.loads(line)
                with self._reported:
                    self._keep(what, values)
                    self._reported.notify_all()

    def _keep(self, what: str, values: list[Any]) -> None:
        if what == "truth":
            self.truths = [*self.truths[-500:], Truth(*values)]
        elif what == "cmd":
            self.commands = [*self.commands[-500:], Command(*values)]
        else:
            self.stalls.append((values[0], values[1]))


class Rig:
    """The running loop. Call `begin` before each fault."""

    def __init__(self, folder: Path, robot: RobotConfig, master: ros_master.FaultyRosMaster, home: Path) -> None:
        self.folder, self.robot, self.master, self.home = folder, robot, master, home
        self.monitor = VehicleMonitor(master)
        self.planner: subprocess.Popen[bytes]
        self.client: subprocess.Popen[bytes]
        self._started: list[subprocess.Popen[bytes]] = []
        self._offset = 0.0  # of the last start, m

    def start_planner(self) -> None:
        words = ["robot", "plan", "--robot", str(self.robot.file), "--agent", "straight", "--out", "out"]
        with (self.folder / "planner.log").open("ab") as log:
            self.planner = subprocess.Popen(
                [BIN / "ad2", *words], env=environment(AD2_HOME=str(self.home)), stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, cwd=self.folder,
            )  # fmt: skip
        self._started.append(self.planner)

    def start_client(self) -> None:
        """Start the client as on the vehicle, from the folder of the deployment."""
        folder = Path(self.robot.link.folder)
        with (self.folder / "client.log").open("ab") as log:
            self.client = subprocess.Popen(
                [sys.executable, "-m", "closedloop_plugin.robots.onboard.client", deploy.SETTINGS],
                env=self.master.env(), stderr=log, stdin=subprocess.DEVNULL, cwd=folder,
            )  # fmt: skip
        self._started.append(self.client)

    def replace_planner(self) -> None:
        self.planner.wait(PATIENCE_S)
        self.start_planner()

    def replace_client(self) -> None:
        self.client.wait(PATIENCE_S)
        self.start_client()

    def begin(self) -> None:
        """Put the vehicle at the start, and wait until it drives at full speed.

        Starts alternate by 4 mm: the vehicle may still be near the last start, and a late placement must not be counted
        as driven distance.
        """
        self._offset = OFFSET - self._offset
        x, y, yaw = START
        self.monitor.send("place", x, y + self._offset, yaw)
        try:
            self.monitor.wait(lambda: self.monitor.placed(y + self._offset), "placed")
            self.monitor.wait(self.monitor.under_way, f"driving at {SPEED} m/s")
        except AssertionError as exc:
            raise AssertionError(f"{exc}\n{self._situation()}") from None

    def _situation(self) -> str:
        """The last commands and speeds, and the ends of the logs."""
        now, monitor = time.monotonic(), self.monitor
        commands = [f"{c.t - now:.3f} s: {'moves' if c.moves else 'zero'} by {c.node}" for c in monitor.commands[-20:]]
        speeds = [f"{p.t - now:.3f} s: {p.v:.3f} m/s at {p.x:.2f}, {p.y:.2f}" for p in monitor.truths[-20:]]
        files = [self.folder / name for name in ("planner.log", "client.log", "out/planner.jsonl")]
        logs = [f"{file.name}: {file.read_text('utf-8')[-1500:] if file.exists() else 'none'}" for file in files]
        return "\n".join([*commands, *speeds, *logs])

    def ssh(self) -> int:
        """Process id of the tunnel."""
        (pid,) = processes(f"127.0.0.1:{self.robot.link.planner_port}:")
        return pid

    def relay(self) -> int:
        """Process id of the relay."""
        here = Path(self.robot.link.folder).resolve()
        (pid,) = [p for p in processes("onboard.relay") if Path(f"/proc/{p}/cwd").resolve() == here]
        return pid

    def request(self, do: str) -> dict[str, Any]:
        """Send the request `do` to the control socket; returns the planner's state."""
        return control.send_request(control.socket_path(self.home / "robots", self.robot.name), do)

    def ad2(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BIN / "ad2", "robot", *words, "--robot", str(self.robot.file)],
            env=environment(AD2_HOME=str(self.home)), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def client_events(self, event: str) -> list[dict[str, Any]]:
        """Log entries of this kind by the clients and their relays."""
        return [line for line in _lines(self.folder / "client.log") if line["event"] == event]

    def cycles(self) -> list[dict[str, Any]]:
        """Cycles in the log of the planners."""
        return [line for line in _lines(self.folder / "out" / "planner.jsonl") if line["event"] == "cycle"]

    def overheads(self) -> list[float]:
        """Time of each cycle from the image to the start of its motion, without the time of the agent, s."""
        agent_s = {(c["session"], c["seq"]): c["thinking_s"] for c in self.cycles()}
        session, found = "", []
        for line in _lines(self.folder / "client.log"):
            session = line["session"] if line["event"] == "connected" else session
            if line["event"] == "motion" and (session, line["seq"]) in agent_s:
                found.append(line["age_s"] - agent_s[session, line["seq"]])
        return found

    def close(self) -> None:
        """End all processes, the client first: it leaves the vehicle at standstill."""
        for process in reversed(self._started):
            with suppress(OSError):
                process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(30.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.monitor.close()


def _lines(file: Path) -> list[dict[str, Any]]:
    """Complete JSON lines of `file`; a line cut by a kill is skipped."""
    found = []
    for line in file.read_text("utf-8").split("\n")[:-1] if file.exists() else []:
        with suppress(ValueError):
            found.append(json.loads(line))
    return [line for line in found if isinstance(line, dict)]


@dataclass(frozen=True)
class Fault:
    """`strike` causes the fault; `repair` undoes it, as a person would once the vehicle stands still.

    most_m: longest distance allowed to standstill. by: prefix of the node whose zero command stops the vehicle.
    """

    name: str
    strike: Callable[[Rig], object]
    repair: Callable[[Rig], object] = lambda rig: None
    most_m: float = 0.05
    by: str = "/ad2_"


FAULTS = (
    Fault("tunnel killed", lambda rig: os.kill(rig.ssh(), signal.SIGKILL)),
    Fault("tunnel frozen", lambda rig: os.kill(rig.ssh(), signal.SIGSTOP), most_m=0.15),
    Fault("planner killed", lambda rig: rig.planner.kill(), Rig.replace_planner),
    Fault("on-board client killed", lambda rig: rig.client.kill(), Rig.replace_client, by="/ad2_relay"),
    Fault(
        "on-board client frozen",
        lambda rig: rig.client.send_signal(signal.SIGSTOP),
        lambda rig: rig.client.send_signal(signal.SIGCONT),
        by="/ad2_relay",
    ),
    Fault("relay killed", lambda rig: os.kill(rig.relay(), signal.SIGKILL), by="/ad2_onboard"),
    Fault("relay frozen", lambda rig: os.kill(rig.relay(), signal.SIGSTOP), most_m=0.15, by="/ad2_onboard"),
    Fault(
        "camera stalled",
        lambda rig: rig.monitor.send("camera", False),
        lambda rig: rig.monitor.send("camera", True),
    ),
    Fault("emergency stop", lambda rig: rig.request("stop"), lambda rig: rig.request("release")),
)
# Must be the last fault of a rig: the base does not register with the new master, so a new client cannot find it.
MASTER = Fault("ROS master killed", lambda rig: rig.master.kill(), lambda rig: rig.master.restart())


def strike_and_repair(loop: Rig, fault: Fault) -> tuple[Stop, float]:
    """Cause the fault, measure the stop, repair; returns the stop and the time from the repair until it drives, s."""
    loop.begin()
    at = time.monotonic()
    try:
        fault.strike(loop)
        stop = loop.monitor.stop_after(at)
    finally:
        repaired = time.monotonic()
        fault.repair(loop)
    return stop, loop.monitor.moved_after(repaired) - repaired


@contextmanager
def rig(folder: Path, mode: int | None = None, speed: float | None = FULL, with_planner: bool = True) -> Iterator[Rig]:
    """Run the complete loop. Needs sshd and rospy (sshd.py, ros_master.py). `mode`: in the status of the vehicle;
    `speed`: at full throttle, m/s, or None for the robot's own; `with_planner` False: the test has its own."""
    ros_master.ros_path()
    with ExitStack() as stack:
        server = stack.enter_context(sshd(folder / "sshd"))
        file = yaml_of(far_robot(server, folder / "vehicle"), folder)
        if speed is not None:
            file.write_text(f"{file.read_text('utf-8')}limits:\n  speed: {speed}\n", "utf-8")
        robot, home = read_robot(file), folder / "home"
        deploy.deploy(robot, deploy.make_token(home / "robots" / f"{robot.name}.token"))
        master = stack.enter_context(ros_master.FaultyRosMaster())
        node = SandboxNodeProcess(master, file, mode)
        stack.callback(node.close)
        loop = Rig(folder, robot, master, home)
        stack.callback(loop.close)
        if with_planner:
            loop.start_planner()
        loop.start_client()
        yield loop
