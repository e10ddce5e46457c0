"""The supervisor of one server: starts it, asks it, restarts it when it dies or hangs, ends it on SIGTERM.

A process of its own, in a session of its own: it outlives the command that started it. One for each server: what
befalls one does not hold up another, and each file of state has one writer.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from closedloop_plugin.carla.servers import containers, processes, state
from closedloop_plugin.carla.servers.probe import ServerProbe, ServerProbeResult
from closedloop_plugin.carla.servers.spec import CarlaServerSpec, taken
from closedloop_plugin.carla.servers.state import CarlaServerRecord
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.storage.lock import try_lock

TICK_S = 0.2
STILLBORN = 3  # starts in a row without an answer: then there is something to mend
SETTLED_S = 300.0  # a life of that length, and the next restart is quick again
BACKOFF_MOST_S = 60.0
GRACE_S = 10.0
LOG_BYTES = 50_000_000


@dataclass
class CarlaServerSupervisor:
    """One server's supervisor. `run` returns when the server has been ended, or is given up."""

    job: CarlaServerSpec
    folder: Path
    entry: CarlaServerRecord = field(init=False)
    _child: subprocess.Popen[bytes] | None = None
    _answered: float | None = None  # monotonic time of the last answer of this life
    _failures: int = 0  # probes in a row without one
    _starts: int = 0
    _wake: int = -1

    def __post_init__(self) -> None:
        mark = processes.mark_of(os.getpid())
        assert mark is not None
        engine = self.job.engine if self.job.image else ""
        token = secrets.token_hex(16)
        name = state.container_name(self.job.port, token) if engine else ""
        self.entry = CarlaServerRecord(
            self.job.port, token, "starting", mark, self.job.what, gpu=self.job.gpu, engine=engine, container=name
        )

    def run(self) -> None:
        self._wake = _wake_on_signals()
        with (self.folder / f"{self.job.port}.lock").open("w") as lock:
            if not try_lock(lock):
                raise Ad2Error(f"port {self.job.port}: another supervisor is at work there")
            self._new_log()
            try:
                ended = self._lives()
            finally:
                self._end_server()
            if ended:
                self._say("ended")
                state.remove(self.folder, self.job.port)

    def _lives(self) -> bool:
        """Start after start. True: asked to end; False: given up."""
        stillborn, wait_s = 0, 0.0
        while True:
            begun = time.monotonic()
            reason = taken(self.job.port, traffic_manager=False) or self._life()
            self._end_server()
            if not reason:
                return True
            stillborn = 0 if self._answered else stillborn + 1
            if stillborn >= STILLBORN:
                self._write(stage="failed", reason=f"{reason}; given up after {stillborn} starts without an answer")
                return False
            settled = time.monotonic() - begun > SETTLED_S
            wait_s = self.job.backoff_s if settled or not wait_s else min(2 * wait_s, BACKOFF_MOST_S)
            self._write(stage="restarting", reason=f"{reason}; next start in {wait_s:g} s")
            if self._pause(wait_s):
                return True

    def _life(self) -> str:
        """One start, to its end: why it ended; empty: we were asked to end it."""
        self._answered, self._failures = None, 0
        try:
            self._start()
        except OSError as exc:
            return f"does not start: {exc}"
        question: ServerProbe | None = None
        begun = ask_at = time.monotonic()
        try:
            while not self._pause(TICK_S):
                if died := self._how_it_died():
                    return died
                if question is None and time.monotonic() >= ask_at:
                    question = ServerProbe("127.0.0.1", self.job.port, min(20.0, self.job.hang_s / 3), simulation=True)
                elif question and (found := question.answer()):
                    question = None
                    ask_at = time.monotonic() + (min(10.0, self.job.hang_s / 10) if self._answered else 1.0)
                    if hung := self._judge(found, begun):
                        return hung
            return ""
        finally:
            if question:
                question.end()

    def _start(self) -> None:
        """The token is written before the process is there: one that is killed in between is still found."""
        token = secrets.token_hex(16)
        name = state.container_name(self.job.port, token) if self.entry.engine else ""
        self._write(token=token, container=name, stage="starting", server=None, since=time.time(), server_version="",
                    restarts=self._starts)  # fmt: skip
        self._starts += 1
        command = self.job.command(name)
        self._say("start: " + " ".join(command))
        with state.log_file(self.folder, self.job.port).open("ab") as log:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, processes.TOKEN: token},
                cwd=Path(self.job.binary).parent if self.job.binary else None,
            )
        self._write(server=processes.mark_of(self._child.pid))

    def _how_it_died(self) -> str:
        """Empty while it lives. It stays a zombie, which holds its pid until the rest of it is ended."""
        assert self._child is not None
        found = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return ""
        if found.si_code == os.CLD_EXITED:
            return f"died (exit code {found.si_status})"
        return f"died ({signal.Signals(found.si_status).name})"

    def _judge(self, found: ServerProbeResult, begun: float) -> str:
        """What an answer, or its absence, means: why it is to be restarted, or empty."""
        now = time.monotonic()
        self._bound_log()
        if found.answers:
            self._answered, self._failures = now, 0
            if self.entry.stage != "answers":
                self._write(stage="answers", server_version=found.server_version, reason="")
            return ""
        self._failures += 1
        if self._answered and self.entry.stage == "answers":
            self._write(stage="silent", reason=f"{found.kind.value}: {found.reason}")
        quiet = now - (self._answered or begun)
        if quiet > self.job.hang_s and self._failures >= 3:  # one late look, of a machine that slept, is no proof
            return f"hung: no answer for {quiet:.0f} s ({found.kind.value}: {found.reason})"
        return ""

    def _end_server(self) -> None:
        """All of it, and only it. Twice for a container: `run` may be about to make it."""
        if self._child is None:
            return
        leader = self.entry.server or processes.mark_of(self._child.pid)
        try:
            if self.entry.container:
                containers.end(self.entry.engine, self.entry.container)
            processes.end(leader, self.entry.token, GRACE_S)
            if self.entry.container:
                containers.end(self.entry.engine, self.entry.container)
        except Ad2Error as exc:
            self._write(stage="failed", reason=str(exc))
            raise
        self._child.wait()
        self._child, self.entry = None, replace(self.entry, server=None)

    def _write(self, **changes: Any) -> None:
        """A changed stage goes into the log too."""
        before = self.entry.stage
        if "reason" in changes:
            changes["reason"] = "".join(c for c in changes["reason"] if c.isprintable())[:1000]
        self.entry = replace(self.entry, **changes)
        state.write(self.folder, self.entry)
        if self.entry.stage not in (before, "starting"):
            self._say(f"{self.entry.stage}: {self.entry.reason or self.entry.server_version}")

    def _say(self, text: str) -> None:
        with state.log_file(self.folder, self.job.port).open("a", encoding="utf-8") as log:
            log.write(f"[ad2 {time.strftime('%Y-%m-%d %H:%M:%S')}] {text}\n")

    def _new_log(self) -> None:
        """The log of the time before is kept beside; only who holds the lock may do this."""
        file = state.log_file(self.folder, self.job.port)
        if file.exists():
            file.replace(file.with_suffix(".log.1"))

    def _bound_log(self) -> None:
        """Its writers append, so that an emptied file goes on from its start."""
        file = state.log_file(self.folder, self.job.port)
        if file.exists() and file.stat().st_size > LOG_BYTES:  # a user may have removed it
            os.truncate(file, 0)
            self._say("the log had grown long and was emptied")

    def _pause(self, seconds: float) -> bool:
        """True at once when we were asked to end; the request stays."""
        return bool(select.select([self._wake], [], [], seconds)[0])


def _wake_on_signals() -> int:
    """A descriptor that becomes readable once we are asked to end; no handler interrupts what is being done."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return read
