"""Search for rospy, and the child processes of a ROS session. The first half needs no ROS."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.robots import ros_master

from closedloop_plugin.robots.transport import ros
from closedloop_plugin.robots.transport.ros import RosChildProcess, RosMaster, find_rospy, master_pid
from lmms_eval_ad2.core.errors import Ad2Error

ECHO = "import sys; print('up', flush=True); sys.stdin.read()"


def rospy_in(folder: Path) -> Path:
    (folder / "rospy").mkdir(parents=True)
    (folder / "rospy/__init__.py").touch()
    return folder


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without ROS; the folder with its environment (venv) and /opt (opt)."""
    monkeypatch.delenv("AD2_ROS_PATH", raising=False)
    monkeypatch.setattr(ros.sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setattr(ros.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(ros, "SYSTEM", tmp_path / "opt")
    return tmp_path


def test_missing_rospy_is_reported_with_the_remedies(bare: Path) -> None:
    with pytest.raises(Ad2Error, match=r"get_ros\.sh.*AD2_ROS_PATH.*setup\.bash") as error:
        find_rospy()
    assert str(bare / "venv/ros") in str(error.value)


def test_the_variable_may_be_the_folder_of_get_ros_or_that_of_the_packages(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = rospy_in(bare / "mine/usr/lib/python3/dist-packages")
    for folder in (bare / "mine", packages):
        monkeypatch.setenv("AD2_ROS_PATH", str(folder))
        assert find_rospy() == packages


def test_a_wrong_variable_is_an_error_even_if_rospy_is_elsewhere(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rospy_in(bare / "venv/ros")
    monkeypatch.setenv("AD2_ROS_PATH", str(bare / "nothing"))
    with pytest.raises(Ad2Error, match="nothing: no rospy there"):
        find_rospy()


def test_rospy_is_found_in_the_environment_and_in_opt(bare: Path) -> None:
    system = rospy_in(bare / "opt/noetic/lib/python3/dist-packages")
    assert find_rospy() == system
    own = rospy_in(bare / "venv/ros/usr/lib/python3/dist-packages")
    assert find_rospy() == own


def test_a_folder_that_would_shadow_packages_of_the_environment_is_refused(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = rospy_in(bare / "system")
    (folder / "numpy").mkdir()
    monkeypatch.setenv("AD2_ROS_PATH", str(folder))
    with pytest.raises(Ad2Error, match="also numpy"):
        find_rospy()


def test_missing_pip_packages_of_ros_are_reported(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "defusedxml", None)
    with pytest.raises(Ad2Error, match="defusedxml"):
        find_rospy()


def test_an_address_without_a_listener_has_no_master() -> None:
    assert master_pid("http://127.0.0.1:9/") is None
    assert master_pid("no address") is None


def test_a_child_ends_when_its_input_is_closed() -> None:
    child = RosChildProcess("echo", [sys.executable, "-c", ECHO], dict(os.environ))
    assert child.first_line == "up" and child.alive
    child.close()
    assert child.process.returncode == 0


def test_a_child_ends_if_its_parent_is_killed() -> None:
    """The kernel closes the parent's end of its input."""
    parent = (
        "import os, sys; from closedloop_plugin.robots.transport.ros import RosChildProcess\n"
        f"child = RosChildProcess('echo', [sys.executable, '-c', {ECHO!r}], dict(os.environ))\n"
        "print(child.process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, timeout=60, check=False)
    pid = int(done.stdout)
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}/stat").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            break  # ended, but not reaped yet
        time.sleep(0.01)
    else:
        assert not Path(f"/proc/{pid}").exists()


def test_a_child_that_ends_at_once_is_reported() -> None:
    with pytest.raises(Ad2Error, match="the thing ended while it started, code 3"):
        RosChildProcess("the thing", [sys.executable, "-c", "raise SystemExit(3)"], dict(os.environ))


def test_a_child_that_prints_nothing_is_ended_after_the_timeout() -> None:
    with pytest.raises(Ad2Error, match="was not up after"):
        RosChildProcess(
            "the thing", [sys.executable, "-c", "import sys; sys.stdin.read()"], dict(os.environ), timeout_s=0.3
        )


def test_a_master_answers_until_it_is_closed() -> None:
    with ros_master.master() as running:
        assert running.uri.startswith("http://127.0.0.1:")
        assert master_pid(running.uri) is not None
        uri = running.uri
        home = Path(running.env()["ROS_HOME"])
        assert home.is_dir()
    assert master_pid(uri) is None
    assert not home.exists()


def test_a_port_in_use_is_an_error() -> None:
    with ros_master.master() as running, pytest.raises(Ad2Error, match=f"port {running.port}"):
        RosMaster(running.port)


def test_a_master_restarts_at_its_address() -> None:
    with ros_master.master() as running:
        first = master_pid(running.uri)
        running.kill()
        assert master_pid(running.uri) is None and not running.alive
        running.restart()
        assert master_pid(running.uri) not in (None, first) and running.alive


def test_the_environment_keeps_ros_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_HOSTNAME", "robot.lab")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    with ros_master.master() as running:
        env = running.env()
        assert "ROS_HOSTNAME" not in env and env["ROS_IP"] == "127.0.0.1"
        assert env["PYTHONPATH"].split(os.pathsep) == [str(ros_master.ros_path()), "/somewhere"]
        node_uri = ros_master.probe(running, "print(rospy.get_node_uri())")
    assert node_uri.startswith("http://127.0.0.1:")
