"""Deployment over a real sshd: files, modes, import on the vehicle, and refusals."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.robots.far_robot import far_robot
from support.robots.sshd import Sshd, sshd

from closedloop_plugin.robots import deploy
from closedloop_plugin.robots.onboard.settings import read_settings, read_token
from closedloop_plugin.robots.vehicles.robot_config import FOLDER, RobotConfig, find_robot
from lmms_eval_ad2.core.errors import Ad2Error

TOKEN = bytes(range(32))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


def pythons() -> list[str]:
    """This Python, and 3.6 if it is installed."""
    old = sorted(Path.home().glob(".pyenv/versions/3.6.*/bin/python"))
    return [sys.executable, *map(str, old[:1])]


def python_of(robot: RobotConfig, python: str) -> RobotConfig:
    return replace(robot, onboard=replace(robot.onboard, python=python))


@pytest.mark.integration
@pytest.mark.parametrize("python", pythons())
def test_the_deployed_files_are_private_and_can_be_imported(server: Sshd, tmp_path: Path, python: str) -> None:
    folder = tmp_path / "vehicle"
    robot = python_of(far_robot(server, folder), python)
    deploy.deploy(robot, TOKEN)
    found = read_settings(folder / "settings.json")
    assert read_token(found["planner"]["token_file"]) == TOKEN
    assert found["planner"]["port"] == robot.link.planner_port and found["backend"] == "ros1"
    assert not [path for path in folder.rglob("*") if path.stat().st_mode & 0o077]
    assert sorted(path.name for path in folder.iterdir()) == ["closedloop_plugin", "settings.json", "token"]
    run = [python, "-c", "import closedloop_plugin.robots.onboard.client as c; print(c.__file__)"]
    clean = {"PATH": os.environ["PATH"]}
    assert str(folder) in subprocess.run(run, cwd=folder, env=clean, capture_output=True, text=True, check=True).stdout


@pytest.mark.integration
def test_deploying_again_replaces_the_client_and_keeps_the_stop(server: Sshd, tmp_path: Path) -> None:
    folder = tmp_path / "vehicle"
    robot = far_robot(server, folder)
    deploy.deploy(robot, TOKEN)
    (folder / "stop.json").write_text("{}")
    (folder / "closedloop_plugin" / "old.py").write_text("")
    deploy.deploy(robot, bytes(32))
    assert (folder / "stop.json").exists() and not (folder / "closedloop_plugin" / "old.py").exists()
    assert read_token(folder / "token") == bytes(32)


@pytest.mark.integration
def test_a_failed_test_run_keeps_the_old_files(server: Sshd, tmp_path: Path) -> None:
    folder = tmp_path / "vehicle"
    robot = far_robot(server, folder)
    deploy.deploy(robot, TOKEN)
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such interpreter >&2\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(Ad2Error, match="no such interpreter"):
        deploy.deploy(python_of(robot, str(broken)), bytes(32))
    assert read_token(folder / "token") == TOKEN


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_the_client_reads_the_settings_of_every_robot(name: str, tmp_path: Path) -> None:
    robot = find_robot(name)
    (tmp_path / "settings.json").write_bytes(deploy.files(robot)["settings.json"])
    found = read_settings(tmp_path / "settings.json")
    assert found["vehicle"]["name"] == robot.vehicle.name
    assert found["relay"] or robot.vehicle.watchdog_s is not None


def test_the_archive_is_reproducible_and_only_its_token_file_contains_the_token() -> None:
    content = deploy.files(find_robot("sandbox"))
    packed = deploy.archive(content, TOKEN)
    assert packed == deploy.archive(content, TOKEN)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        members = {entry.name: tar.extractfile(entry).read() for entry in tar.getmembers()}  # type: ignore[union-attr]
        assert tar.getmember("token").mode == 0o600
    assert [name for name, data in members.items() if TOKEN.hex().encode() in data] == ["token"]
    assert "closedloop_plugin/robots/onboard/wire.py" in members and "closedloop_plugin/core/state.py" not in members
    assert json.loads(members["settings.json"])["planner"]["token_file"] == "token"


def test_the_token_is_created_once_and_must_be_private(tmp_path: Path) -> None:
    file = tmp_path / "robots" / "limo.token"
    with pytest.raises(Ad2Error, match="ad2 robot deploy creates it"):
        deploy.read_token(file)
    token = deploy.make_token(file)
    assert len(token) == 32 and deploy.make_token(file) == token and file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    with pytest.raises(Ad2Error, match="chmod 600"):
        deploy.read_token(file)
    file.chmod(0o600)
    file.write_text("short")
    with pytest.raises(Ad2Error, match="64 hexadecimal digits"):
        deploy.read_token(file)


@pytest.mark.integration
@pytest.mark.parametrize("folder", ["a b", "x;id", "../up", "-x", "$(id)", "", ".", "/", "./."])
def test_unsafe_or_shared_folders_are_refused(folder: str) -> None:
    robot = find_robot("sandbox")
    with pytest.raises(Ad2Error, match=r"link\.folder"):
        deploy.install_command(replace(robot, link=replace(robot.link, folder=folder)))
