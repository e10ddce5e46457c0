"""`ad2 robot sandbox` on the command line."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.robots import ros_master
from support.running import kill_on_error

from closedloop_plugin.robots.transport.ros import master_pid
from lmms_eval_ad2.core.errors import Ad2Error

COMMAND = """
import argparse, sys
from closedloop_plugin.cli.robot import sandbox
parser = argparse.ArgumentParser()
sandbox.register(parser.add_subparsers())
args = parser.parse_args(sys.argv[1:])
raise SystemExit(args.func(args))
"""


def test_missing_ros_is_reported_with_the_install_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from closedloop_plugin.cli.robot import sandbox

    monkeypatch.setenv("AD2_ROS_PATH", str(tmp_path))
    with pytest.raises(Ad2Error, match=r"get_ros\.sh"):
        sandbox.run(sandbox.RobotSandboxOptions())


def test_a_mistake_is_reported_before_anything_starts() -> None:
    import argparse

    from closedloop_plugin.cli.robot import sandbox

    parser = argparse.ArgumentParser()
    sandbox.register(parser.add_subparsers())
    args = parser.parse_args(["sandbox", "--port", "70000"])
    with pytest.raises(Ad2Error, match="--port 70000: from 0"):
        args.func(args)


def test_the_sandbox_runs_until_ctrl_c(tmp_path: Path) -> None:
    ros_master.ros_path()
    words = [sys.executable, "-c", COMMAND, "sandbox", "--robot", "limo-mecanum"]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with kill_on_error(process) as running:
        assert running.stdout is not None and running.stderr is not None
        lines = [running.stdout.readline() for _ in range(5)]
        assert lines[0].startswith("limo-mecanum subscribes to /cmd_vel")
        uri = lines[1].strip().removeprefix("export ROS_MASTER_URI=")
        assert master_pid(uri) is not None
        running.send_signal(signal.SIGINT)
        assert running.stdout.read() == "ended\n"
        assert running.wait(30) == 0
        assert running.stderr.read() == ""
    assert master_pid(uri) is None
