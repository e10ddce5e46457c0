"""Probe of a CARLA server: whether it answers, and whether its version fits the installed client.

The client runs in a subprocess, as in maps/from_server.py, since it crashes natively if another service answers. The
version is answered by a network thread of the server even while its simulation hangs; the list of the map's files is
answered by the simulation itself, as are all calls of an episode.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import metadata

from closedloop_plugin.carla.maps.from_server import EXTRA_S, died_of, release, run_client
from lmms_eval_ad2.core.errors import require

ANSWERS, NO_SERVER, SILENT, FOREIGN = "answers", "no server listens", "silent", "no CARLA"
CLIENT_SCRIPT = """
import json, socket, sys
host, port, timeout, simulation = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "1"
kind, version, reason = "silent", "", ""
try:
    socket.create_connection((host, port), timeout).close()
    import carla
    client = carla.Client(host, port)
    client.set_timeout(timeout)
    version = client.get_server_version()
    if simulation:
        client.get_required_files("Nav", False)
    kind = "answers"
except TimeoutError:
    reason = f"no connection within {timeout:g} s"
except OSError as exc:
    kind, reason = "no server listens", str(exc)
except RuntimeError as exc:
    reason = f"its network answers, its simulation does not ({exc})" if version else str(exc)
    kind = "silent" if version or "time-out" in reason else "no CARLA"
print(json.dumps([kind, reason, version]))
"""


@dataclass(frozen=True)
class ServerProbeResult:
    """Result of a probe. `kind`: ANSWERS, NO_SERVER, SILENT (no answer in time) or FOREIGN (another service)."""

    server: str  # host:port
    client_version: str
    kind: str
    reason: str = ""
    server_version: str = ""

    @property
    def answers(self) -> bool:
        return self.kind == ANSWERS

    @property
    def fits(self) -> bool:
        """Whether it answers and has the client's release (the first three numbers of the version)."""
        ours = release(self.client_version)
        return self.answers and ours is not None and release(self.server_version) == ours


async def probe(host: str, port: int, timeout_s: float = 10.0, *, simulation: bool = False) -> ServerProbeResult:
    """Probe once; a cancelled probe leaves no process. `simulation`: not only the network thread must answer."""
    ours, words, limit_s = client_version(), (str(timeout_s), str(int(simulation))), 2 * timeout_s + EXTRA_S
    code, out, last = await run_client(CLIENT_SCRIPT, host, port, *words, limit_s=limit_s)
    kind, reason, version = SILENT, "the client did not finish", ""
    if code == 0 and out:
        kind, reason, version = json.loads(out.splitlines()[-1])
    elif code is not None:
        kind = FOREIGN if code < 0 else SILENT
        reason = died_of(code) if code < 0 else f"the CARLA client failed: {last or f'exit code {code}'}"
    version = _printable(version).encode("ascii", "replace").decode()[:40]
    return ServerProbeResult(f"{host}:{port}", ours, kind, _printable(reason), version)


def client_version() -> str:
    """Version of the installed carla package. Ad2Error: not installed."""
    require("carla", "to query a CARLA server")
    return metadata.version("carla")


def advice(found: ServerProbeResult) -> str:
    """Advice for the user; empty if the server answers and fits."""
    server, release_ = found.server, release(found.server_version)
    if found.fits:
        return ""
    if found.kind == NO_SERVER:
        port = server.rpartition(":")[2]
        return f"nothing listens at {server}; start a server: ad2 carla up --binary .../CarlaUE4.sh --ports {port}"
    if found.kind == SILENT:
        remedy = "Wait, or restart it; servers of ad2 carla up are restarted automatically"
        return f"{server} does not answer ({found.reason}): it is starting, loads a town, or hangs. {remedy}"
    if found.kind == FOREIGN:
        remedy = "Give the port of -carla-rpc-port (2000 by default), not the streaming port after it"
        return f"{server}: {found.reason}. {remedy}"
    remedy = "Use a server of the client's release"
    if release_ is not None and release_ < (0, 9, 16):
        remedy = (
            "Wheels of releases before 0.9.16 stop at Python 3.10, so use a server of 0.9.16 with ad2; or keep this "
            "one for Bench2Drive's own leaderboard, with closedloop_plugin/carla/leaderboard_agent/agent.py"
        )
    if release_ is not None and release_ >= (0, 10, 0):
        remedy = "CARLA 0.10 (Unreal 5) is another simulator, which ad2 does not support: use a server of 0.9.16"
    return (
        f"{server} is CARLA {found.server_version or 'of no known version'}, the client installed here is "
        f"{found.client_version}: they must be of one release. {remedy}"
    )


def _printable(text: str) -> str:
    """Text from a server as one line without control characters."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())[:240]
