"""A world as an actor, without Ray: its messages, faults of its node, and what its death means."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.closedloop.runs import tasks, worker_config

from closedloop_plugin.runner.cluster import world_actors
from closedloop_plugin.runner.cluster.world_actors import (
    ActorGreeting,
    RayEngine,
    RayWorldProcess,
    WorldActor,
    _redirect_output,
    own_label,
)
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.world_processes import ProcessDeath

pytestmark = pytest.mark.integration


class UnreachableError(Exception):
    """Ray's exception for an actor that it cannot reach."""


class NoReplyError(Exception):
    """Ray's exception for a call that lasts too long."""


class FakeRay:
    """The part of Ray that a process uses: a reference is the call itself, and `get` makes it."""

    exceptions = SimpleNamespace(ActorUnavailableError=UnreachableError, GetTimeoutError=NoReplyError)

    def __init__(self) -> None:
        self.killed: list[Any] = []
        self.kill = self.killed.append

    def get(self, reference: Callable[[], Any], timeout: float | None = None) -> Any:
        return reference()


class FakeActor:
    """A WorldActor on the node gpu3; `errors` are raised by its next calls. `raylet`: its node's address."""

    def __init__(self, shared: bool = True, label: str | None = None, *errors: Exception) -> None:
        self.raylet = socket.create_server(("127.0.0.1", 0))
        self.greeting = ActorGreeting(
            "gpu3", self.raylet.getsockname(), label or own_label(), shared, "/far/lmms_eval_ad2"
        )
        self.errors = list(errors)
        self.actor: WorldActor | None = None  # constructed by its first call, as greenlets belong to a thread
        self.greet = SimpleNamespace(remote=lambda: self._greet)
        self.resume = SimpleNamespace(remote=lambda message: lambda: self._resume(message))

    def _greet(self) -> ActorGreeting:
        if self.errors and not isinstance(self.errors[0], UnreachableError):
            raise self.errors[0]
        return self.greeting

    def _resume(self, message: Any) -> tuple[bytes, bool]:
        if self.errors:
            raise self.errors.pop(0)
        self.actor = self.actor or WorldActor("name", None)
        return self.actor.resume(message)


@pytest.fixture(autouse=True)
def no_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_actors.signal, "signal", lambda *_: None)  # actors are in threads here


@pytest.fixture
def processes() -> Iterator[Callable[..., RayWorldProcess]]:
    """Starts processes of fake actors; they are killed afterwards."""
    started: list[RayWorldProcess] = []

    def start(actor: FakeActor, recorders: tuple[FactoryRecipe, ...] = (), log: Path | None = None) -> RayWorldProcess:
        started.append(RayWorldProcess(FakeRay(), actor, replace(worker_config(), recorders=recorders), log))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.actor.raylet.close()


def test_an_episode_through_calls_of_an_actor(processes: Callable[..., RayWorldProcess]) -> None:
    process = processes(FakeActor())
    assert process.pipe.recv()[0] == "ready" and process.waits_for == ""
    (task,) = tasks(routes=1)
    process.pipe.send(("run", task))
    kinds: list[Any] = []
    while not kinds or kinds[-1][0] != "done":
        kinds.append(process.pipe.recv())
    assert kinds[0][:2] == ("start", task.key) and kinds[-1][1].record.route_id == task.route_id
    process.close()
    process.wait(60.0)
    assert not process._thread.is_alive() and process._error is None


def test_a_world_that_cannot_be_made(processes: Callable[..., RayWorldProcess]) -> None:
    process = RayWorldProcess(FakeRay(), actor := FakeActor(), worker_config(FactoryRecipe("no_such:thing")), None)
    kind, text = process.pipe.recv()
    assert kind == "user" and "no_such" in text
    with pytest.raises(EOFError):
        process.pipe.recv()
    assert process.death() == ProcessDeath("the world process on node gpu3 closed its pipe")
    actor.raylet.close()


def test_what_a_process_waits_for() -> None:
    config = replace(worker_config(), world=FactoryRecipe("a:b", {"server": "gpu3:2000"}))
    process = RayWorldProcess(FakeRay(), actor := FakeActor(True, None, RuntimeError("no place")), config, None)
    assert process.waits_for == 'a node with a free CPU and the resource "carla" for gpu3:2000'
    process.kill()
    assert process.ray.killed == [actor]
    actor.raylet.close()


@pytest.mark.parametrize(
    ("shared", "label", "recorders", "fault"),
    [
        (
            True,
            "0.0.1",
            (),
            r"^node gpu3 has 0.0.1 in /far/lmms_eval_ad2, this command .* in .*/lmms_eval_ad2; install the same",
        ),
        (False, None, (FactoryRecipe("a:b"),), r"^node gpu3 does not see .*logs: pictures and videos"),
    ],
)
def test_a_node_that_cannot_be_used_ends_the_run(
    processes: Callable[..., RayWorldProcess], tmp_path: Path, shared: bool, label: str | None, recorders: Any,
    fault: str,
) -> None:  # fmt: skip
    process = processes(FakeActor(shared, label), recorders, tmp_path / "logs" / "worker0.log")
    kind, text = process.pipe.recv()
    assert kind == "user" and re.match(fault, text)


LOST_NODE = RuntimeError("The actor died because its node has died. Node Id: 5")
DIED = RuntimeError("The actor died\n\tip: 1.2.3.4\nWorker exit type: SYSTEM_ERROR")
DEATH = "the world process on node gpu3 died: The actor died ip: 1.2.3.4 Worker exit type: SYSTEM_ERROR"


@pytest.mark.parametrize(
    ("errors", "raylet_lives", "death"),
    [
        pytest.param((DIED,), True, ProcessDeath(f"{DEATH}; it last printed: Segmentation fault"), id="world"),
        pytest.param((DIED,), False, ProcessDeath("node gpu3 was lost", machine_lost=True), id="node"),
        pytest.param((LOST_NODE,), True, ProcessDeath("node gpu3 was lost", machine_lost=True), id="node, by Ray"),
        pytest.param(
            (UnreachableError(), DIED), True, ProcessDeath(f"{DEATH}; it last printed: Segmentation fault"),
            id="unreachable, then dead",
        ),
        pytest.param(
            (UnreachableError(),), True, ProcessDeath("the connection to node gpu3 was lost", machine_lost=True),
            id="unreachable, but alive",
        ),
        pytest.param(
            (UnreachableError("lost"), NoReplyError()), False, ProcessDeath("node gpu3 was lost", machine_lost=True),
            id="unreachable for long",
        ),
    ],
)  # fmt: skip
def test_a_death_of_a_world_is_distinguished_from_the_loss_of_its_node(
    processes: Callable[..., RayWorldProcess], tmp_path: Path, errors: tuple[Exception, ...], raylet_lives: bool,
    death: ProcessDeath,
) -> None:  # fmt: skip
    log = tmp_path / "worker0.log"
    log.write_text("Segmentation fault\n")
    process = processes(actor := FakeActor(), log=log)
    assert process.pipe.recv()[0] == "ready"
    if not raylet_lives:
        actor.raylet.close()
    actor.errors = list(errors)
    process.pipe.send(("run", tasks(routes=1)[0]))
    with pytest.raises(EOFError):
        process.pipe.recv()
    assert process.death() == death


def test_a_node_that_is_lost_before_its_actor_runs(processes: Callable[..., RayWorldProcess]) -> None:
    process = processes(FakeActor(True, None, LOST_NODE))
    with pytest.raises(EOFError):
        process.pipe.recv()
    assert process.death() == ProcessDeath("its node was lost", machine_lost=True)


@pytest.mark.parametrize(
    ("server", "place"),
    [
        ("10.0.0.2:2000", {"node:10.0.0.2": 0.001}),
        ("localhost:2000", {"node:10.0.0.1": 0.001}),
        ("10.9.9.9:2000", {}),  # no node: its worlds may run anywhere
    ],
)
def test_a_world_is_placed_on_the_machine_of_its_server(server: str, place: dict[str, float]) -> None:
    nodes = [{"NodeManagerAddress": "10.0.0.1"}, {"NodeManagerAddress": "10.0.0.2"}]
    engine = SimpleNamespace(host="10.0.0.1", ray=SimpleNamespace(nodes=lambda: nodes))
    assert RayEngine._node_of(engine, server) == place  # type: ignore[arg-type]


def test_output_goes_to_the_log_only_if_the_folder_is_shared(tmp_path: Path) -> None:
    log = tmp_path / "worker0.log"
    assert not _redirect_output(log, "name")
    log.write_text("another run")
    assert not _redirect_output(log, "name")
    assert log.read_text() == "another run"
