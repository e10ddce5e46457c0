"""The record of a server: command, round trip, one clear error for invalid files; its processes and ports."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.carla.standin import free_ports, until
from support.tiers import examples

from closedloop_plugin.carla.servers import record
from closedloop_plugin.carla.servers.record import CarlaServerRecord
from lmms_eval_ad2.core.errors import Ad2Error

TOKEN = "0123456789abcdef" * 2
PLAIN = CarlaServerRecord(
    port=2000,
    token=TOKEN,
    stage="answers",
    binary="/carla/CarlaUE4.sh",
    gpu=1,
    extra=("-fps=20", "a b"),
    since=1.5e9,
    server_version="0.9.16",
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
FUZZ = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_the_command_of_a_binary() -> None:
    assert PLAIN.command == [
        "/carla/CarlaUE4.sh", "-RenderOffScreen", "-nosound", "-carla-rpc-port=2000", "-graphicsadapter=1", "-fps=20",
        "a b",
    ]  # fmt: skip
    without = CarlaServerRecord(port=2000, token=TOKEN, binary="/c")
    assert not any("graphicsadapter" in argument for argument in without.command)


def test_a_written_record_is_read_back(tmp_path: Path) -> None:
    PLAIN.write(tmp_path)
    assert record.read(tmp_path, 2000) == PLAIN
    assert record.read_all(tmp_path) == [PLAIN]
    assert record.read(tmp_path, 2001) is None


def write_changed(folder: Path, **changes: Any) -> None:
    (folder / "2000.json").write_text(json.dumps({**PLAIN.model_dump(), **changes}))


@pytest.mark.parametrize(
    "changes",
    [
        {"port": 2001},
        {"token": "x"},
        {"token": TOKEN + "\n"},
        {"stage": "fine"},
        {"gpu": "0"},
        {"gpu": True},
        {"restarts": -1},
        {"since": 10**400},
        {"since": float("nan")},
        {"reason": "\x1b[2J"},
        {"reason": "x" * 1001},
        {"server_version": "\u202e"},
        {"extra": "-fps=20"},
        {"unknown": 1},
    ],
)
def test_an_invalid_record_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    write_changed(tmp_path, **changes)
    with pytest.raises(Ad2Error, match=r"2000.json: not a record of a CARLA server"):
        record.read(tmp_path, 2000)


def test_the_unchanged_record_is_valid(tmp_path: Path) -> None:
    write_changed(tmp_path)
    assert record.read(tmp_path, 2000) == PLAIN


@FUZZ
@given(st.binary(max_size=300))
def test_any_bytes_raise_only_ad2_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "2000.json").write_bytes(content)
    with pytest.raises(Ad2Error):
        record.read(tmp_path, 2000)


def test_deep_nesting_and_huge_numbers_are_an_error(tmp_path: Path) -> None:
    for text in ("[" * 60_000, "9" * 60_000, '{"port":' * 9000):
        (tmp_path / "2000.json").write_text(text)
        with pytest.raises(Ad2Error):
            record.read(tmp_path, 2000)


@FUZZ
@given(st.sampled_from(sorted(PLAIN.model_dump())), JSON)
def test_any_value_of_a_field_is_read_or_refused(tmp_path: Path, name: str, value: Any) -> None:
    write_changed(tmp_path, **{name: value})
    try:
        entry = record.read(tmp_path, 2000)
    except Ad2Error:
        return
    assert entry is not None and entry.port == 2000 and (name == "token" or entry.token == TOKEN)


def test_files_with_other_names_are_ignored(tmp_path: Path) -> None:
    for name in ("x.json", "2000.json.bak", "99999999.json", "-1.json"):
        (tmp_path / name).write_text("no record")
    assert record.read_all(tmp_path) == []


WAITS = "import time; print('there', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"
Child = subprocess.Popen[str]


@pytest.fixture
def spawned() -> Iterator[list[Child]]:
    children: list[Child] = []
    yield children
    for child in children:
        child.kill()
        child.communicate()


def spawn(children: list[Child], code: str, token: str = "", *arguments: str) -> Child:
    """Returns after the child's first line of output, when its signal handlers are installed."""
    env = {**os.environ, **({record.TOKEN: token} if token else {})}
    command = [sys.executable, "-S", "-c", code, *arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, start_new_session=True)
    children.append(child)
    assert child.stdout and child.stdout.readline()
    return child


@pytest.mark.integration
def test_only_processes_with_the_token_are_ended(spawned: list[Child]) -> None:
    token = secrets.token_hex(16)
    server, other = spawn(spawned, WAITS, token), spawn(spawned, WAITS, secrets.token_hex(16))
    assert record.running(token) == [server.pid]
    assert record.end(f"{token}-supervisor") == []
    assert record.end(token) == [server.pid]
    assert record.running(token) == []  # a zombie does not count
    assert server.wait() == -signal.SIGTERM and other.poll() is None


FORKS = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-S", "-c", {STUBBORN!r}], start_new_session=bool(sys.argv[1:]))
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize("apart", [[], ["a session of its own"]])
@pytest.mark.integration
def test_the_children_of_a_dead_leader_are_found_and_ended(apart: list[str], spawned: list[Child]) -> None:
    token = secrets.token_hex(16)
    script = spawn(spawned, FORKS, token, *apart)
    (simulator,) = until(lambda: [p for p in record.running(token) if p != script.pid])
    script.kill()
    script.wait()
    assert record.running(token) == [simulator]
    assert record.end(token, 0.3) == [simulator]  # it ignores SIGTERM
    assert record.running(token) == []


@pytest.mark.parametrize(
    ("offset", "role"), [(0, "RPC"), (1, "streaming"), (2, "secondary"), (6000, "traffic manager")]
)
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.integration
def test_a_port_in_use_is_reported_with_its_role(offset: int, role: str, host: str) -> None:
    (port,) = free_ports()
    with socket.create_server((host, port + offset)):
        assert role in record.taken(port, record.ALL_PORTS)
        assert bool(record.taken(port, record.SERVER_PORTS)) == (offset < 6000)
    assert record.taken(port, record.ALL_PORTS) == ""
