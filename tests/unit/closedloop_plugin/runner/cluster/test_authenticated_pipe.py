"""Pipes between machines: only peers with the key and an expected name are accepted, and none delays another."""

from __future__ import annotations

import contextlib
import pickle
import socket
import struct
from collections.abc import Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue

import pytest

from closedloop_plugin.runner.cluster import authenticated_pipe
from closedloop_plugin.runner.cluster.authenticated_pipe import PipeListener, end_pipe, open_pipe

pytestmark = pytest.mark.integration


@pytest.fixture
def listener() -> Iterator[PipeListener]:
    found = PipeListener("127.0.0.1")
    yield found
    found.close()


def accepted_by(listener: PipeListener) -> tuple[str, SimpleQueue[Connection]]:
    pipes: SimpleQueue[Connection] = SimpleQueue()
    return listener.expect(pipes.put), pipes


def test_objects_travel_both_ways(listener: PipeListener) -> None:
    name, pipes = accepted_by(listener)
    with open_pipe(listener.address, listener.key, name) as far, pipes.get(timeout=60) as near:
        near.send({"a": 1})
        assert far.recv() == {"a": 1}
        far.send(b"x" * 1_000_000)
        assert len(near.recv()) == 1_000_000


def test_a_peer_with_another_key_is_refused(listener: PipeListener) -> None:
    name, pipes = accepted_by(listener)
    with pytest.raises((AuthenticationError, EOFError, OSError)):
        open_pipe(listener.address, b"0" * 32, name)
    assert pipes.empty()
    with open_pipe(listener.address, listener.key, name), pipes.get(timeout=60):
        pass  # the name is still expected


@pytest.mark.parametrize("name", ["", "another", "\x00" * 90])
def test_an_unexpected_name_is_refused(listener: PipeListener, name: str) -> None:
    with open_pipe(listener.address, listener.key, name) as pipe, pytest.raises((EOFError, OSError)):
        pipe.recv()


def test_a_name_is_accepted_once(listener: PipeListener) -> None:
    name, pipes = accepted_by(listener)
    with open_pipe(listener.address, listener.key, name), pipes.get(timeout=60):
        second = open_pipe(listener.address, listener.key, name)
        with second, pytest.raises((EOFError, OSError)):
            second.recv()


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


def test_nothing_of_a_peer_without_the_key_is_unpickled(listener: PipeListener, tmp_path: Path) -> None:
    content = pickle.dumps(Trap(tmp_path / "executed"))
    with socket.create_connection(listener.address) as peer:
        peer.sendall((struct.pack("!i", len(content)) + content) * 3)
        with contextlib.suppress(ConnectionResetError):
            while peer.recv(4096):  # until it is closed
                pass
    assert not (tmp_path / "executed").exists()


def test_silent_peers_do_not_delay_others(listener: PipeListener) -> None:
    silent = [socket.create_connection(listener.address) for _ in range(5)]
    name, pipes = accepted_by(listener)
    with open_pipe(listener.address, listener.key, name), pipes.get(timeout=60):
        pass
    for peer in silent:
        peer.close()


def test_many_silent_peers_lock_no_world_out(listener: PipeListener) -> None:
    silent = [socket.create_connection(listener.address) for _ in range(2 * authenticated_pipe.HANDSHAKES)]
    name, pipes = accepted_by(listener)
    with open_pipe(listener.address, listener.key, name), pipes.get(timeout=60):
        while silent[0].recv(4096):  # until it is displaced
            pass
    for peer in silent:
        peer.close()


@pytest.mark.parametrize("fault", [EOFError(), ConnectionResetError()])
def test_a_displaced_world_connects_again(
    listener: PipeListener, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    once, faults = authenticated_pipe._open_once, [fault, fault]
    monkeypatch.setattr(authenticated_pipe, "RETRY_PAUSE_S", 0.0)

    def displaced_twice(address: tuple[str, int], key: bytes, name: str) -> Connection:
        if faults:
            raise faults.pop()
        return once(address, key, name)

    monkeypatch.setattr(authenticated_pipe, "_open_once", displaced_twice)
    name, pipes = accepted_by(listener)
    with open_pipe(listener.address, listener.key, name), pipes.get(timeout=60):
        assert not faults


def test_the_last_reason_is_raised_after_the_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authenticated_pipe, "RETRY_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = closed.getsockname()
    with pytest.raises(ConnectionRefusedError):
        open_pipe(address, b"0" * 32, "name")


def test_a_silent_peer_is_dropped(monkeypatch: pytest.MonkeyPatch, listener: PipeListener) -> None:
    monkeypatch.setattr(authenticated_pipe, "HANDSHAKE_S", 1)
    with socket.create_connection(listener.address) as peer:
        while peer.recv(4096):
            pass


def test_a_pipe_that_is_ended_reaches_its_reader(listener: PipeListener) -> None:
    name, pipes = accepted_by(listener)
    with open_pipe(listener.address, listener.key, name), pipes.get(timeout=60) as near:
        end_pipe(near)
        with pytest.raises(EOFError):
            near.recv()
