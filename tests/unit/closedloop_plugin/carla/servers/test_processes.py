"""Identification of our processes; no other process is signalled."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.carla.standin import until

from closedloop_plugin.carla.servers import processes
from closedloop_plugin.carla.servers.processes import ProcessIdentity

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


def identity(child: Child) -> ProcessIdentity:
    found = processes.identity_of(child.pid)
    assert found
    return found


def test_an_identity_matches_only_one_process(spawned: list[Child]) -> None:
    child = spawn(spawned, WAITS)
    recorded = identity(child)
    assert processes.alive(recorded) and identity(child) == recorded
    assert not processes.alive(replace(recorded, start=recorded.start - 1))
    assert not processes.alive(replace(recorded, boot="another"))
    child.kill()
    until(lambda: not processes.alive(recorded))
    assert identity(child) == recorded  # a zombie holds its pid
    child.wait()
    assert processes.identity_of(child.pid) is None


def test_a_reused_pid_is_never_signalled(spawned: list[Child]) -> None:
    child = spawn(spawned, WAITS)
    before = replace(identity(child), start=identity(child).start - 1)
    assert processes.end(before, secrets.token_hex(16), 0.0) == []
    processes.terminate(before)
    processes.wait_for(before, 0.0)
    assert child.poll() is None


def test_only_processes_with_the_token_or_in_the_leaders_session_are_ours(spawned: list[Child]) -> None:
    token = secrets.token_hex(16)
    server, other = spawn(spawned, WAITS, token), spawn(spawned, WAITS, secrets.token_hex(16))
    assert processes.server_processes(None, token) == [server.pid]
    assert processes.end(None, token, 5.0) == [server.pid]
    assert server.wait() == -signal.SIGTERM and other.poll() is None
    assert processes.server_processes(identity(other), token) == [other.pid]  # in the leader's session


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
    leader = identity(script)
    (simulator,) = until(lambda: [p for p in processes.server_processes(leader, token) if p != script.pid])
    script.kill()
    script.wait()
    assert processes.server_processes(leader, token) == [simulator]
    assert processes.end(leader, token, 0.3) == [simulator]  # it ignores SIGTERM
    assert processes.server_processes(leader, token) == []
