"""The connection of this process to a Ray cluster.

Ray executes what its peers send, so only clusters that demand a token are used, unless RAY_AUTH_MODE=disabled is set.
Ray that is started here listens on the loopback interface only, with a token of its own that is in no file. Usage
statistics are not sent.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import lmms_eval_ad2
from lmms_eval_ad2.core.errors import Ad2Error, require

CARLA = "carla"  # custom resource of a node: its number of CARLA servers
AUTO = "auto"
OBJECT_STORE = 100 * 2**20  # bytes; messages of worlds that are larger than 100 kB pass through it, one for each world
PROBE_S = 60.0  # for a reply; importing Ray takes most of it
CONNECT_S = 10.0
LOOPBACK = ("localhost", "127.0.0.1", "::1")
INHERITED = ("AD2_HOME", "HF_HOME", "HF_HUB_OFFLINE")  # no secrets: Ray logs the environment of actors
_TOKEN = "RAY_AUTH_TOKEN"
NO_TOKEN = "InvalidAuthToken"  # in Ray's reply to a request without the token
# Ray's switch for single machines (named after the systems on which it is the default): loopback addresses only.
_LOOPBACK_ONLY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}

_OURS: dict[
    str, Any
] = {}  # the connection that this process has made: `address`, and CARLA `servers` it has places for


def connect(address: str | None, workers: int, servers: int = 0) -> ModuleType:
    """Connect to the cluster at `address`, "host:port" or "auto" (the one of this machine); returns the module ray.

    None: start Ray on this machine with a place for each of `workers` worlds and `servers` CARLA servers; it ends with
    this process. Raises Ad2Error if Ray is missing, or if no cluster that fits answers.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    loaded = sys.modules.get("ray")
    if address is None and not (loaded and loaded.is_initialized()):
        os.environ.update(_LOOPBACK_ONLY)
    ray = require("ray", "by --config engine=ray")
    if ray.is_initialized():
        if _OURS.get("address", "") != address or servers > _OURS["servers"]:
            raise Ad2Error(
                "this process is connected to a Ray cluster that was not chosen by this run: call ray.shutdown() first"
            )
        return ray
    settings: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        cpus = max(workers, os.cpu_count() or 1)
        settings |= {"address": "local", "num_cpus": cpus, "resources": {CARLA: servers} if servers else None}
        settings |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE}
    else:
        _check(address)
    try:
        with _own_token() if address is None else contextlib.nullcontext():
            _forget_token()
            ray.init(**settings)
    except Exception as exc:  # another version, a wrong token, no node on this machine: exceptions of many classes
        named = f"--config ray_address={address}" if address else "--config engine=ray: Ray does not start"
        raise Ad2Error(f"{named}: {_reason(exc)}") from exc
    # Ray prints the last log lines of each lost node on stdout, also with log_to_driver=False; there is no option.
    worker: Any = require("ray._private.worker")
    worker.print_to_stdstream = lambda *_, **__: None
    _OURS.update(address=address, servers=math.inf if address else servers)
    return ray


@contextlib.contextmanager
def _own_token() -> Iterator[None]:
    """A new token, only while Ray starts: its processes inherit it, and this one keeps it until the connection ends.

    In the environment it would replace the user's token for a cluster to which this process connects later.
    """
    former = os.environ.get(_TOKEN)
    os.environ[_TOKEN] = secrets.token_hex(32)
    try:
        yield
    finally:
        del os.environ[_TOKEN]
        if former is not None:
            os.environ[_TOKEN] = former


def _forget_token() -> None:
    """Ray keeps the token of a process, also after ray.shutdown()."""
    loader = getattr(sys.modules.get("ray._raylet"), "AuthenticationTokenLoader", None)
    if loader is not None:
        loader.instance().reset_cache()


def connected() -> ModuleType:
    """The module ray, after connect(). Raises Ad2Error without a connection."""
    ray = require("ray", "by replicas of a model")
    if not ray.is_initialized():
        raise Ad2Error("replicas of a model are actors of Ray: add --config engine=ray")
    return ray


def actor_environment(**more: str) -> dict[str, Any]:
    """The runtime_env of an actor: this process's paths, and the variables that worlds and models need.

    An actor must import the package that this process imports. Ray puts the current folder, which may be a checkout of
    other code, before all paths of an actor, unless it is among them: so it is the last. An editable installation is
    found after all paths: its folder is named before that one.
    """
    here = str(Path.cwd())
    package = str(Path(lmms_eval_ad2.__file__).resolve().parents[1])
    found = dict.fromkeys([*(path or here for path in sys.path), package, here])
    paths = {"PYTHONPATH": os.pathsep.join(found)}
    return {"env_vars": {**{name: os.environ[name] for name in INHERITED if name in os.environ}, **paths, **more}}


def is_node_loss(exc: BaseException) -> bool:
    """Whether an actor died because its node did. Ray has no class of exceptions for it."""
    return "node has died" in " ".join(str(exc).split())


def last_line_of(exc: BaseException) -> str:
    """The cause at the end of Ray's texts, of a few hundred characters."""
    return " ".join(str(exc).split())[-300:]


def _check(address: str) -> None:
    """Raise Ad2Error unless a cluster that demands a token answers at `address`. ray.init() would wait for a minute."""
    host, _, port = address.rpartition(":")
    if address != AUTO and ("/" in address or not host or not port.isdecimal()):
        raise Ad2Error(f"--config ray_address={address}: expected auto or HOST:PORT, as printed by `ray start --head`")
    # Ray replaces loopback addresses by that of the node.
    open_port = host.strip("[]") in ("", *LOOPBACK) or is_open((host.strip("[]"), int(port)), CONNECT_S)
    accepted, demands_token = _probe(address, "disabled") if open_port else (False, False)
    if not (accepted or demands_token):
        raise Ad2Error(f"--config ray_address={address}: no Ray cluster answers; start one with `ray start --head`")
    if accepted and os.environ["RAY_AUTH_MODE"] != "disabled":
        raise Ad2Error(
            f"--config ray_address={address}: this cluster demands no token, so whoever reaches it can run programs in "
            "it; start its nodes with RAY_AUTH_MODE=token, or RAY_AUTH_MODE=disabled if all of its network is trusted"
        )
    if demands_token and not _probe(address, "token")[0]:
        raise Ad2Error(
            f"--config ray_address={address}: the cluster refuses this machine's token; copy its token to "
            "~/.ray/auth_token, or set RAY_AUTH_TOKEN"
        )


def is_open(address: tuple[str, int], timeout_s: float) -> bool:
    """Whether a process accepts connections at `address`."""
    try:
        socket.create_connection(address, timeout=timeout_s).close()
    except OSError:
        return False
    return True


def _probe(address: str, mode: str) -> tuple[bool, bool]:
    """(whether a cluster accepts a request with this RAY_AUTH_MODE, whether it demands a token)."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--skip-version-check"]
    command += [] if address == AUTO else ["--address", address]
    environment = {**os.environ, "RAY_AUTH_MODE": mode}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PROBE_S, check=False)
    except subprocess.TimeoutExpired:
        return False, False
    return done.returncode == 0, NO_TOKEN in done.stderr


def _reason(exc: Exception) -> str:
    text = " ".join(str(exc).split())[:300] or type(exc).__name__
    if "ersion mismatch" in text:
        return f"another version of Ray or Python; install the same on all machines ({text})"
    return text
