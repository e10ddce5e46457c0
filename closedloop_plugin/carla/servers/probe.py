"""Probe of a CARLA server: whether it answers, and whether its version fits the installed client.

The client runs in a subprocess, as in maps/from_server.py, since it crashes natively if another service answers. The
version is answered by a network thread of the server even while its simulation hangs; the list of the map's files is
answered by the simulation itself, as are all calls of an episode.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from enum import Enum
from typing import Any

from closedloop_plugin.carla.maps.from_server import EXTRA_S, release
from lmms_eval_ad2.errors import require

TIMEOUT_S = 10.0
CLIENT_SCRIPT = """
import json, socket, sys
host, port, timeout, simulation = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "1"
result = {"kind": "answers"}
def end(**more):
    print(json.dumps({**result, **more}))
    sys.exit(0)
try:
    socket.create_connection((host, port), timeout).close()
except TimeoutError:
    end(kind="silent", reason=f"no connection within {timeout:g} s")
except OSError as exc:
    end(kind="no server listens", reason=str(exc)[:200])
import carla
client = carla.Client(host, port)
client.set_timeout(timeout)
try:
    result["server"] = client.get_server_version()[:80]
except RuntimeError as exc:
    end(kind="silent" if "time-out" in str(exc) else "no CARLA", reason=str(exc)[:200])
try:
    if simulation:
        client.get_required_files("Nav", False)
except RuntimeError as exc:
    end(kind="silent", reason="its network answers, its simulation does not (" + str(exc)[:120] + ")")
end()
"""


class ServerProbeOutcome(Enum):
    ANSWERS = "answers"
    NO_SERVER = "no server listens"
    SILENT = "silent"  # connected, but no answer in time
    FOREIGN = "no CARLA"  # another service answers


@dataclass(frozen=True)
class ServerProbeResult:
    server: str  # host:port
    kind: ServerProbeOutcome
    server_version: str = ""
    client_version: str = ""
    reason: str = ""

    @property
    def answers(self) -> bool:
        return self.kind is ServerProbeOutcome.ANSWERS

    @property
    def fits(self) -> bool:
        """Whether it answers and has the client's release (the first three numbers of the version)."""
        ours = release(self.client_version)
        return self.answers and ours is not None and release(self.server_version) == ours


class ServerProbe:
    """A running probe. `simulation`: the simulation must answer too, not only the network thread."""

    def __init__(self, host: str, port: int, timeout_s: float = TIMEOUT_S, *, simulation: bool = False) -> None:
        self.server, self.client_version = f"{host}:{port}", client_version()
        self._deadline = time.monotonic() + 2 * timeout_s + EXTRA_S
        self._process = subprocess.Popen(
            [sys.executable, "-c", CLIENT_SCRIPT, host, str(port), str(timeout_s), str(int(simulation))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def answer(self, wait_s: float = 0.0) -> ServerProbeResult | None:
        """The result, or None if there is none after `wait_s`."""
        try:
            self._process.wait(wait_s)  # its output fits into a pipe: it need not be read meanwhile
        except subprocess.TimeoutExpired:
            if time.monotonic() < self._deadline:
                return None
            self.end()
            return self._probe(ServerProbeOutcome.SILENT, reason="the client did not finish")
        out, err = self._process.communicate()
        code = self._process.returncode
        if code < 0:
            name = signal.Signals(-code).name
            return self._probe(
                ServerProbeOutcome.FOREIGN, reason=f"what answers there is no CARLA server: the client died of {name}"
            )
        result = _parse_output(out)
        if code or not result:
            last = _printable(err.decode(errors="replace").strip().rpartition("\n")[2])
            return self._probe(
                ServerProbeOutcome.SILENT, reason=f"the CARLA client failed: {last or f'exit code {code}'}"
            )
        return self._probe(ServerProbeOutcome(result["kind"]), result.get("server", ""), result.get("reason", ""))

    def end(self) -> None:
        """Kill the probe."""
        self._process.kill()
        self._process.communicate()

    def _probe(self, kind: ServerProbeOutcome, version: str = "", reason: str = "") -> ServerProbeResult:
        plain = _printable(version).encode("ascii", "replace").decode()[:40]
        return ServerProbeResult(self.server, kind, plain, self.client_version, _printable(reason))


def probe(host: str, port: int, timeout_s: float = TIMEOUT_S, *, simulation: bool = False) -> ServerProbeResult:
    """Probe once and wait for the result."""
    running = ServerProbe(host, port, timeout_s, simulation=simulation)
    while True:
        if found := running.answer(wait_s=1.0):
            return found


def client_version() -> str:
    """Version of the installed carla package. Ad2Error: not installed."""
    from importlib import metadata

    require("carla", "to query a CARLA server")
    return metadata.version("carla")


def advice(found: ServerProbeResult) -> str:
    """Advice for the user; empty if the server answers and fits."""
    port = found.server.rpartition(":")[2]
    if found.kind is ServerProbeOutcome.NO_SERVER:
        return (
            f"nothing listens at {found.server}; start a server: ad2 carla up --binary .../CarlaUE4.sh --ports {port}"
        )
    if found.kind is ServerProbeOutcome.SILENT:
        return (
            f"{found.server} does not answer ({found.reason}): it is starting, loads a town, or hangs. Wait, or "
            "restart it; servers of ad2 carla up are restarted automatically"
        )
    if found.kind is ServerProbeOutcome.FOREIGN:
        return (
            f"{found.server}: {found.reason}. Give the port of -carla-rpc-port (2000 by default), not the streaming "
            "port after it"
        )
    return "" if found.fits else _mismatch(found)


def _mismatch(found: ServerProbeResult) -> str:
    text = (
        f"{found.server} is CARLA {found.server_version or 'of no known version'}, the client installed here is "
        f"{found.client_version}: they must be of one release. "
    )
    server, wheels = release(found.server_version), (0, 9, 16)
    if server is not None and server < wheels:
        return text + (
            "Wheels of releases before 0.9.16 stop at Python 3.10, so use a server of 0.9.16 with ad2; or keep this "
            "one for Bench2Drive's own leaderboard, with closedloop_plugin/carla/leaderboard_agent/agent.py"
        )
    if server is not None and server >= (0, 10, 0):
        return text + "CARLA 0.10 (Unreal 5) is another simulator, which ad2 does not support: use a server of 0.9.16"
    return text + "Use a server of the client's release"


def _parse_output(out: bytes) -> dict[str, Any]:
    """The line that CLIENT_SCRIPT prints, or {} if it is malformed."""
    try:
        return dict(json.loads(out.decode().strip().rpartition("\n")[2]))
    except (ValueError, TypeError):
        return {}


def _printable(text: str) -> str:
    """Text from a server as one line without control characters."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())[:240]
