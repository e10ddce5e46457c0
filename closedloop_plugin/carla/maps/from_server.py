"""Download of a town's OpenDRIVE from the user's CARLA server.

The client runs in a subprocess: it crashes natively if another service answers on the port, and it blocks the
interpreter while a server is silent.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error, require
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
    limit_s = timeout_s + EXTRA_S
    code, out, last = asyncio.run(run_client(CLIENT_SCRIPT, host, port, str(timeout_s), limit_s=limit_s))
    if code is None:
        raise Ad2Error(f"{server}: no answer in {limit_s:.0f} s; is a CARLA server running there?")
    if code == 3:
        raise Ad2Error(f"{server}: no CARLA server answers there ({last.rpartition('CARLA: ')[2].strip()[:160]})")
    if code < 0:
        raise Ad2Error(f"{server}: {died_of(code)}")
    name_line, _, text = out.partition(b"\n")
    if code or b"<OpenDRIVE" not in text:
        raise Ad2Error(f"{server}: could not get the map: {last[:200] or 'no map in its answer'}")
    town = re.sub(r"[^A-Za-z0-9_-]", "_", name_line.decode(errors="replace").rsplit("/", 1)[-1]) or "town"
    file = Path(folder) / f"{town}.xodr"
    with atomic_write(file) as out_file:
        out_file.write(text.decode(errors="replace"))
    return file


async def run_client(script: str, host: str, port: int, *words: str, limit_s: float) -> tuple[int | None, bytes, str]:
    """Run a script with the client; its arguments are host, port and words. A cancelled run leaves no process.

    Returns (exit code, output, last line of its errors); the code is None if it has not finished within `limit_s`.
    """
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    command = (sys.executable, "-c", script, host, str(port), *words)
    process = await asyncio.create_subprocess_exec(*command, stdin=null, stdout=pipe, stderr=pipe)
    try:
        out, err = await asyncio.wait_for(process.communicate(), limit_s)
    except TimeoutError:
        return None, b"", ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, out, err.decode(errors="replace").strip().rpartition("\n")[2]


def died_of(code: int) -> str:
    """Message about a client that died of a signal. `code`: its exit code, below 0."""
    return f"what answers there is no CARLA server: the client died of {signal.Signals(-code).name}"


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
