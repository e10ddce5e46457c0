"""The ssh command line for tunnel, deployment and emergency stop on board, and the tunnel.

The tunnel between planner and vehicle: `ssh -R` from the lab machine, restarted when it is lost.

-R, not -L, because a vehicle has an sshd and the lab machine often has none; no key is stored on the vehicle. The
planner listens on the lab machine's loopback, and the vehicle's client connects to a port of its own loopback.

The session runs a command instead of using -N, for two reasons. sshd sets TCP_NODELAY only with a session: without it,
Nagle's algorithm and delayed acknowledgements add 20 to 47 ms to a 60 kB frame and its answer
(benchmarks/robot_link.py). And after a lost radio link sshd would hold the port for hours, blocking a new tunnel: the
command receives a heartbeat every second and ends its sshd after 3 s of silence.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from subprocess import PIPE
from typing import TYPE_CHECKING

from lmms_eval_ad2.core.errors import Ad2Error

if TYPE_CHECKING:
    from closedloop_plugin.robots.vehicles.robot_config import LinkSettings, RobotConfig

# No prompts, unknown host keys are rejected, and a dead link is detected after 3 s.
OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "ExitOnForwardFailure=yes",
    "ServerAliveInterval=1",
    "ServerAliveCountMax=3",
    "ConnectTimeout=5",
    "ControlMaster=no",  # a shared connection would outlive the tunnel
    "ControlPath=none",
)
BEAT_S = 1.0
READY_S = 20.0  # from the start of ssh to the first output of the command on the vehicle
PAUSES_S = (0.05, 0.5, 1.0, 2.0, 5.0)  # before the next attempt, by the number of failures in a row
RENEW, CLOSE = b"r", b"c"
READY = b"ad2 tunnel up"
# Runs on the vehicle. getppid is compared with its initial value, because a process whose sshd has ended is reparented.
GUARD = f"""import os, select, signal
parent = os.getppid()
os.write(1, {READY!r})
while select.select([0], [], [], 3.0)[0] and os.read(0, 64): pass
if os.getppid() == parent > 1: os.kill(parent, signal.SIGTERM)"""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*")  # cannot be read as an option or by a shell


def command(link: LinkSettings, *more: str, remote: str = "") -> list[str]:
    """The ssh arguments. `more`: further options; `remote`: the command for the vehicle's shell. The user's options
    come first, because ssh uses the first value of each."""
    for what, value in (("host", link.host), ("user", link.user)):
        if value and not _NAME.fullmatch(value):
            raise Ad2Error(f"link.{what} {value!r}: expected a plain name or address")
    if not link.host:
        raise Ad2Error("the robot's file has no link.host, the address of the vehicle")
    program = shutil.which("ssh")
    if not program:
        raise Ad2Error("ssh is not installed: apt-get install openssh-client")
    words = [program, "-T", "-p", str(link.port)]
    if link.key:
        words += ["-i", str(link.key), "-o", "IdentitiesOnly=yes"]
    for option in (*link.ssh_options, *OPTIONS):
        words += ["-o", option]
    target = f"{link.user}@{link.host}" if link.user else link.host
    return [*words, *more, "--", target, *([remote] if remote else [])]


def run(link: LinkSettings, remote: str, stdin: bytes = b"", limit_s: float = 60.0) -> str:
    """Run a command on the vehicle; returns its stdout. Ad2Error with the stderr of ssh or the command."""
    try:
        done = subprocess.run(command(link, remote=remote), input=stdin, capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise Ad2Error(f"{link.host}: no answer within {limit_s:g} s to: {_brief(remote)}") from None
    if done.returncode:
        raise Ad2Error(f"{link.host}: {last_words(done.stderr) or f'code {done.returncode}'} (at: {_brief(remote)})")
    return done.stdout.decode("utf-8", "replace")


def _brief(remote: str, most: int = 100) -> str:
    """The command's begin; `ad2 robot deploy --dry-run` prints whole ones."""
    return remote if len(remote) <= most else f"{remote[:most]}..."


def last_words(stderr: bytes, most: int = 300) -> str:
    """The end of a program's stderr, as one line of printable characters."""
    text = " ".join(stderr.decode("utf-8", "replace").split())
    return "".join(c if c.isprintable() else "?" for c in text)[-most:]


def shown(words: Sequence[str]) -> str:
    """The command quoted for a shell."""
    return shlex.join(words)


class SshTunnel:
    """Runs from `start` (or `with`) to `close` and reconnects when lost. `state`, `reason`: may be read at any time."""

    def __init__(self, robot: RobotConfig, local_port: int, on_change: Callable[[str], None] | None = None) -> None:
        """`local_port`: port of the planner. `on_change` is called with "state: reason" from the tunnel's thread."""
        forward = f"127.0.0.1:{robot.link.planner_port}:127.0.0.1:{local_port}"
        guard = f"exec {shlex.join([robot.onboard.python, '-c', GUARD])}"
        self.command = command(robot.link, "-R", forward, remote=guard)
        self.state, self.reason, self.starts = "down", "not started", 0
        self._on_change = on_change
        self._wake_read, self._wake = os.pipe()
        self._closed = threading.Event()
        self._closing = threading.Lock()  # guards the pipe: the number of a closed descriptor may be reused
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="ad2-tunnel", daemon=True)

    def start(self) -> SshTunnel:
        self._thread.start()
        return self

    def __enter__(self) -> SshTunnel:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def wait_up(self, limit_s: float) -> bool:
        """Wait until the tunnel is up, at most `limit_s`; returns whether it is."""
        return self._up.wait(limit_s)

    def renew(self) -> None:
        """Reconnect now, for a tunnel that is silent without having ended (a suspended ssh, for example)."""
        with self._closing:
            if not self._closed.is_set():
                os.write(self._wake, RENEW)

    def close(self) -> None:
        with self._closing:
            if self._closed.is_set():
                return
            self._closed.set()
            os.write(self._wake, CLOSE)
        if self._thread.is_alive():
            self._thread.join()
        os.close(self._wake)
        os.close(self._wake_read)

    def _keep(self) -> None:
        failures = 0
        while not self._closed.is_set():
            was_up = self._once()
            failures = 0 if was_up else failures + 1
            pause_s = PAUSES_S[min(failures, len(PAUSES_S) - 1)]
            if not self._closed.is_set() and select.select([self._wake_read], [], [], pause_s)[0]:
                os.read(self._wake_read, 64)
        self._set_state("down", "closed")

    def _once(self) -> bool:
        """Run one ssh to its end; returns whether the tunnel was up."""
        self.starts += 1
        self._set_state("connecting", "")
        # Its own session: Ctrl-C reaches only the planner, which stops the vehicle before it closes the tunnel.
        process = subprocess.Popen(
            self.command, bufsize=0, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        ssh_process = _SshProcess(process, self._wake_read)
        try:
            return ssh_process.watch(lambda: self._set_state("up", ""))
        finally:
            # SIGKILL: a suspended process would not handle SIGTERM. The whole group: a ProxyCommand holds the pipes.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            _, rest = process.communicate()
            ssh_process.output["stderr"] += rest
            error = last_words(ssh_process.output["stderr"])
            self._set_state("down", ssh_process.why or error or f"ssh ended ({process.returncode})")

    def _set_state(self, state: str, reason: str) -> None:
        self.state, self.reason = state, reason
        (self._up.set if state == "up" else self._up.clear)()
        if self._on_change:
            self._on_change(f"{state}: {reason}" if reason else state)


class _SshProcess:
    """Reads the output of one ssh process and sends it heartbeats."""

    def __init__(self, process: subprocess.Popen[bytes], wake: int) -> None:
        self.process, self.wake = process, wake
        self.output = {"stdout": b"", "stderr": b""}
        self.why = ""
        assert process.stdin and process.stdout and process.stderr
        self._stdin = process.stdin.fileno()
        self._names = {process.stdout.fileno(): "stdout", process.stderr.fileno(): "stderr"}
        os.set_blocking(self._stdin, False)

    def watch(self, on_up: Callable[[], None]) -> bool:
        up, started, beat = False, time.monotonic(), time.monotonic()
        while self._names:
            readable = select.select([self.wake, *self._names], [], [], max(beat - time.monotonic(), 0.0))[0]
            if self.wake in readable:
                self.why = "renewed" if os.read(self.wake, 64) == RENEW else "closed"
                return up
            for end in readable:
                data, name = os.read(end, 4096), self._names[end]
                self.output[name] = (self.output[name] + data)[-4096:]
                if not data:
                    del self._names[end]
            if not up and READY in self.output["stdout"]:
                up = True
                on_up()
            now = time.monotonic()
            if not up and now - started > READY_S:
                self.why = f"no sign of the vehicle within {READY_S:g} s"
                return up
            if now >= beat:
                beat = now + BEAT_S
                with suppress(BlockingIOError, BrokenPipeError):  # full or ended: detected elsewhere
                    os.write(self._stdin, b"\n")
        return up
