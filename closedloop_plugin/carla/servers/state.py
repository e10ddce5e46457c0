"""Records of started servers: one file per port, replaced atomically by its supervisor.

    FOLDER/2000.json    the record; removed once the server has been ended
    FOLDER/2000.log     output of the server and its supervisor; .log.1: of the previous run
    FOLDER/2000.lock    held by the supervisor while it runs
    FOLDER/2000.fault   output of the supervisor itself, if it failed

A record is validated strictly on reading, since it determines which processes may be ended.
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
from lmms_eval_ad2.numbers import is_number, is_whole
from lmms_eval_ad2.storage.files import atomic_write

MAX_BYTES = 64_000
STAGES = ("starting", "answers", "silent", "restarting", "failed")


@dataclass(frozen=True, kw_only=True)
class CarlaServerRecord:
    """State of one started server, as in its file."""

    port: int
    token: str  # in the environment of every process of the server; new at each start
    stage: str  # one of STAGES
    supervisor: ProcessIdentity
    what: str  # the binary, or the image
    server: ProcessIdentity | None = None  # None before and between starts
    gpu: int | None = None
    engine: str = ""  # of the container; empty: a local binary
    container: str = ""
    since: float = 0.0  # time of this start, s since the epoch
    restarts: int = 0
    server_version: str = ""
    reason: str = ""  # of the last restart, silence or failure

    @property
    def server_name(self) -> str:
        return f"localhost:{self.port}"


def container_name(port: int, token: str) -> str:
    return f"ad2-carla-{port}-{token[:12]}"


def log_file(folder: Path, port: int) -> Path:
    return folder / f"{port}.log"


def write(folder: Path, record: CarlaServerRecord) -> None:
    with atomic_write(folder / f"{record.port}.json") as out:
        json.dump(asdict(record), out, indent=1)


def remove(folder: Path, port: int) -> None:
    (folder / f"{port}.json").unlink(missing_ok=True)


def read_all(folder: Path) -> list[CarlaServerRecord]:
    """All records, by port."""
    ports = sorted(int(f.stem) for f in folder.glob("*.json") if re.fullmatch(r"[0-9]{1,5}", f.stem))
    return [record for port in ports if (record := read(folder, port))]


def read(folder: Path, port: int) -> CarlaServerRecord | None:
    """The record of a port; None if no server was started on it or it has been ended. Ad2Error: invalid file."""
    file = folder / f"{port}.json"
    try:
        with file.open("rb") as handle:
            text = handle.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    try:
        data = json.loads(text.decode()) if len(text) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        _broken(file, "one JSON object")
    return _record(file, port, data)


def _record(file: Path, port: int, data: dict[str, Any]) -> CarlaServerRecord:
    def text(name: str, pattern: str) -> str:
        value = data.get(name)
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            _broken(file, f"{name}: {pattern}")
        return value

    def number(name: str, least: int, most: int) -> int:
        value = data.get(name)
        if not is_whole(value, least, most):
            _broken(file, f"{name}: {least} to {most}")
        return value

    since = data.get("since")
    if not is_number(since) or not 0 <= since < 1e11:
        _broken(file, "since: seconds since the epoch")
    supervisor = _identity(file, data.get("supervisor"))
    token, engine = text("token", "[0-9a-f]{32}"), text("engine", "|".join(("", *ENGINES)))
    if number("port", 1, 65535) != port:
        _broken(file, f"port: {port}")
    if data.get("container") != (container_name(port, token) if engine else ""):
        _broken(file, "container: of this port and token")
    return CarlaServerRecord(
        port=port,
        token=token,
        stage=text("stage", "|".join(STAGES)),
        supervisor=supervisor,
        what=text("what", "(?s).{1,4096}"),
        server=None if data.get("server") is None else _identity(file, data["server"]),
        gpu=None if data.get("gpu") is None else number("gpu", 0, 1024),
        engine=engine,
        container=data["container"],
        since=float(since),
        restarts=number("restarts", 0, 10**9),
        server_version=text("server_version", "[ -~]{0,40}"),
        reason=text("reason", r"[^\x00-\x1f\x7f-\x9f]{0,1000}"),
    )


def _identity(file: Path, data: Any) -> ProcessIdentity:
    """Rejects pids of 1 and below: kill treats 0 and negative ones as groups of processes."""
    if (
        not isinstance(data, dict)
        or not is_whole(data.get("pid"), 2, 2**31 - 1)
        or not is_whole(data.get("start"), 0, 2**63 - 1)
        or not isinstance(data.get("boot"), str)
        or not re.fullmatch("[0-9a-f-]{1,64}", data["boot"])
    ):
        _broken(file, "supervisor and server: a pid above 1, its start and boot")
    return ProcessIdentity(data["pid"], data["start"], data["boot"])


def _broken(file: Path, expected: str) -> NoReturn:
    raise Ad2Error(
        f"{file}: not a record of a CARLA server (expected {expected}). Check with ps whether one of yours still runs, "
        "end it, and remove the file"
    )
