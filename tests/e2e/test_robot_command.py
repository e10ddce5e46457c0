"""`ad2 robot` on the command line: deploy, plan, stop, over a real sshd, with the deployed client."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from support.robots.far_robot import far_robot, processes, until, yaml_of
from support.robots.sshd import Sshd, sshd
from support.robots.vehicle_end import jpeg
from support.running import BIN, REPO, environment, run

from closedloop_plugin.robots.vehicles.robot_config import RobotConfig, read_robot

pytest_plugins = ("support.robots.real_time",)
RENEWED = {"robot": lambda folder, found: nullcontext(configured_robot(found["server"], folder))}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def robot(server: Sshd, tmp_path: Path) -> RobotConfig:
    return configured_robot(server, tmp_path)


def configured_robot(server: Sshd, tmp_path: Path) -> RobotConfig:
    """A robot with its YAML file and, in its folder, a backend that needs no ROS."""
    folder = tmp_path / "vehicle"
    folder.mkdir()
    shutil.copy(REPO / "tests/support/robots/far_wheels.py", folder / "far_wheels.py")
    (folder / "frame.jpg").write_bytes(jpeg())
    return read_robot(yaml_of(far_robot(server, folder), tmp_path, "far_wheels:Wheels"))


@contextmanager
def process(*words: str | Path, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    command = [str(word) for word in words]
    with (cwd / "log").open("a") as log:
        child = subprocess.Popen(
            command, cwd=cwd, env=environment(PYTHONPATH=""), stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        child.stdout.close()  # type: ignore[union-attr]


@contextmanager
def planner(robot: RobotConfig, *more: str) -> Iterator[subprocess.Popen[str]]:
    words = ("robot", "plan", "--robot", str(robot.file), "--agent", "straight", *more)
    with process(BIN / "ad2", *words, cwd=robot.file.parent) as child:
        line = child.stdout.readline()  # type: ignore[union-attr]
        assert "ready: 127.0.0.1:" in line, line + (robot.file.parent / "log").read_text()
        yield child


def client(robot: RobotConfig) -> Any:
    """The deployed client, as it runs on the vehicle."""
    words = (sys.executable, "-m", "closedloop_plugin.robots.onboard.client", "settings.json")
    return process(*words, cwd=Path(robot.link.folder))


def ad2(robot: RobotConfig, *words: str, code: int | None = 0) -> str:
    done = run(BIN / "ad2", "robot", *words, cwd=robot.file.parent, code=code)
    return done.stdout + done.stderr


def move_commands(robot: RobotConfig) -> int:
    """Move commands that reached the wheels."""
    file = Path(robot.link.folder) / "wheels.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return sum(json.loads(line)["twist"]["vx"] > 0 for line in lines if line.endswith("}"))


def wait_until_driving(robot: RobotConfig) -> None:
    """Wait for further move commands."""
    before = move_commands(robot)
    until(lambda: move_commands(robot) > before + 3)


def check_standing(robot: RobotConfig) -> None:
    """Check that there is no move command for three motions."""
    before = move_commands(robot)
    with pytest.raises(AssertionError, match="not met in time"):
        until(lambda: move_commands(robot) > before, 1.5)


def test_deploy_drive_stop_release_and_drive_again_after_a_planner_kill(robot: RobotConfig) -> None:
    output = ad2(robot, "deploy", str(robot.file), "host")
    assert "installed on 127.0.0.1" in output
    with client(robot):
        with planner(robot, "--out", "out", "--frames") as first:
            wait_until_driving(robot)
            assert "the vehicle stands" in ad2(robot, "stop", "--robot", str(robot.file))
            check_standing(robot)
            assert "released" in ad2(robot, "stop", "--release", "--robot", str(robot.file))
            wait_until_driving(robot)
            first.kill()
            first.wait()
        until(lambda: not processes(f"127.0.0.1:{robot.link.planner_port}:"))  # the ssh of the planner ends too
        check_standing(robot)
        with planner(robot) as second:
            wait_until_driving(robot)
            second.send_signal(signal.SIGTERM)
            assert second.wait(60) == 0
        check_standing(robot)
    log = (robot.file.parent / "log").read_text()
    assert "Traceback" not in log and "connected" in log and "stopped; " in log
    lines = [json.loads(line) for line in (robot.file.parent / "out/planner.jsonl").read_text().splitlines()]
    assert {"cycle", "stop", "vehicle stands", "release"} <= {line["event"] for line in lines}
    assert list((robot.file.parent / "out/frames").glob("*.jpg"))


def test_without_a_planner_the_stop_is_set_on_the_vehicle(robot: RobotConfig) -> None:
    ad2(robot, "deploy", str(robot.file), "127.0.0.1")
    with client(robot):
        until(lambda: (Path(robot.link.folder) / "wheels.jsonl").exists())
        output = ad2(robot, "stop", "--robot", str(robot.file))
        assert "no planner answers" in output and "on board: stopped" in output
        with planner(robot):
            check_standing(robot)
            assert "released" in ad2(robot, "stop", "--release", "--robot", str(robot.file))
            check_standing(robot)  # the stop is set on the vehicle, so only the vehicle can release it
            assert "on board: released" in ad2(robot, "stop", "--release", "--on-board", "--robot", str(robot.file))
            wait_until_driving(robot)


def test_an_unconfirmed_stop_is_exit_code_1(robot: RobotConfig) -> None:
    output = ad2(robot, "stop", "--robot", str(robot.file), code=1)
    assert "SWITCH THE VEHICLE OFF" in output


def test_a_broken_robot_file_does_not_prevent_a_stop(robot: RobotConfig) -> None:
    ad2(robot, "deploy", str(robot.file), "host")
    with client(robot), planner(robot):
        wait_until_driving(robot)
        robot.file.write_text("vehicle: [", "utf-8")
        output = ad2(robot, "stop", "--robot", str(robot.file))
        assert "the vehicle stands" in output and "valid YAML" in output
        check_standing(robot)
    output = ad2(robot, "stop", "--robot", str(robot.file), code=1)
    assert "SWITCH THE VEHICLE OFF" in output and "no planner answers" in output and "valid YAML" in output


def test_a_check_finds_what_is_missing_and_moves_nothing(robot: RobotConfig, tmp_path: Path) -> None:
    folder, words = Path(robot.link.folder), ("deploy", str(robot.file), "--check", "--config", "seconds=1")
    assert "not deployed yet? ad2 robot deploy" in ad2(robot, *words, code=2)
    assert f"ad2 robot deploy {robot.file} host --check" in ad2(robot, "deploy", str(robot.file), "host")
    (tmp_path / "setup.bash").write_text("export AD2_TEST_ROS=1; echo sourced")
    with robot.file.open("a") as file:
        file.write(f"  setup: {tmp_path}/setup.bash\n")
    ready = ad2(robot, *words)
    assert "FAIL" not in ready and "ok   files: those of this version" in ready and "ok   token: the same here" in ready
    assert "ok   camera: /camera/rgb" in ready and "64 x 48" in ready and "ok   mode: 1" in ready
    (folder / "silent").touch()
    (folder / "stop.json").write_text('{"id": "1", "by": "vehicle", "reason": "crossed"}')
    with (folder / "closedloop_plugin/robots/onboard/jpeg.py").open("a") as changed:
        changed.write("\n")
    (folder / "token").write_text("ab" * 32)
    checks = {c["name"]: c for c in json.loads(ad2(robot, *words, "--json", code=1))}
    assert {name for name, found in checks.items() if not found["good"]} == {
        "files", "token", "emergency stop", "odometry",
    }  # fmt: skip
    assert "crossed" in checks["emergency stop"]["found"] and "nothing valid on /odom" in checks["odometry"]["found"]
    assert not (folder / "wheels.jsonl").exists()


def test_a_dry_run_prints_everything_but_the_token_and_creates_nothing(robot: RobotConfig, tmp_path: Path) -> None:
    output = ad2(robot, "deploy", str(robot.file), "--dry-run")
    assert "closedloop_plugin/robots/onboard/client.py" in output and "ssh -T" in output
    assert '"token_file": "token"' in output
    assert "will be created" in output and not list(tmp_path.rglob("*.token"))
    ad2(robot, "deploy", str(robot.file), "host")
    token = (Path(robot.link.folder) / "token").read_text().strip()
    again = ad2(robot, "deploy", str(robot.file), "--dry-run")
    assert len(token) == 64 and token not in again and "exists)" in again


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["deploy", "sandbox"], "name the vehicle"),
        (["deploy", "sandbx", "--dry-run"], "did you mean 'sandbox'"),
        (["deploy", "limo-mecanum", "--check"], "no link.host"),
        (["deploy", "sandbox", "h", "--check", "--config", "seconds=0"], "seconds=0: expected 0.5 to 60"),
        (["plan", "--robot", "sandbox", "--agent", "straight"], "ad2 robot deploy creates it"),
        (["plan", "--robot", "sandbox", "--agent", "straight", "--frames"], "--out DIR"),
        (["plan", "--robot", "sandbox", "--agent", "straight", "--mode", "dcs"], "would have no effect"),
        (["stop", "--robot", "sandbox", "--release"], "no planner answers"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(words: list[str], message: str, tmp_path: Path) -> None:
    done = run(BIN / "ad2", "robot", *words, cwd=tmp_path, code=2)
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert message in error


def test_a_privileged_agent_and_a_second_planner_are_refused(robot: RobotConfig) -> None:
    ad2(robot, "deploy", str(robot.file), "host")
    words = ("plan", "--robot", str(robot.file), "--config", "no_tunnel=true", "--agent")
    assert "privileged" in ad2(robot, *words, "expert", code=2)
    with planner(robot, "--config", "no_tunnel=true"):
        assert "is running already" in ad2(robot, *words, "straight", code=2)
