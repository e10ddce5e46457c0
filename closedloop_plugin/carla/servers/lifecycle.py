"""Start, status and end of CARLA servers, for `ad2 carla up`, `status` and `down`."""

from __future__ import annotations

import asyncio
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from closedloop_plugin.carla.maps.from_server import address
from closedloop_plugin.carla.servers.probe import ServerProbeResult, client_version, probe
from closedloop_plugin.carla.servers.record import (
    ALL_PORTS,
    GRACE_S,
    TOKEN,
    CarlaServerRecord,
    end,
    read,
    read_all,
    running,
    taken,
)  # fmt: skip
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.lock import try_lock

POLL_S = 0.2


@dataclass(frozen=True)
class CarlaServerStatus:
    """Status of a server. `record`: None if it was not started by ad2."""

    server: str
    state: str  # for the table
    probe: ServerProbeResult
    record: CarlaServerRecord | None = None
    pids: tuple[int, ...] = ()

    @property
    def good(self) -> bool:
        return self.state == "answers" and self.probe.fits


def up(
    records: Sequence[CarlaServerRecord], folder: Path, wait_s: float, on_wait: Callable[[int, float], None]
) -> None:
    """Start a supervisor for each, and wait until all answer or are given up, or `wait_s` is over.

    `on_wait` is called with the number of answering servers and the elapsed seconds. On an interruption or error all
    servers started here are ended.
    """
    if platform.system() != "Linux":
        raise Ad2Error("ad2 carla up starts servers on Linux only; start your own and pass it: --servers host:port")
    client_version()
    for port in [record.port for record in records]:
        before = read(folder, port)
        if before and (running(before.token) or (before.stage != "failed" and is_watched(before))):
            raise Ad2Error(
                f"port {port}: one of your servers uses it (ad2 carla status); ad2 carla down --port {port} ends it"
            )
        if reason := taken(port, ALL_PORTS):
            raise Ad2Error(f"{reason}; choose another with --ports, or end that process (ss -ltnp shows it)")
    started: dict[int, subprocess.Popen[bytes]] = {}
    try:
        for record in records:
            started[record.port] = supervise(record, folder)
        _wait(started, folder, wait_s, on_wait)
    except BaseException:
        down(folder, started)
        raise


def supervise(record: CarlaServerRecord, folder: Path) -> subprocess.Popen[bytes]:
    """Start a supervisor, which inherits the lock of its port."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{record.port}.log"
    with (folder / f"{record.port}.lock").open("w") as lock:
        if not try_lock(lock):
            raise Ad2Error(f"port {record.port}: another supervisor is running")
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        record.write(folder)
        path = os.pathsep.join(str(Path(p).absolute()) for p in sys.path if p)
        module = "closedloop_plugin.carla.servers.supervisor"
        with log.open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", module, str(folder.absolute()), str(record.port)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                cwd=folder,
                env={**os.environ, TOKEN: record.supervisor, "PYTHONPATH": path},
                pass_fds=[lock.fileno()],
            )


def _wait(
    started: dict[int, subprocess.Popen[bytes]], folder: Path, wait_s: float, on_wait: Callable[[int, float], None]
) -> None:
    started_at = time.monotonic()
    while True:
        gone = {port for port, process in started.items() if process.poll() is not None}  # before its last record
        records = {port: read(folder, port) for port in started}
        stages = [record.stage if record else "" for record in records.values()]
        for port in gone:
            if (record := records[port]) is None or record.stage != "failed":
                raise Ad2Error(f"the supervisor of port {port} ended; see {folder / f'{port}.log'}")
        elapsed_s = time.monotonic() - started_at
        on_wait(stages.count("answers"), elapsed_s)
        late = elapsed_s > wait_s and all(record and record.since for record in records.values())
        if late or set(stages) <= {"answers", "failed"}:
            return
        time.sleep(POLL_S)


def status(folder: Path, others: Sequence[str], timeout_s: float) -> list[CarlaServerStatus]:
    """Status of our servers and of those at `others` (host:port), probed in parallel."""
    records = {record.server_name: record for record in read_all(folder)}
    places = [address(server, "--servers") for server in dict.fromkeys((*records, *others))]

    async def probe_all() -> list[ServerProbeResult]:
        return await asyncio.gather(*(probe(*place, timeout_s, simulation=True) for place in places))

    found = [(answer, records.get(answer.server)) for answer in asyncio.run(probe_all())]
    return [
        CarlaServerStatus(answer.server, _state_of(e, answer), answer, e, tuple(running(e.token)) if e else ())
        for answer, e in found
    ]


def _state_of(record: CarlaServerRecord | None, answer: ServerProbeResult) -> str:
    """State of a server, for the table."""
    if record is None:
        return answer.kind
    if is_watched(record):
        if record.stage in ("restarting", "failed"):
            return record.stage  # an answer on its port is not from our server
        return "answers" if answer.answers else record.stage.replace("answers", answer.kind)
    if running(record.token):
        return "unwatched"  # its supervisor was killed
    return "failed" if record.stage == "failed" else "gone"


def is_watched(record: CarlaServerRecord) -> bool:
    """Whether its supervisor is running."""
    return bool(running(record.supervisor))


def down(folder: Path, ports: Collection[int] | None = None) -> list[str]:
    """End our servers, or those on `ports`; returns a line for each with the ended processes.

    Ad2Error lists servers that could not be ended, after all others have been.
    """
    records = [record for record in read_all(folder) if ports is None or record.port in ports]
    with ThreadPoolExecutor(max_workers=len(records) or 1) as pool:  # each takes seconds
        jobs = [pool.submit(_down, folder, record) for record in records]
    lines = [f"{r.server_name}: {job.exception() or job.result()}" for r, job in zip(records, jobs, strict=True)]
    if any(job.exception() for job in jobs):
        raise Ad2Error("; ".join(lines))
    return lines


def _down(folder: Path, record: CarlaServerRecord) -> str:
    pids = running(record.token)
    supervisors = end(record.supervisor, 2 * GRACE_S)  # it ends its server
    end(record.token)
    (folder / f"{record.port}.json").unlink(missing_ok=True)
    what = ", ".join(f"process {pid}" for pid in pids) or ("its supervisor" if supervisors else "")
    return f"ended {what}" if what else "no process of it was running"
