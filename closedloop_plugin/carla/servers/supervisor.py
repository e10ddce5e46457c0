"""Supervisor of one server: starts it, probes it, restarts it when it dies or hangs, ends it on SIGTERM.

`python -m closedloop_plugin.carla.servers.supervisor FOLDER PORT`, started by lifecycle.py with the lock held and its
output in the log. It has its own session, so it outlives that command. There is one per server, so that servers do not
affect each other and each record has one writer.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from closedloop_plugin.carla.servers.probe import probe
from closedloop_plugin.carla.servers.record import SERVER_PORTS, TOKEN, CarlaServerRecord, end, read, taken
from lmms_eval_ad2.core.errors import Ad2Error

MAX_FAILED_STARTS = 3  # in a row without an answer: then it is given up


class CarlaServerSupervisor:
    """`run` returns when the server is given up; no process of it is left then, nor after SystemExit."""

    def __init__(self, folder: Path, record: CarlaServerRecord) -> None:
        self.folder, self.record = folder, record
        self._starts, self._answered = 0, False  # since the latest start

    def run(self) -> None:
        failed_starts = 0
        while True:
            try:
                reason = self._run_once()
            finally:
                self._end_server()
            failed_starts = 0 if self._answered else failed_starts + 1
            if failed_starts >= MAX_FAILED_STARTS:
                reason += f"; given up after {failed_starts} starts without an answer"
                return self._write(stage="failed", reason=reason)
            wait_s = self.record.backoff_s * 2**failed_starts
            self._write(stage="restarting", reason=f"{reason}; next start in {wait_s:g} s")
            time.sleep(wait_s)

    def _run_once(self) -> str:
        """Run the server once. Returns why it must be restarted."""
        self._answered = False
        record = self.record
        if reason := taken(record.port, SERVER_PORTS):
            return reason
        self._starts += 1
        self._write(stage="starting", since=time.time(), server_version="", restarts=self._starts - 1)
        environment = {**os.environ, TOKEN: record.token}
        try:
            process = subprocess.Popen(
                record.command,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=Path(record.binary).parent,
            )
        except OSError as exc:
            return f"does not start: {exc}"
        last, failures, hang_s = time.monotonic(), 0, record.hang_s
        while process.poll() is None:
            found = asyncio.run(probe("127.0.0.1", record.port, min(20.0, hang_s / 3), simulation=True))
            now = time.monotonic()
            if found.answers:
                last, failures, self._answered = now, 0, True
                if self.record.stage != "answers":
                    self._write(stage="answers", server_version=found.server_version, reason="")
            else:
                failures += 1
                if self.record.stage == "answers" and process.poll() is None:
                    self._write(stage="silent", reason=f"{found.kind}: {found.reason}")
                # A single late probe, as after a suspended machine, does not count.
                if now - last > hang_s and failures >= 3:
                    return f"hung: no answer for {now - last:.0f} s ({found.kind}: {found.reason})"
            try:
                process.wait(min(10.0, hang_s / 10) if self._answered else 1.0)
            except subprocess.TimeoutExpired:
                continue
        code = process.returncode
        return f"died ({signal.Signals(-code).name})" if code < 0 else f"died (exit code {code})"

    def _end_server(self) -> None:
        try:
            end(self.record.token)
        except Ad2Error as exc:
            self._write(stage="failed", reason=str(exc))
            raise

    def _write(self, **changes: Any) -> None:
        """Write a changed record, and log it."""
        if "reason" in changes:
            changes["reason"] = "".join(c for c in changes["reason"] if c.isprintable())[:1000]
        self.record = self.record.model_copy(update=changes)
        self.record.write(self.folder)
        text = self.record.reason or self.record.server_version or " ".join(self.record.command)
        print(f"[ad2 {time.strftime('%Y-%m-%d %H:%M:%S')}] {self.record.stage}: {text}", flush=True)


def main(folder: Path, port: int) -> None:
    os.environ.pop(TOKEN, None)  # not for its children
    record = read(folder, port)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit())
    if record is None:
        return
    try:
        CarlaServerSupervisor(folder, record).run()
    except SystemExit:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # ending must not be interrupted
        end(record.token)
        (folder / f"{port}.json").unlink(missing_ok=True)
        raise


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
