"""Supervisor of one server: starts it, probes it, restarts it when it dies or hangs, ends it on SIGTERM.

`python -m closedloop_plugin.carla.servers.supervisor FOLDER PORT`, started by lifecycle.py with the lock held and its
output in the log. It has its own session, so it outlives that command. There is one per server, so that servers do not
affect each other and each record has one writer.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from closedloop_plugin.carla.servers.probe import probe
from closedloop_plugin.carla.servers.processes import SERVER_PORTS, TOKEN, taken
from closedloop_plugin.carla.servers.record import CarlaServerRecord, read
from lmms_eval_ad2.core.errors import Ad2Error

MAX_FAILED_STARTS = 3  # in a row without an answer: then it is given up
STABLE_S = 300.0  # after a run of this length the restart delay is reset
MAX_BACKOFF_S = 60.0
LOG_BYTES = 50_000_000


class CarlaServerSupervisor:
    """`run` returns when the server has been ended or given up; no process of it is left."""

    def __init__(self, folder: Path, record: CarlaServerRecord) -> None:
        self.folder, self.record = folder, record
        self._starts, self._answered = 0, False  # since the latest start

    async def run(self) -> None:
        task = asyncio.ensure_future(self._keep_running())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            self._end_server()
            (self.folder / f"{self.record.port}.json").unlink(missing_ok=True)
            _log("ended")

    async def _keep_running(self) -> None:
        """Start the server repeatedly, until it is given up."""
        failed_starts, wait_s = 0, 0.0
        while True:
            started = time.monotonic()
            reason = await self._run_once()
            self._end_server()
            failed_starts = 0 if self._answered else failed_starts + 1
            if failed_starts >= MAX_FAILED_STARTS:
                reason += f"; given up after {failed_starts} starts without an answer"
                return self._write(stage="failed", reason=reason)
            was_stable = time.monotonic() - started > STABLE_S
            wait_s = self.record.backoff_s if was_stable or not wait_s else min(2 * wait_s, MAX_BACKOFF_S)
            self._write(stage="restarting", reason=f"{reason}; next start in {wait_s:g} s")
            await asyncio.sleep(wait_s)

    async def _run_once(self) -> str:
        """Run the server once. Returns why it must be restarted."""
        self._answered = False
        if reason := taken(self.record.port, SERVER_PORTS):
            return reason
        self._starts += 1
        _log("start: " + " ".join(self.record.command))
        self._write(stage="starting", since=time.time(), server_version="", restarts=self._starts - 1)
        options: dict[str, Any] = {"stdin": asyncio.subprocess.DEVNULL, "env": self.record.environment}
        if self.record.binary:
            options["cwd"] = Path(self.record.binary).parent
        try:
            process = await asyncio.create_subprocess_exec(*self.record.command, start_new_session=True, **options)
        except OSError as exc:
            return f"does not start: {exc}"
        exited, hung = asyncio.ensure_future(process.wait()), asyncio.ensure_future(self._watch())
        try:
            await asyncio.wait((exited, hung), return_when=asyncio.FIRST_COMPLETED)
        finally:
            hung.cancel()
        if not exited.done():
            return hung.result()
        code = exited.result()
        return f"died ({signal.Signals(-code).name})" if code < 0 else f"died (exit code {code})"

    async def _watch(self) -> str:
        """Probe the server and update its record. Returns why it must be restarted, once it hangs."""
        last, failures, hang_s = time.monotonic(), 0, self.record.hang_s
        while True:
            found = await probe("127.0.0.1", self.record.port, min(20.0, hang_s / 3), simulation=True)
            now = time.monotonic()
            if found.answers:
                last, failures, self._answered = now, 0, True
                if self.record.stage != "answers":
                    self._write(stage="answers", server_version=found.server_version, reason="")
            else:
                failures += 1
                if self.record.stage == "answers":
                    self._write(stage="silent", reason=f"{found.kind}: {found.reason}")
                # A single late probe, as after a suspended machine, does not count.
                if now - last > hang_s and failures >= 3:
                    return f"hung: no answer for {now - last:.0f} s ({found.kind}: {found.reason})"
            if os.fstat(1).st_size > LOG_BYTES:  # writers append, so they continue at its start
                os.truncate(1, 0)
            await asyncio.sleep(min(10.0, hang_s / 10) if self._answered else 1.0)

    def _end_server(self) -> None:
        try:
            self.record.end_server()
        except Ad2Error as exc:
            self._write(stage="failed", reason=str(exc))
            raise

    def _write(self, **changes: Any) -> None:
        """Write a changed record; log a change of stage."""
        before = self.record.stage
        if "reason" in changes:
            changes["reason"] = "".join(c for c in changes["reason"] if c.isprintable())[:1000]
        self.record = self.record.model_copy(update=changes)
        self.record.write(self.folder)
        if self.record.stage not in (before, "starting"):
            _log(f"{self.record.stage}: {self.record.reason or self.record.server_version}")


def _log(text: str) -> None:
    print(f"[ad2 {time.strftime('%Y-%m-%d %H:%M:%S')}] {text}", flush=True)


if __name__ == "__main__":
    home = Path(sys.argv[1])
    os.environ.pop(TOKEN, None)  # not for its children
    if own := read(home, int(sys.argv[2])):
        asyncio.run(CarlaServerSupervisor(home, own).run())
