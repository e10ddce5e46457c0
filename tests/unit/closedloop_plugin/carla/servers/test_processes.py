"""Processes of a server by their token (no other process is signalled), its ports, and container engines."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.carla.standin import free_ports, until

from closedloop_plugin.carla.servers import processes
from lmms_eval_ad2.core.errors import Ad2Error

pytestmark = pytest.mark.integration

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
    env = {**os.environ, **({processes.TOKEN: token} if token else {})}
    command = [sys.executable, "-S", "-c", code, *arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, start_new_session=True)
    children.append(child)
    assert child.stdout and child.stdout.readline()
    return child


def test_only_processes_with_the_token_are_ended(spawned: list[Child]) -> None:
    token = secrets.token_hex(16)
    server, other = spawn(spawned, WAITS, token), spawn(spawned, WAITS, secrets.token_hex(16))
    assert processes.running(token) == [server.pid]
    assert processes.end(f"{token}-supervisor") == []
    assert processes.end(token) == [server.pid]
    assert processes.running(token) == []  # a zombie does not count
    assert server.wait() == -signal.SIGTERM and other.poll() is None


FORKS = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-S", "-c", {STUBBORN!r}], start_new_session=bool(sys.argv[1:]))
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize("apart", [[], ["a session of its own"]])
def test_the_children_of_a_dead_leader_are_found_and_ended(apart: list[str], spawned: list[Child]) -> None:
    token = secrets.token_hex(16)
    script = spawn(spawned, FORKS, token, *apart)
    (simulator,) = until(lambda: [p for p in processes.running(token) if p != script.pid])
    script.kill()
    script.wait()
    assert processes.running(token) == [simulator]
    assert processes.end(token, 0.3) == [simulator]  # it ignores SIGTERM
    assert processes.running(token) == []


@pytest.mark.parametrize(
    ("offset", "role"), [(0, "RPC"), (1, "streaming"), (2, "secondary"), (6000, "traffic manager")]
)
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_in_use_is_reported_with_its_role(offset: int, role: str, host: str) -> None:
    (port,) = free_ports()
    with socket.create_server((host, port + offset)):
        assert role in processes.taken(port, processes.ALL_PORTS)
        assert bool(processes.taken(port, processes.SERVER_PORTS)) == (offset < 6000)
    assert processes.taken(port, processes.ALL_PORTS) == ""


def test_an_engine_that_is_missing_or_fails_is_one_error() -> None:
    with pytest.raises(Ad2Error, match=r"^no-such-engine: .*No such file"):
        processes.run_engine("no-such-engine", "ps")
    with pytest.raises(Ad2Error, match=r"^sh -c: two$"):
        processes.run_engine("sh", "-c", "echo one >&2; echo two >&2; exit 3")
    assert processes.run_engine("echo", "box") == "box\n"
