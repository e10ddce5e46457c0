"""RayEngine: world processes as actors of a Ray cluster, the counterpart of runner.world_processes.LocalEngine.

    this process                                   node of the cluster
    WorldPool -- pipe (authenticated_pipe.py) ---- worker.serve in a WorldActor, a process of its own
    RayEngine -- Ray: placement, start, kill ----- raylet

Ray places an actor where a CPU is free; if its world has a CARLA server, also one of the resource "carla" must be free,
on the server's machine if that is a node. An actor without a place waits, so that nodes that join or return are used.
The actor opens the pipe; from then on all is as on one machine. If its node is lost, the episode is driven again on
another one, which is not counted as a failure of the episode.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import signal
import socket
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import lmms_eval_ad2
from closedloop_plugin.runner.cluster.authenticated_pipe import PipeListener, end_pipe, open_pipe
from closedloop_plugin.runner.cluster.connection import (
    CARLA,
    LOOPBACK,
    actor_environment,
    connect,
    is_node_loss,
    is_open,
    last_line_of,
)
from closedloop_plugin.runner.worker import WorkerConfig, serve
from closedloop_plugin.runner.world_processes import ProcessDeath, last_line
from lmms_eval_ad2.storage.code_state import code_label

PACKAGE = str(Path(lmms_eval_ad2.__file__).resolve().parent)  # the code of this process
DEATH_S = 5.0  # until Ray reports why an actor died
RAYLET_S = 3.0  # in which the raylet of a live node accepts a connection


@dataclass(frozen=True)
class ActorGreeting:
    """First message of an actor. `raylet`: address of its node's; `shared`: it sees the files of the run folder;
    `folder`: of the package that it has imported."""

    host: str
    raylet: tuple[str, int]
    label: str
    shared: bool
    folder: str


class WorldActor:
    """The process of one world on a node of the cluster; Ray constructs it there."""

    def serve(self, address: tuple[str, int], key: bytes, name: str, log: Path | None) -> None:
        """Open the pipe `name` and run episodes until the other end closes it. `log`: see _redirect_output."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        pipe = open_pipe(address, key, name)
        try:
            shared = log is not None and _redirect_output(log, name)
            pipe.send(ActorGreeting(platform.node(), _own_raylet(), own_label(), shared, PACKAGE))
            serve(pipe)
        finally:
            pipe.close()


def _own_raylet() -> tuple[str, int]:
    import ray

    own = ray.get_runtime_context().get_node_id()
    node = next(node for node in ray.nodes() if node["NodeID"] == own)
    return str(node["NodeManagerAddress"]), int(node["NodeManagerPort"])


def own_label() -> str:
    """Version and commit of this process's code, so that scores do not depend on the node."""
    return code_label().removesuffix(".dirty")  # may appear while a run lasts


def _redirect_output(log: Path, name: str) -> bool:
    """Write the output of this process to `log` if it is the file that contains `name`: the run folder is shared."""
    try:
        if log.read_text("ascii", errors="replace") != name:
            return False
        file = os.open(log, os.O_WRONLY | os.O_TRUNC | os.O_APPEND)
    except OSError:
        return False
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    return True


@functools.cache  # of a process, which may evaluate many times: listeners would add up
def _listener(host: str) -> PipeListener:
    return PipeListener(host)


class RayEngine:
    """See WorldEngine. `address`, `workers`, `servers`: see connect()."""

    def __init__(self, address: str | None, workers: int, servers: int = 0) -> None:
        self.ray = connect(address, workers, servers)
        self.host = str(self.ray.util.get_node_ip_address())
        self.listener = _listener(self.host)
        self._actor = self.ray.remote(WorldActor)
        self._environment = actor_environment(OPENBLAS_NUM_THREADS=os.environ.get("OPENBLAS_NUM_THREADS", "1"))

    def start(self, config: WorkerConfig, log: Path | None) -> RayWorldProcess:
        """Request an actor from Ray; does not wait until it has a place."""
        server = config.world.kwargs.get("server")
        place = {CARLA: 1.0, **self._node_of(str(server))} if server else {}
        actor = self._actor.options(num_cpus=1, resources=place, max_restarts=0, runtime_env=self._environment).remote()
        process = RayWorldProcess(self, actor, config, log)
        name = self.listener.expect(process.connect)
        if log:
            log.write_text(name, "ascii")
        ended = actor.serve.remote(self.listener.address, self.listener.key, name, log)
        ended.future().add_done_callback(process.end)
        return process

    def _node_of(self, server: str) -> dict[str, float]:
        """The resource that each node has for itself, if the machine of a CARLA server is a node, now or earlier."""
        host = server.rpartition(":")[0].strip("[]").lower()
        host = self.host if host in LOOPBACK else host
        with contextlib.suppress(OSError):
            host = socket.gethostbyname(host)
        addresses = {str(node["NodeManagerAddress"]) for node in self.ray.nodes()}
        return {f"node:{host}": 0.001} if host in addresses else {}


class RayWorldProcess:
    """See WorldProcess. `connect` and `end` are called in other threads, and must not call Ray: it ends the process if
    it is called while this program ends."""

    def __init__(self, engine: RayEngine, actor: Any, config: WorkerConfig, log: Path | None) -> None:
        self.engine, self.actor, self.config, self.log = engine, actor, config, log
        server = config.world.kwargs.get("server")
        self.waits_for = "a node with a free CPU" + (f' and the resource "{CARLA}" for {server}' if server else "")
        self.pipe, self._notices = Pipe()  # until the actor has opened its own pipe
        self._open = [self.pipe, self._notices]
        self._raylet: tuple[str, int] | None = None
        self._node = "its node"
        self._error: BaseException | None = None
        self._ended, self._lock, self._closed = threading.Event(), threading.Lock(), False

    def connect(self, pipe: Connection) -> None:
        """The actor has opened its pipe: greet it, and use the pipe from now on."""
        try:
            greeting: ActorGreeting = pipe.recv()
            fault = self._fault(greeting)
            if not fault:
                pipe.send(self.config)
        except (EOFError, OSError):  # it died; `end` is called
            pipe.close()
            return
        with self._lock:
            if fault and not self._closed:
                self._notices.send(("user", fault))
            if fault or self._closed:
                pipe.close()
                return
            self.pipe, self._raylet, self._node = pipe, greeting.raylet, f"node {greeting.host}"
            self._open.append(pipe)
            self.waits_for = ""
            if not greeting.shared:
                self.log = None

    def _fault(self, greeting: ActorGreeting) -> str:
        """Why its node cannot be used, an error of the user; "" if it can."""
        if greeting.label != own_label():
            versions = f"{greeting.label} in {greeting.folder}, this command {own_label()} in {PACKAGE}"
            return f"node {greeting.host} has {versions}; install the same version on all machines"
        if self.config.recorders and not greeting.shared:
            return (
                f"node {greeting.host} does not see {self.log and self.log.parent}: pictures and videos are written by "
                "the nodes, so they need a run folder that all machines share under the same path"
            )
        return ""

    def end(self, future: Future[None]) -> None:
        """The actor has ended."""
        self._error = future.exception()
        self._ended.set()
        with self._lock:
            if self._closed:
                return
            self._notices.close()
            if self._error is not None and not self.waits_for:
                end_pipe(self.pipe)  # a machine that vanished does not end it

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for pipe in self._open:
                pipe.close()

    def wait(self, timeout_s: float) -> None:
        if not self.waits_for:
            self._ended.wait(timeout_s)

    def kill(self) -> None:
        self.close()
        with contextlib.suppress(Exception):  # its node or the whole cluster is lost
            self.engine.ray.kill(self.actor)

    def death(self) -> ProcessDeath:
        if self._raylet and not is_open(self._raylet, RAYLET_S):
            return ProcessDeath(f"{self._node} was lost", machine_lost=True)
        if not self._ended.wait(DEATH_S):
            return ProcessDeath(f"the connection to {self._node} was lost", machine_lost=True)
        if self._error is None:
            return ProcessDeath(f"the world process on {self._node} closed its pipe{last_line(self.log)}")
        if is_node_loss(self._error):
            return ProcessDeath(f"{self._node} was lost", machine_lost=True)
        reason = f"the world process on {self._node} died: {last_line_of(self._error)}{last_line(self.log)}"
        return ProcessDeath(reason)
