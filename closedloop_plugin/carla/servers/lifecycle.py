"""Up, down and status: what the command does with the supervisors and with what they left behind."""

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
    """How a server stands. `entry`: what is known of it, if it is ours."""

    server: str
    word: str  # one word or two for the table
    probe: ServerProbeResult
    entry: CarlaServerRecord | None = None

    @property
    def good(self) -> bool:
        return self.word == "answers" and self.probe.fits


def up(
    jobs: Sequence[CarlaServerSpec], folder: Path, wait_s: float, on_wait: Callable[[int, float], None]
) -> list[CarlaServerRecord]:
    """Start a supervisor for each, and wait until all answer, one is given up, or the time is over.

    `on_wait`: how many answer, after how many seconds. What was started here is ended again if this is interrupted.
    """
    if platform.system() != "Linux":
        raise Ad2Error("ad2 carla up starts servers on Linux only; start yours, and name it: --servers host:port")
    client_version()
    for job in jobs:
        _check_free(job, folder)
    if jobs[0].image:
        containers.check_image(jobs[0].engine, jobs[0].image)
    started: dict[int, subprocess.Popen[bytes]] = {}
    try:
        for job in jobs:
            started[job.port] = supervise(job, folder)
        return _wait(started, folder, wait_s, on_wait)
    except BaseException:
        for process in started.values():
            process.terminate()
        for process in started.values():
            process.wait()
        raise


def _check_free(job: CarlaServerSpec, folder: Path) -> None:
    entry = state.read(folder, job.port)
    if entry and processes.alive(entry.supervisor) and entry.stage != "failed":
        raise Ad2Error(
            f"port {job.port}: a server of yours stands there (ad2 carla status); to start it anew: "
            f"ad2 carla down --port {job.port}"
        )
    if entry and _living(entry):
        raise Ad2Error(
            f"port {job.port}: a server of yours runs there, and its supervisor was killed; "
            f"ad2 carla down --port {job.port} ends it"
        )
    if reason := taken(job.port, traffic_manager=True):
        raise Ad2Error(f"{reason}; choose another with --ports, or end that one (ss -ltnp shows it)")


def supervise(job: CarlaServerSpec, folder: Path) -> subprocess.Popen[bytes]:
    """What stands in the folder is the supervisor's to change, once it holds the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    with _fault_file(folder, job.port).open("wb") as out:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "closedloop_plugin.carla.servers",
                str(folder.absolute()),
                json.dumps(job.to_json()),
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
    begun = time.monotonic()
    while True:
        found: list[CarlaServerRecord] = []
        for port, process in started.items():
            gone = process.poll() is not None  # before the look: what it wrote last is there then
            entry = state.read(folder, port)
            if entry and entry.supervisor.pid == process.pid:
                found.append(entry)
            elif gone:
                raise Ad2Error(f"the supervisor of port {port} ended:\n{tail(_fault_file(folder, port))}")
        answering = sum(e.stage == "answers" for e in found)
        on_wait(answering, time.monotonic() - begun)
        settled = sum(e.stage in ("answers", "failed") for e in found)
        if settled == len(started) or (time.monotonic() - begun > wait_s and len(found) == len(started)):
            return found
        time.sleep(POLL_S)


def status(folder: Path, others: Sequence[str], timeout_s: float) -> list[CarlaServerStatus]:
    """Ours, and those at `others` (host:port); all are asked at the same time."""
    from closedloop_plugin.carla.maps.from_server import address

    entries = {entry.server_name: entry for entry in state.read_all(folder)}
    addresses = {server: address(server, "--servers") for server in (*entries, *others)}
    questions = {server: ServerProbe(*where, timeout_s, simulation=True) for server, where in addresses.items()}
    found: list[CarlaServerStatus] = []
    for server, question in questions.items():
        while (answer := question.answer(wait_s=1.0)) is None:
            pass
        entry = entries.get(server)
        found.append(CarlaServerStatus(server, _word(entry, answer), answer, entry))
    return found


def _word(entry: CarlaServerRecord | None, answer: ServerProbeResult) -> str:
    """The table's word."""
    if entry is None:
        return answer.kind.value
    if processes.alive(entry.supervisor):
        if entry.stage in ("restarting", "failed"):
            return entry.stage  # whoever answers there meanwhile is not ours
        return "answers" if answer.answers else entry.stage.replace("answers", answer.kind.value)
    if _living(entry):
        return "unwatched"  # its supervisor was killed
    return "failed" if entry.stage == "failed" else "gone"


def down(folder: Path, ports: Collection[int] | None = None) -> list[str]:
    """End our servers, or those on `ports`; a line for each that says what was ended.

    One that does not end holds up no other; Ad2Error names it at the end.
    """
    entries = [e for e in state.read_all(folder) if ports is None or e.port in ports]
    watched = [processes.alive(entry.supervisor) for entry in entries]
    for entry in entries:  # all at once: each takes seconds
        processes.terminate(entry.supervisor)
    lines, troubles = [], []
    for entry, had_one in zip(entries, watched, strict=True):
        try:
            lines.append(_down(folder, entry, had_one))
        except Ad2Error as exc:
            troubles.append(f"{entry.server_name}: {exc}")
    if troubles:
        raise Ad2Error("; ".join([*troubles, *lines]))
    return lines


def _down(folder: Path, entry: CarlaServerRecord, watched: bool) -> str:
    processes.wait_for(entry.supervisor, GRACE_S + 2 * containers.ANSWER_S)
    rest = state.read(folder, entry.port)  # it may have started anew since
    what = f"{entry.server_name}: "
    if rest is None:
        return what + (f"ended {_named(entry)}" if watched else "was ended already")
    ended = [f"container {rest.container}"] if rest.container and containers.end(rest.engine, rest.container) else []
    ended += [f"process {pid}" for pid in processes.end(rest.server, rest.token, GRACE_S)]
    state.remove(folder, entry.port)
    return what + (f"ended {', '.join(ended)}" if ended else "nothing of it ran any more")


def _named(entry: CarlaServerRecord) -> str:
    if entry.container:
        return f"container {entry.container}"
    return f"process {entry.server.pid} ({entry.what})" if entry.server else f"its supervisor ({entry.what})"


def _living(entry: CarlaServerRecord) -> bool:
    if processes.ours(entry.server, entry.token):
        return True
    return bool(entry.container) and containers.there(entry.engine, entry.container)


def _fault_file(folder: Path, port: int) -> Path:
    return folder / f"{port}.fault"


def tail(file: Path) -> str:
    """The last lines of a log, for the terminal."""
    if not file.is_file():
        return ""
    with file.open("rb") as handle:
        handle.seek(max(0, file.stat().st_size - 8000))
        lines = handle.read().decode(errors="replace").splitlines()
    return "\n".join("  " + "".join(c for c in line if c.isprintable())[:200] for line in lines[-TAIL_LINES:])
