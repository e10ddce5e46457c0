"""`ad2 carla`: start, watch and stop CARLA servers."""

from __future__ import annotations

import json
import math
import os
import platform
import secrets
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.carla.servers.lifecycle import CarlaServerStatus
    from closedloop_plugin.carla.servers.record import CarlaServerRecord

TAIL_LINES = 8

EXAMPLES = """examples:
  ad2 carla up --binary CARLA_0.9.16/CarlaUE4.sh                            one server, on port 2000
  ad2 carla up --binary .../CarlaUE4.sh --ports 2000,2010 --config gpus=0,1   each on its own GPU
  ad2 carla status --servers gpubox:2000                                    ours, and one started by somebody else
  ad2 carla down                                                            stop ours; --port 2010: only that one

A server uses the ports P, P+1 and P+2, a client's traffic manager P+6000. Each server has a supervisor that continues
after this command: it restarts a server that died or has not answered for the seconds of `hang`, after a growing
delay, and gives up after three starts in a row without an answer. Only processes started by ad2 are ever stopped. GPU
numbers are Vulkan's (-graphicsadapter), which may differ from nvidia-smi's. Unreal does not run as root. Containers:
docker compose -f configs/carla/compose.yaml up.

exit code: 0 all servers answer and fit the installed client, 1 some do not (with reasons), 2 invalid arguments"""


@dataclass(frozen=True, kw_only=True)
class CarlaUpOptions:
    """`ad2 carla up`."""

    binary: Path | None = option("CarlaUE4.sh of an unpacked CARLA release", default=None, metavar="FILE")
    ports: str = option("ports, one server each (default 2000)", default="2000", metavar="P,P,...")
    gpus: str = option(
        "one GPU for all servers, or one for each (default: CARLA's)", default="", metavar="G,G,...", expert=True
    )
    quality: str = option(
        "quality of rendering (default: CARLA's, Epic)", default="", choices=("Low", "Epic"), expert=True
    )
    extra: str = option(
        "further arguments of CarlaUE4.sh, for example -fps=20", default="", metavar="ARGS", expert=True
    )
    wait: float = option("seconds to wait for the first answers (default 120)", default=120.0, metavar="S", expert=True)
    hang: float = option(
        "seconds without an answer until a restart (default 300)", default=300.0, metavar="S", expert=True
    )
    foreground: bool = option("stay and print events; Ctrl-C stops the servers", default=False)


@dataclass(frozen=True, kw_only=True)
class CarlaStatusOptions:
    """`ad2 carla status`."""

    servers: str = option("also query these servers", default="", metavar="HOST:PORT,...")
    timeout: float = option("seconds to wait for an answer (default 10)", default=10.0, metavar="S")
    json: bool = option("print a JSON list", default=False)


@dataclass(frozen=True, kw_only=True)
class CarlaDownOptions:
    """`ad2 carla down`."""

    port: int | None = option("stop only the server on this port", default=None, metavar="P")


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("carla", help="start, watch and stop CARLA servers")
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    add_command(parts, "up", up, CarlaUpOptions, help="start servers and wait until they answer", epilog=EXAMPLES)
    add_command(
        parts,
        "status",
        status,
        CarlaStatusOptions,
        help="list the servers, whether they answer and fit the client",
        epilog=EXAMPLES,
    )
    add_command(parts, "down", down, CarlaDownOptions, help="stop our servers", epilog=EXAMPLES)


def up(options: CarlaUpOptions) -> int:
    from closedloop_plugin.carla.servers import lifecycle
    from lmms_eval_ad2.core.errors import Ad2Error

    if not (0 < options.wait < math.inf and 0 < options.hang < math.inf):
        raise Ad2Error("--config wait and --config hang: seconds above 0")
    records = server_records(options)
    folder = _folder()
    lifecycle.up(records, folder, options.wait, lambda n, seconds: _progress(n, len(records), seconds))
    if sys.stderr.isatty():
        print(file=sys.stderr)
    started = {record.server_name for record in records}
    found = [s for s in lifecycle.status(folder, (), 10.0) if s.server in started]
    _table(found, folder)
    _print_faults(found, folder, options.wait)
    if any(s.probe.answers for s in found):
        print(f"\n--servers {','.join(s.server for s in found if s.probe.answers)}")
    if options.foreground:
        return _stay(folder, [record.port for record in records])
    return 0 if len(found) == len(records) and all(s.good for s in found) else 1


def status(options: CarlaStatusOptions) -> int:
    from closedloop_plugin.carla.servers import lifecycle
    from lmms_eval_ad2.core.errors import Ad2Error

    if not 0 < options.timeout < math.inf:
        raise Ad2Error("--timeout is seconds above 0")
    folder = _folder()
    found = lifecycle.status(folder, [s.strip() for s in options.servers.split(",") if s.strip()], options.timeout)
    if options.json:
        print(json.dumps([_row(s) for s in found], indent=1))
    elif found:
        _table(found, folder)
        _print_faults(found, folder)
    else:
        print("no server of ad2 runs on this machine, and none was named (--servers host:port)")
    return 0 if found and all(s.good for s in found) else 1


def down(options: CarlaDownOptions) -> int:
    from closedloop_plugin.carla.servers import lifecycle
    from lmms_eval_ad2.core.errors import Ad2Error

    lines = lifecycle.down(_folder(), None if options.port is None else (options.port,))
    if options.port is not None and not lines:
        raise Ad2Error(f"--port {options.port}: ad2 has no server on this port (ad2 carla status); nothing was stopped")
    print("\n".join(lines) or "no server of ad2 runs on this machine; nothing was stopped")
    return 0


def _folder() -> Path:
    """The folder of this machine's servers: the data home may be on a disk shared by several machines."""
    from closedloop_plugin.scenarios.suites.lookup import data_home

    return data_home() / "carla" / (platform.node() or "localhost")


def server_records(options: CarlaUpOptions) -> list[CarlaServerRecord]:
    """The servers to start, one per port. All options are checked before the first start."""
    from closedloop_plugin.carla.servers.record import CarlaServerRecord
    from lmms_eval_ad2.core.errors import Ad2Error

    ports, gpus = _numbers("--ports", options.ports), _numbers("--config gpus", options.gpus)
    if len(gpus) > 1 and len(gpus) != len(ports):
        raise Ad2Error(
            f"--config gpus names {len(gpus)} GPUs, --ports {len(ports)} servers; give one GPU, or one for each"
        )
    _check_ports(ports)
    if options.binary is None:
        raise Ad2Error("give what to start: --binary PATH/CarlaUE4.sh")
    binary = _binary(options.binary)
    try:
        extra = tuple(shlex.split(options.extra))
    except ValueError as exc:
        raise Ad2Error(f"--config extra={options.extra}: not valid shell syntax ({exc})") from None
    extra = (*([f"-quality-level={options.quality}"] if options.quality else []), *extra)
    gpu_of = gpus if len(gpus) > 1 else [gpus[0] if gpus else None] * len(ports)
    return [
        CarlaServerRecord(
            port=port,
            token=secrets.token_hex(16),
            gpu=gpu,
            binary=binary,
            extra=extra,
            hang_s=options.hang,
        )
        for port, gpu in zip(ports, gpu_of, strict=True)
    ]


def _numbers(option: str, text: str) -> list[int]:
    from lmms_eval_ad2.core.errors import Ad2Error

    words = [w.strip() for w in text.split(",") if w.strip()]
    if not all(w.isascii() and w.isdigit() and len(w) < 6 for w in words):
        raise Ad2Error(f"{option} {text}: expected numbers separated by commas, such as 2000,2010")
    return [int(w) for w in words]


def _check_ports(ports: Sequence[int]) -> None:
    from closedloop_plugin.carla.servers.record import ALL_PORTS
    from lmms_eval_ad2.core.errors import Ad2Error

    if not ports:
        raise Ad2Error("--ports names no port; expected some, such as 2000,2010")
    taken: dict[int, int] = {}
    for port in ports:
        if not 1024 <= port <= 59535:
            raise Ad2Error(f"--ports {port}: expected 1024 to 59535 (the traffic manager is +6000)")
        for offset in ALL_PORTS.values():
            if (other := taken.setdefault(port + offset, port)) != port or ports.count(port) > 1:
                raise Ad2Error(
                    f"--ports {other} and {port} overlap: a server takes P, P+1, P+2 and P+6000; give 2000,2010,2020"
                )


def _binary(binary: Path) -> str:
    from lmms_eval_ad2.core.errors import Ad2Error

    file = binary.expanduser().absolute()
    if not file.is_file():
        hint = f"; there is {file / 'CarlaUE4.sh'}" if (file / "CarlaUE4.sh").is_file() else ""
        raise Ad2Error(f"--binary {file}: no such file{hint}; expected CarlaUE4.sh of an unpacked CARLA release")
    if not os.access(file, os.X_OK):
        raise Ad2Error(f"--binary {file}: not executable; chmod +x {file}")
    return str(file)


def _progress(answering: int, all_of_them: int, seconds: float) -> None:
    if sys.stderr.isatty():
        print(f"\r{answering} of {all_of_them} servers answer, {seconds:.0f} s ", end="", file=sys.stderr, flush=True)


def _row(s: CarlaServerStatus) -> dict[str, Any]:
    row: dict[str, Any] = {"server": s.server, "state": s.state, "good": s.good, "reason": s.probe.reason}
    row |= {"server_version": s.probe.server_version, "client_version": s.probe.client_version}
    if e := s.record:
        row["ours"] = {k: getattr(e, k) for k in ("gpu", "restarts", "since", "reason")}
        row["ours"] |= {"server": {"pid": s.pids[0]} if s.pids else None, "what": e.binary}
    return row


def _table(found: Sequence[CarlaServerStatus], folder: Path) -> None:
    from lmms_eval_ad2.report.table import Table

    headers = ("server", "state", "process", "gpu", "up", "restarts", "version", "log")
    rows: list[tuple[str, ...]] = []
    for s in found:
        own: tuple[str, ...] = ("not ours", "", "", "", s.probe.server_version, "")
        if e := s.record:
            process = str(s.pids[0]) if s.pids else "-"
            gpu = "-" if e.gpu is None else str(e.gpu)
            own = (process, gpu, _uptime(s), str(e.restarts), s.probe.server_version, str(folder / f"{e.port}.log"))
        rows.append((s.server, s.state, *own))
    print(Table(headers, rows, "lllrrrll").plain())


def _uptime(s: CarlaServerStatus) -> str:
    if not s.record or s.state in ("gone", "failed", "restarting"):
        return "-"
    minutes, seconds = divmod(max(0, int(time.time() - s.record.since)), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"


def _print_faults(found: Sequence[CarlaServerStatus], folder: Path, waited_s: float | None = None) -> None:
    """Print the fault of each server that does not answer or fit, and the remedy."""
    from closedloop_plugin.carla.servers.probe import advice

    for s in (s for s in found if not s.good):
        print()
        if s.record is None or s.probe.answers:
            show(advice(s.probe) or f"{s.server}: {s.state}")
        if s.record and s.state == "unwatched":
            print(f"{s.server}: its supervisor was killed; ad2 carla down --port {s.record.port} stops the server")
        elif s.record and s.state != "answers":
            late = f", no answer within {waited_s:g} s" if waited_s and s.state == "starting" else ""
            show(f"{s.server}: {s.state}{late}{': ' if s.record.reason else ''}{s.record.reason}; its log ends:")
            show(_tail(folder / f"{s.record.port}.log") or "  (nothing)")
            over = s.state in ("failed", "gone")  # no supervisor is running
            remedy = "fix it and start it again with ad2 carla up" if over else "ad2 carla status shows its progress"
            print(f"  {remedy}; ad2 carla down --port {s.record.port} {'removes' if over else 'stops'} it")


def _tail(file: Path) -> str:
    """The last lines of a log, for the terminal."""
    lines = file.read_text("utf-8", "replace")[-8000:].splitlines() if file.is_file() else []
    return "\n".join("  " + "".join(c for c in line if c.isprintable())[:200] for line in lines[-TAIL_LINES:])


def _stay(folder: Path, ports: Sequence[int]) -> int:
    """Print changes until Ctrl-C or SIGTERM, or until all servers are given up (code 1); then stop them."""
    from closedloop_plugin.carla.servers import lifecycle
    from closedloop_plugin.carla.servers.record import read

    before: dict[int, tuple[str, int]] = {}
    code = 1
    try:
        while kept := [e for p in ports if (e := read(folder, p)) and lifecycle.is_watched(e)]:
            for e in kept:
                if before.get(e.port) != (e.stage, e.restarts):
                    before[e.port] = (e.stage, e.restarts)
                    show(f"{time.strftime('%H:%M:%S')} {e.server_name}: {e.stage} {e.reason}".rstrip(), flush=True)
            time.sleep(0.5)
    except KeyboardInterrupt:
        code = 0
        print()
    finally:
        previous = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # stopping must not be interrupted
        print("\n".join(lifecycle.down(folder, ports)), flush=True)
        signal.signal(signal.SIGTERM, previous)
    return code
