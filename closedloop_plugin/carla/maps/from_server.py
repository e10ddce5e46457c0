"""Download of a town's OpenDRIVE from the user's CARLA server.

The client runs in a subprocess: it crashes natively if another service answers on the port, and it blocks the
interpreter while a server is silent.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from lmms_eval_ad2.errors import Ad2Error, require
from lmms_eval_ad2.storage.files import atomic_write

CONNECT_S = 20.0
EXTRA_S = 15.0  # for the import and a town that is loading
CLIENT_SCRIPT = """
import sys
import carla
host, port, timeout = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
try:
    client = carla.Client(host, port)
    client.set_timeout(timeout)
    town = client.get_world().get_map()
    sys.stdout.buffer.write(town.name.encode() + b"\\n" + town.to_opendrive().encode())
except RuntimeError as exc:
    sys.stderr.write("CARLA: " + " ".join(str(exc).split()))
    sys.exit(3)
"""


def fetch_town(server: str, folder: Path, *, timeout_s: float = CONNECT_S) -> Path:
    """Write the map of the current town to `folder`/<town>.xodr. `server`: host:port."""
    host, port = address(server)
    require("carla", "to get the map of a CARLA server")
    try:
        done = subprocess.run(
            [sys.executable, "-c", CLIENT_SCRIPT, host, str(port), str(timeout_s)],
            capture_output=True,
            timeout=timeout_s + EXTRA_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Ad2Error(
            f"{server}: no answer in {timeout_s + EXTRA_S:.0f} s; is a CARLA server running there?"
        ) from None
    if done.returncode == 3:
        reason = done.stderr.decode(errors="replace").rsplit("CARLA: ", 1)[-1].strip()
        raise Ad2Error(f"{server}: no CARLA server answers there ({reason[:160]})")
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise Ad2Error(f"{server}: what answers there is no CARLA server (the client died of {name})")
    name_line, _, text = done.stdout.partition(b"\n")
    if done.returncode or b"<OpenDRIVE" not in text:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no map in its answer"]
        raise Ad2Error(f"{server}: could not get the map: {last[0][:200]}")
    town = re.sub(r"[^A-Za-z0-9_-]", "_", name_line.decode(errors="replace").rsplit("/", 1)[-1]) or "town"
    file = Path(folder) / f"{town}.xodr"
    with atomic_write(file) as out:
        out.write(text.decode(errors="replace"))
    return file


def release(version: str) -> tuple[int, ...] | None:
    """The first three numbers of a CARLA version, without the build; None if it has another form."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?!\d)", version)
    return tuple(int(n) for n in found.groups()) if found else None


def address(server: str, option: str = "--server") -> tuple[str, int]:
    """host:port -> (host, port)."""
    host, colon, port = server.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise Ad2Error(f"{option} {server}: expected host:port, such as localhost:2000")
    return host, int(port)
