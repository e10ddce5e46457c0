"""What is known of the servers that were started: one file for each port, written whole by its supervisor.

    FOLDER/2000.json    this record; gone once the server has been ended
    FOLDER/2000.log     what the server and its supervisor print; .log.1: of the time before
    FOLDER/2000.lock    held by the supervisor while it lives
    FOLDER/2000.fault   why a supervisor itself ended, if it failed

A file is read with distrust: it decides which processes may be ended.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from closedloop_plugin.carla.servers.processes import ProcessIdentity
from closedloop_plugin.carla.servers.spec import ENGINES
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write

BYTES = 64_000
STAGES = ("starting", "answers", "silent", "restarting", "failed")


@dataclass(frozen=True)
class CarlaServerRecord:
    port: int
    token: str  # in the environment of every process of the server; new at each start
    stage: str  # one of STAGES
    supervisor: ProcessIdentity
    what: str  # the binary, or the image
    server: ProcessIdentity | None = None  # None: about to start, or between two starts
    gpu: int | None = None
    engine: str = ""  # of the container; empty: a local binary
    container: str = ""
    since: float = 0.0  # s since the epoch: this start
    restarts: int = 0
    server_version: str = ""
    reason: str = ""  # of the last restart, of silence, or of giving up

    @property
    def server_name(self) -> str:
        return f"localhost:{self.port}"


def container_name(port: int, token: str) -> str:
    return f"ad2-carla-{port}-{token[:12]}"


def log_file(folder: Path, port: int) -> Path:
    return folder / f"{port}.log"


def write(folder: Path, entry: CarlaServerRecord) -> None:
    with atomic_write(folder / f"{entry.port}.json") as out:
        json.dump(asdict(entry), out, indent=1)


def remove(folder: Path, port: int) -> None:
    (folder / f"{port}.json").unlink(missing_ok=True)


def read_all(folder: Path) -> list[CarlaServerRecord]:
    """By port."""
    ports = sorted(int(f.stem) for f in folder.glob("*.json") if re.fullmatch(r"[0-9]{1,5}", f.stem))
    return [entry for port in ports if (entry := read(folder, port))]


def read(folder: Path, port: int) -> CarlaServerRecord | None:
    """None: no server of ours was started on this port, or it has been ended."""
    file = folder / f"{port}.json"
    try:
        with file.open("rb") as handle:
            text = handle.read(BYTES + 1)
    except FileNotFoundError:
        return None
    try:
        data = json.loads(text.decode()) if len(text) <= BYTES else None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        _broken(file, "one JSON object")
    return _entry(file, port, data)


def _entry(file: Path, port: int, data: dict[str, Any]) -> CarlaServerRecord:
    def text(name: str, pattern: str) -> str:
        value = data.get(name)
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            _broken(file, f"{name}: {pattern}")
        return value

    def number(name: str, least: int, most: int) -> int:
        value = data.get(name)
        if type(value) is not int or not least <= value <= most:
            _broken(file, f"{name}: {least} to {most}")
        return value

    since = data.get("since")
    if type(since) not in (int, float) or not 0 <= since < 1e11:  # type: ignore[operator]
        _broken(file, "since: seconds since the epoch")
    supervisor = _mark(file, data.get("supervisor"))
    token, engine = text("token", "[0-9a-f]{32}"), text("engine", "|".join(("", *ENGINES)))
    if number("port", 1, 65535) != port:
        _broken(file, f"port: {port}")
    if data.get("container") != (container_name(port, token) if engine else ""):
        _broken(file, "container: of this port and token")
    return CarlaServerRecord(
        port,
        token,
        text("stage", "|".join(STAGES)),
        supervisor,
        text("what", "(?s).{1,4096}"),
        None if data.get("server") is None else _mark(file, data["server"]),
        None if data.get("gpu") is None else number("gpu", 0, 1024),
        engine,
        data["container"],
        float(since),  # type: ignore[arg-type]
        number("restarts", 0, 10**9),
        text("server_version", "[ -~]{0,40}"),
        text("reason", r"[^\x00-\x1f\x7f-\x9f]{0,1000}"),
    )


def _mark(file: Path, data: Any) -> ProcessIdentity:
    """pid 1 and below are never ours: kill takes them for "everybody"."""
    if (
        not isinstance(data, dict)
        or type(data.get("pid")) is not int
        or not 1 < data["pid"] < 2**31
        or type(data.get("start")) is not int
        or not 0 <= data["start"] < 2**63
        or not isinstance(data.get("boot"), str)
        or not re.fullmatch("[0-9a-f-]{1,64}", data["boot"])
    ):
        _broken(file, "supervisor and server: a pid above 1, its start and boot")
    return ProcessIdentity(data["pid"], data["start"], data["boot"])


def _broken(file: Path, expected: str) -> NoReturn:
    raise Ad2Error(
        f"{file}: not a record of a CARLA server (expected {expected}). Look with ps whether one of yours still runs, "
        "end it, and remove the file"
    )
