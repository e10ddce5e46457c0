"""A world process on a node, without Ray: greeting, faults of its node, and what its death means."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.closedloop.runs import worker_config

from closedloop_plugin.runner.cluster import world_actors
from closedloop_plugin.runner.cluster.world_actors import (
    ActorGreeting,
    RayEngine,
    RayWorldProcess,
    _redirect_output,
    own_label,
)
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.world_processes import ProcessDeath

pytestmark = pytest.mark.integration


class Engine:
    """The part of RayEngine that a process uses. `alive`: whether the raylet of the node accepts connections."""

    def __init__(self) -> None:
        self.raylet_socket = socket.create_server(("127.0.0.1", 0))
        self.killed: list[Any] = []
        self.ray = SimpleNamespace(kill=self.killed.append)

    @property
    def raylet(self) -> tuple[str, int]:
        address: tuple[str, int] = self.raylet_socket.getsockname()
        return address


@pytest.fixture
def engine() -> Iterator[Engine]:
    found = Engine()
    yield found
    found.raylet_socket.close()


def process_of(engine: Engine, recorders: tuple[FactoryRecipe, ...] = (), log: Path | None = None) -> RayWorldProcess:
    config = replace(worker_config(), recorders=recorders)
    return RayWorldProcess(engine, "actor", config, log)  # type: ignore[arg-type]


def connect(process: RayWorldProcess, shared: bool = True, label: str | None = None) -> Any:
    """Open its pipe as the actor does; returns the actor's end."""
    near, far = Pipe()
    far.send(ActorGreeting("gpu3", process.engine.raylet, label or own_label(), shared, "/far/lmms_eval_ad2"))  # type: ignore[attr-defined]
    process.connect(near)
    return far


def ended(error: BaseException | None = None) -> Future[None]:
    future: Future[None] = Future()
    future.set_exception(error) if error else future.set_result(None)
    return future


def test_a_process_waits_for_its_place_and_then_receives_its_configuration(engine: Engine) -> None:
    process = process_of(engine)
    assert process.waits_for == "a node with a free CPU" and not process.pipe.poll()
    far = connect(process)
    assert far.recv() == process.config
    far.send("ready")
    assert process.waits_for == "" and process.pipe.recv() == "ready"
    process.kill()
    assert engine.killed == ["actor"]
    with pytest.raises(EOFError):
        far.recv()


def test_a_server_is_part_of_what_a_process_waits_for(engine: Engine) -> None:
    config = replace(worker_config(), world=FactoryRecipe("a:b", {"server": "gpu3:2000"}))
    process = RayWorldProcess(engine, "actor", config, None)  # type: ignore[arg-type]
    assert process.waits_for == 'a node with a free CPU and the resource "carla" for gpu3:2000'


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
    engine: Engine, tmp_path: Path, shared: bool, label: str | None, recorders: Any, fault: str
) -> None:
    process = process_of(engine, recorders, tmp_path / "logs" / "worker0.log")
    connect(process, shared, label)
    kind, text = process.pipe.recv()
    assert kind == "user" and pytest.importorskip("re").match(fault, text)


def test_a_pipe_that_opens_after_the_end_is_closed(engine: Engine) -> None:
    process = process_of(engine)
    process.close()
    far = connect(process)
    far.recv()
    with pytest.raises(EOFError):
        far.recv()


def test_the_loss_of_a_node_is_not_the_failure_of_a_world(engine: Engine) -> None:
    process = process_of(engine)
    far = connect(process)
    engine.raylet_socket.close()
    far.close()
    assert process.death() == ProcessDeath("node gpu3 was lost", machine_lost=True)


def test_a_world_that_dies_on_a_live_node_has_failed(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "worker0.log"
    log.write_text("Segmentation fault\n")
    process = process_of(engine, log=log)
    far = connect(process)
    process.end(ended(RuntimeError("The actor died\n\tip: 1.2.3.4\nWorker exit type: SYSTEM_ERROR")))
    with pytest.raises(EOFError):
        process.pipe.recv()
    reason = "the world process on node gpu3 died: The actor died ip: 1.2.3.4 Worker exit type: SYSTEM_ERROR"
    assert process.death() == ProcessDeath(f"{reason}; it last printed: Segmentation fault")
    far.close()


def test_a_node_that_is_lost_before_the_pipe_is_open(engine: Engine) -> None:
    process = process_of(engine)
    process.end(ended(RuntimeError("The actor died because its node has died. Node Id: 5")))
    with pytest.raises(EOFError):
        process.pipe.recv()
    assert process.death() == ProcessDeath("its node was lost", machine_lost=True)


def test_a_connection_that_is_cut_while_the_actor_lives(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_actors, "DEATH_S", 0.0)
    process = process_of(engine)
    connect(process).close()
    assert process.death() == ProcessDeath("the connection to node gpu3 was lost", machine_lost=True)


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
