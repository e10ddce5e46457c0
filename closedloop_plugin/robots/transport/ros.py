"""Finds ROS 1 on this machine and runs a ROS master. rospy is not imported here.

rospy is not on PyPI (where `genpy` is an unrelated package that breaks it); scripts/get_ros.sh fetches Debian's. The
master runs in a child process, because rosmaster patches Python's xmlrpc and hangs if its port is taken. Everything
binds to 127.0.0.1: any process that can reach a ROS master can drive the vehicle.
"""

from __future__ import annotations

import importlib.util
import os
import select
import subprocess
import sys
import tempfile
import time
import xmlrpc.client
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from lmms_eval_ad2.core.errors import Ad2Error, require

VARIABLE = "AD2_ROS_PATH"
SYSTEM = Path("/opt/ros")
BELOW = "usr/lib/python3/dist-packages"  # where scripts/get_ros.sh unpacks to
NEEDS = ("yaml", "pyparsing", "defusedxml")  # imported by the Debian packages
# Also in a system's dist-packages; first on the path, they would shadow the packages of the virtual environment.
SHADOWING = ("numpy", "yaml", "PIL", "setuptools")
START_S = 15.0  # for a child process to print its first line; 0.3 s on an idle machine
HELP = (
    "`scripts/get_ros.sh DIR` fetches it without root; then set {variable}=DIR (not needed for DIR = {default}), "
    "or `source /opt/ros/*/setup.bash` in this shell"
)

_MASTER = """
import sys
import rosmaster.master
master = rosmaster.master.Master(int(sys.argv[1]))
master.start()
print(master.uri, flush=True)
sys.stdin.read()  # until whoever started this has gone
"""
_LOGGING = """
version: 1
disable_existing_loggers: false
formatters: {plain: {format: "%(name)s: %(message)s"}}
handlers: {stderr: {class: logging.StreamHandler, formatter: plain, stream: ext://sys.stderr}}
root: {level: ERROR, handlers: [stderr]}
"""


def find_rospy() -> Path:
    """The folder for the PYTHONPATH of a ROS process. Ad2Error, with how to install ROS, if there is none."""
    for module in NEEDS:
        require(module, "ROS 1 imports it")
    folder = os.environ.get(VARIABLE)
    if folder:
        found = _in(Path(folder))
        if found is None:
            raise Ad2Error(f"{VARIABLE}={folder}: no rospy there; expected rospy/ or {BELOW}/rospy/: {_help()}")
        return found
    loaded = importlib.util.find_spec("rospy")  # after `source setup.bash`
    places = [Path(loaded.origin).parent.parent] if loaded and loaded.origin else []
    places += [_default(), *sorted(SYSTEM.glob("*/lib/python3/dist-packages"))]
    for place in places:
        if found := _in(place):
            return found
    raise Ad2Error(f"rospy (ROS 1) is needed and not found: {_help()}")


def _in(place: Path) -> Path | None:
    """The folder with rospy: `place` or BELOW it. Ad2Error if it would shadow other packages."""
    found = next((p for p in (place / BELOW, place) if (p / "rospy/__init__.py").is_file()), None)
    shadowing = [name for name in SHADOWING if found and (found / name).exists()]
    if shadowing:
        raise Ad2Error(
            f"{found} has rospy, but also {', '.join(shadowing)}, which would shadow this environment's packages: "
            f"{_help()}"
        )
    return found


def _default() -> Path:
    return Path(sys.prefix) / "ros"


def _help() -> str:
    return HELP.format(variable=VARIABLE, default=_default())


def master_pid(uri: str, timeout_s: float = 10.0) -> int | None:
    """The process id of the master at `uri`, or None if no master answers. Call it before rospy's init_node, which
    waits indefinitely for a master."""
    try:
        answer: Any = xmlrpc.client.ServerProxy(uri, transport=_Transport(timeout_s)).getPid("/ad2")
        code, _, pid = answer
    except (OSError, HTTPException, xmlrpc.client.Error, ValueError, TypeError):
        return None
    return int(pid) if code == 1 and isinstance(pid, int) else None


class _Transport(xmlrpc.client.Transport):
    def __init__(self, timeout_s: float) -> None:
        super().__init__()
        self._timeout_s = timeout_s

    def make_connection(self, host: Any) -> HTTPConnection:
        return HTTPConnection(str(host), timeout=self._timeout_s)


class RosChildProcess:
    """A child process that prints one line when it is ready and ends when its stdin is closed, so that it never
    outlives its parent. `first_line`: that line."""

    def __init__(self, name: str, words: list[str], env: dict[str, str], timeout_s: float = START_S) -> None:
        self.name = name
        # Its own session: Ctrl-C in the terminal is handled by the parent only.
        self.process = subprocess.Popen(
            words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        try:
            self.first_line = self._first_line(timeout_s)
        except BaseException:
            self.close()
            raise

    def _first_line(self, timeout_s: float) -> str:
        out, deadline, line = self.process.stdout, time.monotonic() + timeout_s, b""
        assert out is not None
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([out], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(out.fileno(), 1) if ready else b""  # one byte: the next line may follow at once
            if not ready:
                raise Ad2Error(f"{self.name} was not up after {timeout_s:.0f} s (is its port taken? see its messages)")
            if not piece:
                raise Ad2Error(
                    f"{self.name} ended while it started, code {self.process.wait()}: see its messages above"
                )
            line += piece
        return line.decode("utf-8", "replace").strip()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Kill the process, to simulate a fault."""
        self.process.kill()
        self.close()

    def close(self, grace_s: float = 3.0) -> None:
        """Close its stdin, which ends it; SIGKILL after `grace_s`."""
        _close(self.process.stdin)
        try:
            self.process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        _close(self.process.stdout)


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        pipe.close()


class RosMaster:
    """Runs a ROS master. `env()` is the environment for processes that use it. Port 0: any free one."""

    def __init__(self, port: int = 0, timeout_s: float = START_S) -> None:
        self._path = find_rospy()
        self._home = tempfile.TemporaryDirectory(prefix="ad2_ros_")
        (Path(self._home.name) / "logging.yaml").write_text(_LOGGING, "utf-8")
        self._timeout_s = timeout_s
        self.uri = ""
        try:
            self._child = self._start(port)
        except BaseException:
            self._home.cleanup()
            raise
        self.port = int(self.uri.rstrip("/").rpartition(":")[2])

    def _start(self, port: int) -> RosChildProcess:
        child = RosChildProcess("rosmaster", [sys.executable, "-c", _MASTER, str(port)], self.env(), self._timeout_s)
        if not child.first_line.startswith("http://"):
            child.close()
            raise Ad2Error(f"rosmaster did not start on port {port}: {child.first_line}")
        self.uri = child.first_line
        return child

    def env(self) -> dict[str, str]:
        """This process's environment with ROS variables. The logging configuration for init_node passes errors only."""
        env = {k: v for k, v in os.environ.items() if k not in ("ROS_HOSTNAME", "ROS_IPV6", "ROS_NAMESPACE")}
        rest = env.get("PYTHONPATH")
        return env | {
            "PYTHONPATH": f"{self._path}{os.pathsep}{rest}" if rest else str(self._path),
            "ROS_MASTER_URI": self.uri or "http://127.0.0.1:11311/",
            "ROS_IP": "127.0.0.1",
            "ROS_HOME": self._home.name,
            "ROS_LOG_DIR": self._home.name,
            "ROS_PYTHON_LOG_CONFIG_FILE": str(Path(self._home.name) / "logging.yaml"),
        }

    @property
    def alive(self) -> bool:
        return self._child.alive

    def close(self) -> None:
        self._child.close()
        self._home.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
