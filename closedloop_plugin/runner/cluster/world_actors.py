"""RayEngine: world processes as actors of a Ray cluster, the counterpart of runner.world_processes.LocalEngine.

    this process                                           node of the cluster
    WorldPool -- pipe -- thread of a RayWorldProcess ----- worker.serve in a WorldActor, a process of its own
    RayEngine -- Ray: placement, start, calls, kill ------ raylet

Ray places an actor where a CPU is free; if its world has a CARLA server, also one of the resource "carla" must be free,
on the server's machine if that is a node. An actor without a place waits, so that nodes that join or return are used.
If its node is lost, the episode is driven again on another one, which is not counted as a failure of the episode.
"""

from __future__ import annotations

import contextlib
import copy
import os
import platform
import signal
import socket
import threading
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import lmms_eval_ad2
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
from lmms_eval_ad2.core.errors import require
from lmms_eval_ad2.storage.identity import code_label

PACKAGE = str(Path(lmms_eval_ad2.__file__).resolve().parent)  # the code of this process
DEATH_S = 5.0  # until Ray reports why an actor died
RAYLET_S = 3.0  # in which the raylet of a live node accepts a connection
CLOSED = "closed"  # in place of a message to the actor: there will be none


@dataclass(frozen=True)
class ActorGreeting:
    """Where an actor runs. `raylet`: address of its node's; `shared`: it sees the files of the run folder; `folder`: of
    the package that it has imported."""

    host: str
    raylet: tuple[str, int]
    label: str
    shared: bool
    folder: str


class WorldActor:
    """The process of one world on a node of the cluster; Ray constructs it there.

    worker.serve runs in a greenlet of the main thread, which Scenic requires, and has this object as its pipe: where it
    waits for a message, it switches to the call of `resume` that brings the next one.
    """

    def __init__(self, name: str, log: Path | None) -> None:
        """`name`, `log`: see _redirect_output."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._shared = log is not None and _redirect_output(log, name)
        self._greenlet = require("greenlet", "worlds as actors of Ray")
        self._worker = self._greenlet.greenlet(serve)
        self._caller: Any = None
        self._sent: list[Any] = []

    def greet(self) -> ActorGreeting:
        return ActorGreeting(platform.node(), _own_raylet(), own_label(), self._shared, PACKAGE)

    def resume(self, message: Any) -> tuple[list[Any], bool]:
        """Pass the parent's message to the worker, and run it until it waits for the next one or shows its progress.

        The first message is the WorkerConfig; after one about progress the next is None. Returns the messages of the
        worker, and whether it waits for another one.
        """
        self._caller = self._greenlet.getcurrent()
        if not self._worker:  # not started
            self._worker.switch(self)
        self._worker.switch(message)
        sent, self._sent = self._sent, []
        return sent, not self._worker.dead

    def send(self, message: Any) -> None:
        self._sent.append(message)
        if message[0] == "beat":
            self.recv()

    def recv(self) -> Any:
        message = self._caller.switch()
        if message == CLOSED:
            raise EOFError
        return message


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


class RayEngine:
    """See WorldEngine. `address`, `workers`, `servers`: see connect()."""

    def __init__(self, address: str | None, workers: int, servers: int = 0) -> None:
        self.ray = connect(address, workers, servers)
        self.host = str(self.ray.util.get_node_ip_address())
        self._actor = self.ray.remote(WorldActor)
        self._environment = actor_environment(OPENBLAS_NUM_THREADS=os.environ.get("OPENBLAS_NUM_THREADS", "1"))

    def start(self, config: WorkerConfig, log: Path | None) -> RayWorldProcess:
        """Request an actor from Ray; does not wait until it has a place."""
        server = config.world.kwargs.get("server")
        place = {CARLA: 1.0, **self._node_of(str(server))} if server else {}
        name = os.urandom(16).hex()
        if log:
            log.write_text(name, "ascii")
        options = {"num_cpus": 1, "resources": place, "max_restarts": 0, "runtime_env": self._environment}
        return RayWorldProcess(self.ray, self._actor.options(**options).remote(name, log), config, log)

    def _node_of(self, server: str) -> dict[str, float]:
        """The resource that each node has for itself, if the machine of a CARLA server is a node, now or earlier."""
        host = server.rpartition(":")[0].strip("[]").lower()
        host = self.host if host in LOOPBACK else host
        with contextlib.suppress(OSError):
            host = socket.gethostbyname(host)
        addresses = {str(node["NodeManagerAddress"]) for node in self.ray.nodes()}
        return {f"node:{host}": 0.001} if host in addresses else {}


class RayWorldProcess:
    """See WorldProcess. A thread calls the actor, for messages between it and `pipe`, until one of both has ended.

    No call of Ray may last until this program ends, for then it would end the program: `kill` waits for the thread.
    """

    def __init__(self, ray: Any, actor: Any, config: WorkerConfig, log: Path | None) -> None:
        self.ray, self.actor, self.config, self.log = ray, actor, config, log
        server = config.world.kwargs.get("server")
        self.waits_for = "a node with a free CPU" + (f' and the resource "{CARLA}" for {server}' if server else "")
        self.pipe, self._far = Pipe()
        self._raylet: tuple[str, int] | None = None
        self._node = "its node"
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._serve, name="ad2-ray-world", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            greeting: ActorGreeting = self.ray.get(self.actor.greet.remote())
            if fault := self._fault(greeting):
                with contextlib.suppress(OSError):  # closed
                    self._far.send(("user", fault))
                return
            self._raylet, self._node = greeting.raylet, f"node {greeting.host}"
            self.log = self.log if greeting.shared else None
            self.waits_for = ""
            message, waits = self.config, True
            while waits:
                sent, waits = self.ray.get(self.actor.resume.remote(message))
                # A copy, since Ray's images are read-only.
                message = self._exchanged(copy.deepcopy(sent), waits)
        except Exception as exc:  # the actor died, or its node, or the cluster
            self._error = exc
        finally:
            self._far.close()

    def _exchanged(self, sent: list[Any], waits: bool) -> Any:
        """Pass messages of the actor on, and return the next one to it: CLOSED if this process has closed the pipe."""
        try:
            for message in sent:
                self._far.send(message)
            return self._far.recv() if waits and sent[-1][0] != "beat" else None
        except (EOFError, OSError):
            return CLOSED

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

    def close(self) -> None:
        self.pipe.close()

    def wait(self, timeout_s: float) -> None:
        if not self.waits_for:
            self._thread.join(timeout_s)

    def kill(self) -> None:
        self.close()
        with contextlib.suppress(Exception):  # its node or the whole cluster is lost
            self.ray.kill(self.actor)
        self._thread.join(DEATH_S)

    def death(self) -> ProcessDeath:
        self._thread.join(DEATH_S)
        if self._error is None:
            return ProcessDeath(f"the world process on {self._node} closed its pipe{last_line(self.log)}")
        error = self._cause(self._error)
        if error is None:
            return ProcessDeath(f"the connection to {self._node} was lost", machine_lost=True)
        if is_node_loss(error) or (self._raylet and not is_open(self._raylet, RAYLET_S)):
            return ProcessDeath(f"{self._node} was lost", machine_lost=True)
        return ProcessDeath(f"the world process on {self._node} died: {last_line_of(error)}{last_line(self.log)}")

    def _cause(self, error: Exception) -> Exception | None:
        """Why the actor ended: what Ray reports of it later, if it could not be reached first; None if it lives."""
        if not isinstance(error, self.ray.exceptions.ActorUnavailableError):
            return error
        try:
            self.ray.get(self.actor.greet.remote(), timeout=DEATH_S)
        except Exception as exc:
            return error if isinstance(exc, self.ray.exceptions.GetTimeoutError) else exc
        return None
