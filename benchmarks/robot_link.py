"""Latency of the link to a vehicle: a 60 kB image one way and a command back, without the time of the agent.

    python benchmarks/robot_link.py [--json FILE]

Needs ssh and sshd (apt-get install openssh-server), no ROS and no vehicle: sshd runs on loopback with its own keys. The
planner is a separate process; this process is the vehicle's end. First bare exchanges of 60 kB and 200 bytes: over TCP,
through `ssh -N` in both directions, and through our tunnel, which opens a session. Then whole cycles through planner
and tunnel, with an agent that answers at once and with one that takes 100 ms; "within it" is the planner's own share,
from the arrival of an image to the command that is sent, without the agent's time.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from measured_json import UnavailablePart, run_benchmark, scaled

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.driver.agents.baselines import StraightDriver
from closedloop_plugin.robots.onboard.link import PlannerLink, WakePipe, open_link
from closedloop_plugin.robots.planner.journal import FILE as JOURNAL
from closedloop_plugin.robots.planner.journal import PlannerJournal
from closedloop_plugin.robots.planner.server import PlannerServer
from closedloop_plugin.robots.transport import ssh
from closedloop_plugin.robots.transport.ssh import SshTunnel
from closedloop_plugin.robots.vehicles.robot_config import LinkSettings, RobotConfig, find_robot

IMAGE_BYTES, COMMAND_BYTES = 60_000, 200  # bytes
ROUNDS, PAUSE_S, AGENT_S = 60, 0.05, 0.1
EXCHANGE_PAUSE_S = 0.01  # pause between two bare exchanges
HEARTBEAT_S = 0.02
TOKEN = bytes(32)


def exchanges(scale: float) -> dict[str, float]:
    """Bare exchanges of 60 kB and 200 bytes, ms."""
    found: dict[str, float] = {}
    rounds = scaled(ROUNDS, scale)
    with tempfile.TemporaryDirectory() as folder, _sshd(Path(folder)) as robot, _child("--echo") as port:
        found |= _summary("tcp", _exchanges(port, rounds))
        for label, direction in (("ssh_l", "-L"), ("ssh_r", "-R")):
            with _plain(robot, direction, port) as through:
                found |= _summary(label, _exchanges(through, rounds))
        with SshTunnel(robot, port) as tunnel:
            assert tunnel.wait_up(30), tunnel.reason
            found |= _summary("tunnel", _exchanges(robot.link.planner_port, rounds))
    return found


def cycles(agent_s: float, scale: float) -> dict[str, float]:
    """Whole cycles with an agent that takes agent_s, without that time, ms."""
    found: dict[str, float] = {}
    rounds = scaled(ROUNDS, scale)
    with tempfile.TemporaryDirectory() as folder, _sshd(Path(folder)) as robot:
        journal = Path(folder, "journal")
        with _child("--planner", str(agent_s), str(journal)) as port:
            found |= _summary("tcp", _cycles(port, agent_s, rounds))
            with SshTunnel(robot, port) as tunnel:
                assert tunnel.wait_up(30), tunnel.reason
                found |= _summary("tunnel", _cycles(robot.link.planner_port, agent_s, rounds))
        rows = map(json.loads, (journal / JOURNAL).read_text("utf-8").splitlines())
        return found | _summary("planner", [row["overhead_s"] for row in rows if row["event"] == "cycle"])


def _summary(label: str, spent: list[float]) -> dict[str, float]:
    return {f"{label}_ms": 1000 * statistics.median(spent), f"{label}_max_ms": 1000 * max(spent)}


def _exchanges(port: int, rounds: int) -> list[float]:
    """Time of each exchange, s: 60 kB out, 200 bytes back."""
    spent = []
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(rounds):
            time.sleep(EXCHANGE_PAUSE_S)
            started = time.perf_counter()
            sock.sendall(bytes(IMAGE_BYTES))
            left = COMMAND_BYTES
            while left:
                left -= len(sock.recv(left))
            spent.append(time.perf_counter() - started)
    return spent


def _cycles(port: int, agent_s: float, rounds: int) -> list[float]:
    """Time from an image to its command without the agent's, s, with the protocol of the on-board client."""
    link, session = open_link("127.0.0.1", port, TOKEN, "limo-ackermann", WakePipe())
    picture, spent, beats = os.urandom(IMAGE_BYTES), [], 0
    for seq in range(rounds):
        beats = _listen(link, session, beats, time.perf_counter() + PAUSE_S, lambda kind: False)
        started = time.perf_counter()
        seen = {"odom": None, "status": None, "motion": None}
        link.send("obs", picture, session=session, seq=seq, stamp=started, **seen)
        beats = _listen(link, session, beats, started + 30, lambda kind: kind == "cmd")
        spent.append(time.perf_counter() - started - agent_s)
    link.close()
    return spent


def _listen(link: PlannerLink, session: str, beats: int, end: float, enough: Callable[[str], bool]) -> int:
    """Read frames until one is `enough` or `end`, and send heartbeats; returns the number of the next heartbeat."""
    due = time.perf_counter()
    while (now := time.perf_counter()) < end:
        if now >= due and not link.busy:
            link.send("heartbeat", session=session, n=beats)
            beats, due = beats + 1, now + HEARTBEAT_S
        if any(enough(kind) for kind, _, _ in link.wait(min(end, due) - now)):
            break
    return beats


@contextlib.contextmanager
def _plain(robot: RobotConfig, direction: str, port: int) -> Iterator[int]:
    """`ssh -N` as typed by a user; yields the local port to connect to."""
    through = _free_port()
    command = ssh.command(robot.link, "-N", direction, f"127.0.0.1:{through}:127.0.0.1:{port}")
    with subprocess.Popen(command) as process:
        try:
            while not _open(through):
                assert process.poll() is None, "ssh ended"
                time.sleep(0.05)
            yield through
        finally:
            process.kill()


@contextlib.contextmanager
def _sshd(folder: Path) -> Iterator[RobotConfig]:
    """The sandbox's robot, reached through a private sshd."""
    server = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if server is None or shutil.which("ssh") is None:
        raise UnavailablePart("no ssh or sshd found (apt-get install openssh-server)")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    port = _free_port()
    (folder / "config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        "PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n"
    )
    public = (folder / "host.pub").read_text()
    (folder / "known").write_text(f"[127.0.0.1]:{port} {public}")
    options = (f"UserKnownHostsFile={folder}/known", "GlobalKnownHostsFile=none", "LogLevel=ERROR")
    link = LinkSettings("127.0.0.1", "", port, str(folder / "user"), _free_port(), str(folder), options)
    with subprocess.Popen([server, "-D", "-e", "-f", folder / "config"], stderr=subprocess.DEVNULL) as process:
        try:
            while not _open(port):
                time.sleep(0.02)
            yield replace(find_robot("sandbox"), link=link)
        finally:
            process.kill()


@contextlib.contextmanager
def _child(*words: str) -> Iterator[int]:
    """Run this script with `words` in a child process until the end of the block; yields its port."""
    command = [sys.executable, __file__, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        yield int(process.stdout.readline())
        process.stdin.close()


def _echo() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_accept, args=[server], daemon=True).start()
        print(server.getsockname()[1], flush=True)
        sys.stdin.read()


def _accept(server: socket.socket) -> None:
    while True:
        sock, _ = server.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_answer, args=[sock], daemon=True).start()


def _answer(sock: socket.socket) -> None:
    left = IMAGE_BYTES
    while data := sock.recv(65536):
        left -= len(data)
        if left <= 0:
            sock.sendall(bytes(COMMAND_BYTES))
            left += IMAGE_BYTES


class SlowDriver(StraightDriver):
    """Drives straight and takes `seconds` for each decision."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def decide(self, requests: Any) -> Any:
        time.sleep(self.seconds)
        return super().decide(requests)


def _plan(agent_s: float, journal: Path) -> None:
    vehicle, rules = find_robot("sandbox").vehicle, profile("bench2advlm")
    planner = PlannerServer(SlowDriver(agent_s), None, rules, vehicle, TOKEN, journal=PlannerJournal(journal))

    def end() -> None:
        sys.stdin.read()
        planner.close()

    threading.Thread(target=end, daemon=True).start()
    with planner.listening("127.0.0.1", 0) as (_, port):
        print(port, flush=True)
        planner.work()


def _open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


PARTS: dict[str, Callable[[float], dict[str, float]]] = {
    "exchange": exchanges,
    "cycle": partial(cycles, 0.0),
    "cycle-with-agent": partial(cycles, AGENT_S),
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--echo"]:
        _echo()
    elif sys.argv[1:2] == ["--planner"]:
        _plan(float(sys.argv[2]), Path(sys.argv[3]))
    else:
        raise SystemExit(run_benchmark(__doc__, PARTS))
