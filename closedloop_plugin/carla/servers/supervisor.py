"""CarlaServerSupervisor: starts one server, probes it, restarts it when it dies or hangs, ends it on SIGTERM.

It is a process with its own session, so it outlives the command that started it. There is one per server, so that
servers do not affect each other and each record has one writer.
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
MAX_FAILED_STARTS = 3  # in a row without an answer: then it is given up
STABLE_S = 300.0  # after a run of this length the restart delay is reset
MAX_BACKOFF_S = 60.0
GRACE_S = 10.0
LOG_BYTES = 50_000_000


@dataclass
class CarlaServerSupervisor:
    """Supervisor of one server. `run` returns when the server has been ended or given up."""

    spec: CarlaServerSpec
    folder: Path
    record: CarlaServerRecord = field(init=False)
    _child: subprocess.Popen[bytes] | None = None
    _last_answer: float | None = None  # monotonic time, of the current process
    _failures: int = 0  # consecutive probes without an answer
    _starts: int = 0
    _wake: int = -1

    def __post_init__(self) -> None:
        identity = processes.identity_of(os.getpid())
        assert identity is not None
        engine = self.spec.engine if self.spec.image else ""
        token = secrets.token_hex(16)
        name = state.container_name(self.spec.port, token) if engine else ""
        self.record = CarlaServerRecord(
            port=self.spec.port,
            token=token,
            stage="starting",
            supervisor=identity,
            what=self.spec.what,
            gpu=self.spec.gpu,
            engine=engine,
            container=name,
        )

    def run(self) -> None:
        self._wake = _wake_on_signals()
        with (self.folder / f"{self.spec.port}.lock").open("w") as lock:
            if not try_lock(lock):
                raise Ad2Error(f"port {self.spec.port}: another supervisor is running")
            self._new_log()
            try:
                ended = self._run_server()
            finally:
                self._end_server()
            if ended:
                self._log("ended")
                state.remove(self.folder, self.spec.port)

    def _run_server(self) -> bool:
        """Start the server repeatedly. True: ended on request; False: given up."""
        failed_starts, wait_s = 0, 0.0
        while True:
            started = time.monotonic()
            reason = taken(self.spec.port, traffic_manager=False) or self._run_once()
            self._end_server()
            if not reason:
                return True
            failed_starts = 0 if self._last_answer else failed_starts + 1
            if failed_starts >= MAX_FAILED_STARTS:
                self._write(stage="failed", reason=f"{reason}; given up after {failed_starts} starts without an answer")
                return False
            was_stable = time.monotonic() - started > STABLE_S
            wait_s = self.spec.backoff_s if was_stable or not wait_s else min(2 * wait_s, MAX_BACKOFF_S)
            self._write(stage="restarting", reason=f"{reason}; next start in {wait_s:g} s")
            if self._pause(wait_s):
                return True

    def _run_once(self) -> str:
        """Run the server once. Returns why it must be restarted; empty: end requested."""
        self._last_answer, self._failures = None, 0
        try:
            self._start()
        except OSError as exc:
            return f"does not start: {exc}"
        probe: ServerProbe | None = None
        started = next_probe = time.monotonic()
        try:
            while not self._pause(TICK_S):
                if exit_reason := self._exit_reason():
                    return exit_reason
                if probe is None and time.monotonic() >= next_probe:
                    probe = ServerProbe("127.0.0.1", self.spec.port, min(20.0, self.spec.hang_s / 3), simulation=True)
                elif probe and (found := probe.answer()):
                    probe = None
                    next_probe = time.monotonic() + (min(10.0, self.spec.hang_s / 10) if self._last_answer else 1.0)
                    if hang_reason := self._handle_probe(found, started):
                        return hang_reason
            return ""
        finally:
            if probe:
                probe.end()

    def _start(self) -> None:
        """Start the process. The token is written first, so that the process is found if we are killed in between."""
        token = secrets.token_hex(16)
        name = state.container_name(self.spec.port, token) if self.record.engine else ""
        self._write(token=token, container=name, stage="starting", server=None, since=time.time(), server_version="",
                    restarts=self._starts)  # fmt: skip
        self._starts += 1
        command = self.spec.command(name)
        self._log("start: " + " ".join(command))
        with state.log_file(self.folder, self.spec.port).open("ab") as log:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, processes.TOKEN: token},
                cwd=Path(self.spec.binary).parent if self.spec.binary else None,
            )
        self._write(server=processes.identity_of(self._child.pid))

    def _exit_reason(self) -> str:
        """Why the server exited; empty while it runs. It stays a zombie, so its PID is not reused meanwhile."""
        assert self._child is not None
        found = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return ""
        if found.si_code == os.CLD_EXITED:
            return f"died (exit code {found.si_status})"
        return f"died ({signal.Signals(found.si_status).name})"

    def _handle_probe(self, found: ServerProbeResult, started: float) -> str:
        """Update the record from a probe. Returns why the server must be restarted, or empty."""
        now = time.monotonic()
        self._truncate_log()
        if found.answers:
            self._last_answer, self._failures = now, 0
            if self.record.stage != "answers":
                self._write(stage="answers", server_version=found.server_version, reason="")
            return ""
        self._failures += 1
        if self._last_answer and self.record.stage == "answers":
            self._write(stage="silent", reason=f"{found.kind.value}: {found.reason}")
        quiet = now - (self._last_answer or started)
        if (
            quiet > self.spec.hang_s and self._failures >= 3
        ):  # a single late probe, as after a suspended machine, does not count
            return f"hung: no answer for {quiet:.0f} s ({found.kind.value}: {found.reason})"
        return ""

    def _end_server(self) -> None:
        """End all processes of the server. Containers twice: `run` may be about to create one."""
        if self._child is None:
            return
        leader = self.record.server or processes.identity_of(self._child.pid)
        try:
            if self.record.container:
                containers.end(self.record.engine, self.record.container)
            processes.end(leader, self.record.token, GRACE_S)
            if self.record.container:
                containers.end(self.record.engine, self.record.container)
        except Ad2Error as exc:
            self._write(stage="failed", reason=str(exc))
            raise
        self._child.wait()
        self._child, self.record = None, replace(self.record, server=None)

    def _write(self, **changes: Any) -> None:
        """Write a changed record; log a change of stage."""
        before = self.record.stage
        if "reason" in changes:
            changes["reason"] = "".join(c for c in changes["reason"] if c.isprintable())[:1000]
        self.record = replace(self.record, **changes)
        state.write(self.folder, self.record)
        if self.record.stage not in (before, "starting"):
            self._log(f"{self.record.stage}: {self.record.reason or self.record.server_version}")

    def _log(self, text: str) -> None:
        with state.log_file(self.folder, self.spec.port).open("a", encoding="utf-8") as log:
            log.write(f"[ad2 {time.strftime('%Y-%m-%d %H:%M:%S')}] {text}\n")

    def _new_log(self) -> None:
        """Start a new log and keep the previous one as .log.1. Requires the lock."""
        file = state.log_file(self.folder, self.spec.port)
        if file.exists():
            file.replace(file.with_suffix(".log.1"))

    def _truncate_log(self) -> None:
        """Empty a log that is too long; writers append, so they continue at its start."""
        file = state.log_file(self.folder, self.spec.port)
        if file.exists() and file.stat().st_size > LOG_BYTES:  # a user may have removed it
            os.truncate(file, 0)
            self._log("log emptied: it was too long")

    def _pause(self, seconds: float) -> bool:
        """Wait; True immediately once an end was requested (it stays requested)."""
        return bool(select.select([self._wake], [], [], seconds)[0])


def _wake_on_signals() -> int:
    """A descriptor that becomes readable on SIGTERM, SIGINT or SIGHUP, so that no handler interrupts other work."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return read
