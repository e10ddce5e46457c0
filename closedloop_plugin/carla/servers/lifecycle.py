"""Start, status and end of CARLA servers, for `ad2 carla up`, `status` and `down`."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from closedloop_plugin.carla.servers import containers, processes, state
from closedloop_plugin.carla.servers.probe import ServerProbe, ServerProbeResult, client_version
from closedloop_plugin.carla.servers.spec import CarlaServerSpec, taken
from closedloop_plugin.carla.servers.state import CarlaServerRecord
from closedloop_plugin.carla.servers.supervisor import GRACE_S
from lmms_eval_ad2.errors import Ad2Error

POLL_S = 0.2
TAIL_LINES = 8


@dataclass(frozen=True)
class CarlaServerStatus:
    """Status of a server. `record`: None if it was not started by ad2."""

    server: str
    state: str  # for the table
    probe: ServerProbeResult
    record: CarlaServerRecord | None = None

    @property
    def good(self) -> bool:
        return self.state == "answers" and self.probe.fits


def up(
    specs: Sequence[CarlaServerSpec], folder: Path, wait_s: float, on_wait: Callable[[int, float], None]
) -> list[CarlaServerRecord]:
    """Start a supervisor for each, and wait until all answer or are given up, or `wait_s` is over.

    `on_wait` is called with the number of answering servers and the elapsed seconds. On an interruption or error all
    servers started here are ended.
    """
    if platform.system() != "Linux":
        raise Ad2Error("ad2 carla up starts servers on Linux only; start your own and pass it: --servers host:port")
    client_version()
    for spec in specs:
        _check_free(spec, folder)
    if specs[0].image:
        containers.check_image(specs[0].engine, specs[0].image)
    started: dict[int, subprocess.Popen[bytes]] = {}
    try:
        for spec in specs:
            started[spec.port] = supervise(spec, folder)
        return _wait(started, folder, wait_s, on_wait)
    except BaseException:
        for process in started.values():
            process.terminate()
        for process in started.values():
            process.wait()
        raise


def _check_free(spec: CarlaServerSpec, folder: Path) -> None:
    record = state.read(folder, spec.port)
    if record and processes.alive(record.supervisor) and record.stage != "failed":
        raise Ad2Error(
            f"port {spec.port}: one of your servers uses it (ad2 carla status); to restart it: "
            f"ad2 carla down --port {spec.port}"
        )
    if record and _is_running(record):
        raise Ad2Error(
            f"port {spec.port}: one of your servers runs there without its supervisor, which was killed; "
            f"ad2 carla down --port {spec.port} ends it"
        )
    if reason := taken(spec.port, traffic_manager=True):
        raise Ad2Error(f"{reason}; choose another with --ports, or end that process (ss -ltnp shows it)")


def supervise(spec: CarlaServerSpec, folder: Path) -> subprocess.Popen[bytes]:
    """Start a supervisor. Only the supervisor writes its files in `folder`, once it holds the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    with _error_file(folder, spec.port).open("wb") as out:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "closedloop_plugin.carla.servers",
                str(folder.absolute()),
                json.dumps(spec.to_json()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(p).absolute()) for p in sys.path if p)},
            cwd=folder,
        )


def _wait(
    started: dict[int, subprocess.Popen[bytes]], folder: Path, wait_s: float, on_wait: Callable[[int, float], None]
) -> list[CarlaServerRecord]:
    started_at = time.monotonic()
    while True:
        found: list[CarlaServerRecord] = []
        for port, process in started.items():
            gone = process.poll() is not None  # before reading, so that its last record is read
            record = state.read(folder, port)
            if record and record.supervisor.pid == process.pid:
                found.append(record)
            elif gone:
                raise Ad2Error(f"the supervisor of port {port} ended:\n{tail(_error_file(folder, port))}")
        answering = sum(e.stage == "answers" for e in found)
        on_wait(answering, time.monotonic() - started_at)
        settled = sum(e.stage in ("answers", "failed") for e in found)
        if settled == len(started) or (time.monotonic() - started_at > wait_s and len(found) == len(started)):
            return found
        time.sleep(POLL_S)


def status(folder: Path, others: Sequence[str], timeout_s: float) -> list[CarlaServerStatus]:
    """Status of our servers and of those at `others` (host:port), probed in parallel."""
    from closedloop_plugin.carla.maps.from_server import address

    records = {record.server_name: record for record in state.read_all(folder)}
    addresses = {server: address(server, "--servers") for server in (*records, *others)}
    probes = {server: ServerProbe(*where, timeout_s, simulation=True) for server, where in addresses.items()}
    found: list[CarlaServerStatus] = []
    for server, probe_ in probes.items():
        while (answer := probe_.answer(wait_s=1.0)) is None:
            pass
        record = records.get(server)
        found.append(CarlaServerStatus(server, _state_of(record, answer), answer, record))
    return found


def _state_of(record: CarlaServerRecord | None, answer: ServerProbeResult) -> str:
    """State of a server, for the table."""
    if record is None:
        return answer.kind.value
    if processes.alive(record.supervisor):
        if record.stage in ("restarting", "failed"):
            return record.stage  # an answer on its port is not from our server
        return "answers" if answer.answers else record.stage.replace("answers", answer.kind.value)
    if _is_running(record):
        return "unwatched"  # its supervisor was killed
    return "failed" if record.stage == "failed" else "gone"


def down(folder: Path, ports: Collection[int] | None = None) -> list[str]:
    """End our servers, or those on `ports`; returns a line for each with the ended process or container.

    Ad2Error lists servers that could not be ended, after all others have been.
    """
    records = [e for e in state.read_all(folder) if ports is None or e.port in ports]
    watched = [processes.alive(record.supervisor) for record in records]
    for record in records:  # in parallel: each takes seconds
        processes.terminate(record.supervisor)
    lines, errors = [], []
    for record, had_supervisor in zip(records, watched, strict=True):
        try:
            lines.append(_down(folder, record, had_supervisor))
        except Ad2Error as exc:
            errors.append(f"{record.server_name}: {exc}")
    if errors:
        raise Ad2Error("; ".join([*errors, *lines]))
    return lines


def _down(folder: Path, record: CarlaServerRecord, watched: bool) -> str:
    processes.wait_for(record.supervisor, GRACE_S + 2 * containers.ANSWER_S)
    current = state.read(folder, record.port)  # it may have been restarted since
    what = f"{record.server_name}: "
    if current is None:
        return what + (f"ended {_description(record)}" if watched else "had ended already")
    ended = (
        [f"container {current.container}"]
        if current.container and containers.end(current.engine, current.container)
        else []
    )
    ended += [f"process {pid}" for pid in processes.end(current.server, current.token, GRACE_S)]
    state.remove(folder, record.port)
    return what + (f"ended {', '.join(ended)}" if ended else "no process of it was running")


def _description(record: CarlaServerRecord) -> str:
    if record.container:
        return f"container {record.container}"
    return f"process {record.server.pid} ({record.what})" if record.server else f"its supervisor ({record.what})"


def _is_running(record: CarlaServerRecord) -> bool:
    if processes.server_processes(record.server, record.token):
        return True
    return bool(record.container) and containers.exists(record.engine, record.container)


def _error_file(folder: Path, port: int) -> Path:
    return folder / f"{port}.fault"


def tail(file: Path) -> str:
    """The last lines of a log, for the terminal."""
    if not file.is_file():
        return ""
    with file.open("rb") as handle:
        handle.seek(max(0, file.stat().st_size - 8000))
        lines = handle.read().decode(errors="replace").splitlines()
    return "\n".join("  " + "".join(c for c in line if c.isprintable())[:200] for line in lines[-TAIL_LINES:])
