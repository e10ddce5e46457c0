"""The tunnel over a real sshd: up, killed, frozen, refused, closed; and its ssh command."""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.robots.far_robot import far_robot, processes, until
from support.robots.sshd import Sshd, sshd
from support.tiers import seeds

from closedloop_plugin.robots.transport import ssh
from closedloop_plugin.robots.transport.ssh import SshTunnel
from closedloop_plugin.robots.vehicles.robot_config import LinkSettings, RobotConfig, find_robot
from lmms_eval_ad2.core.errors import Ad2Error

pytest_plugins = ("support.robots.real_time",)
RENEWED: dict[str, Any] = {}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@contextmanager
def echoing() -> Iterator[int]:
    """A planner that echoes what it receives."""

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=[sock], daemon=True).start()

    def answer(sock: socket.socket) -> None:
        with sock:
            while data := sock.recv(65536):
                sock.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=[listener], daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def passes(robot: RobotConfig) -> bool:
    """Whether bytes sent to the vehicle's port come back."""
    try:
        with socket.create_connection(("127.0.0.1", robot.link.planner_port), timeout=60) as sock:
            sock.sendall(b"hello")
            return sock.recv(5) == b"hello"
    except OSError:
        return False


def ssh_of(robot: RobotConfig) -> int:
    """The pid of the tunnel's ssh."""
    (pid,) = processes(f"127.0.0.1:{robot.link.planner_port}:")
    return pid


@pytest.mark.parametrize("seed", seeds(20))
def test_the_tunnel_is_restored_when_ssh_is_killed(server: Sshd, tmp_path: Path, seed: int) -> None:
    robot = far_robot(server, tmp_path)
    changes: list[str] = []
    with echoing() as port, SshTunnel(robot, port, changes.append) as tunnel:
        assert tunnel.wait_up(60) and tunnel.state == "up" and passes(robot)
        time.sleep(random.Random(seed).uniform(0, 0.5))
        os.kill(ssh_of(robot), signal.SIGKILL)
        until(lambda: "connecting" in changes[2:])
        assert tunnel.wait_up(60) and passes(robot) and tunnel.starts >= 2
    assert tunnel.state == "down" and not passes(robot)
    assert not processes(f"127.0.0.1:{robot.link.planner_port}:")


@pytest.mark.parametrize("seed", seeds(20))
def test_a_frozen_tunnel_is_renewed_although_its_port_is_still_in_use(server: Sshd, tmp_path: Path, seed: int) -> None:
    robot = far_robot(server, tmp_path)
    with echoing() as port, SshTunnel(robot, port) as tunnel:
        assert tunnel.wait_up(60)
        frozen = ssh_of(robot)
        time.sleep(random.Random(seed).uniform(0, 0.5))
        os.kill(frozen, signal.SIGSTOP)
        tunnel.renew()
        until(lambda: tunnel.starts > 1)
        assert tunnel.wait_up(60) and passes(robot)
        assert ssh_of(robot) != frozen


def test_the_vehicle_end_frees_its_port_when_the_link_is_silent(server: Sshd, tmp_path: Path) -> None:
    """As after a loss of radio: this end sends nothing, not even that it has closed."""
    robot = far_robot(server, tmp_path)
    with echoing() as port, SshTunnel(robot, port) as tunnel:
        assert tunnel.wait_up(60)
        frozen = ssh_of(robot)
        os.kill(frozen, signal.SIGSTOP)

        def free() -> bool:
            try:
                socket.create_server(("127.0.0.1", robot.link.planner_port)).close()
            except OSError:
                return False
            return True

        until(free)
        os.kill(frozen, signal.SIGCONT)
        until(lambda: tunnel.starts > 1)
        assert tunnel.wait_up(60) and passes(robot)


def test_a_port_in_use_on_the_vehicle_is_reported(server: Sshd, tmp_path: Path) -> None:
    robot = far_robot(server, tmp_path)
    with (
        socket.create_server(("127.0.0.1", robot.link.planner_port)),
        SshTunnel(robot, 9) as tunnel,
    ):
        until(lambda: "forwarding failed" in tunnel.reason)
        assert not tunnel.wait_up(0)


@pytest.mark.parametrize(
    ("what", "told"), [("host", "Host key verification failed"), ("key", "Permission denied"), ("gone", "refused")]
)
def test_a_vehicle_that_cannot_be_trusted_or_reached_is_reported(
    server: Sshd, tmp_path: Path, what: str, told: str
) -> None:
    link: dict[str, object] = {}
    if what == "host":
        empty = tmp_path / "known_hosts"
        empty.write_text("")
        link["ssh_options"] = (f"UserKnownHostsFile={empty}", "GlobalKnownHostsFile=none")
    elif what == "key":
        link["user"] = "nobody"
    else:
        link["port"] = 9
    robot = far_robot(server, tmp_path, **link)
    with SshTunnel(robot, 9) as tunnel:
        until(lambda: told in tunnel.reason)
        assert not tunnel.wait_up(0)


def test_a_closed_tunnel_is_not_renewed() -> None:
    """A session may be renewed while everything ends; by then the number of its pipe may belong to another file."""
    tunnel = SshTunnel(find_robot("sandbox"), 1)
    tunnel.close()
    pipes = [os.pipe() for _ in range(4)]
    tunnel.renew()
    assert not select.select([read for read, _ in pipes], [], [], 0)[0]
    for end in (end for pipe in pipes for end in pipe):
        os.close(end)


def test_the_options_are_strict_and_the_users_come_first() -> None:
    link = LinkSettings(host="limo.local", user="agilex", port=2222, ssh_options=("ConnectTimeout=9",))
    words = ssh.command(link, "-R", "1:a:2", remote="true")
    options = [words[i + 1] for i, word in enumerate(words) if word == "-o"]
    assert options[0] == "ConnectTimeout=9"
    assert {"BatchMode=yes", "StrictHostKeyChecking=yes", "ExitOnForwardFailure=yes"} <= set(options)
    assert words[-3:] == ["--", "agilex@limo.local", "true"]


@pytest.mark.parametrize("host", ["-oProxyCommand=id", "a b", "a;id", ""])
def test_an_invalid_host_name_is_refused(host: str) -> None:
    with pytest.raises(Ad2Error, match=r"link\.host"):
        ssh.command(replace(LinkSettings(), host=host))
