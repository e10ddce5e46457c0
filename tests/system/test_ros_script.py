"""scripts/get_ros.sh, with fakes of apt-get and dpkg-deb."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.running import REPO

SCRIPT = REPO / "scripts/get_ros.sh"
# Logs its arguments. The first $FAILS downloads fail.
APT = """#!/bin/bash
echo "$@" >>"$LOG"
case " $* " in *" update "*) exit 0 ;; esac
n=$(grep -c ' download ' "$LOG")
[ "$n" -le "${FAILS:-0}" ] && exit 100
touch python3-rospy_1_all.deb
"""
DPKG = """#!/bin/bash
for m in rospy rosmaster rosgraph genpy sensor_msgs nav_msgs; do
    [ "$m" = "${WITHOUT:-}" ] && continue
    mkdir -p "$3/usr/lib/python3/dist-packages/$m"
    touch "$3/usr/lib/python3/dist-packages/$m/__init__.py"
done
"""


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """An environment with the fake apt-get and dpkg-deb first in PATH."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in (("apt-get", APT), ("dpkg-deb", DPKG)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "LOG": str(tmp_path / "log")}


def get(where: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, where], env=env, capture_output=True, text=True, timeout=60, check=False)


def test_packages_are_fetched_once(machine: dict[str, str], tmp_path: Path) -> None:
    done = get(tmp_path / "new/ros", machine)
    assert done.returncode == 0, done.stderr
    assert f"AD2_ROS_PATH={tmp_path / 'new/ros'}" in done.stdout and "pip install" in done.stdout
    assert (tmp_path / "new/ros/usr/lib/python3/dist-packages/rospy/__init__.py").is_file()
    log = Path(machine["LOG"]).read_text()
    assert log.count("download") == 1 and "python3-rosmaster" in log
    assert get(tmp_path / "new/ros", machine).stdout == done.stdout
    assert Path(machine["LOG"]).read_text() == log, "the second run asked nobody"


def test_stale_package_lists_are_updated_in_a_separate_folder(machine: dict[str, str], tmp_path: Path) -> None:
    done = get(tmp_path / "ros", {**machine, "FAILS": "1"})
    assert done.returncode == 0, done.stderr
    log = Path(machine["LOG"]).read_text().splitlines()
    assert [line.split()[-1] == "update" for line in log] == [False, True, False]
    assert all("Dir::State=" in line for line in log[1:])


def test_a_failed_download_leaves_no_folder(machine: dict[str, str], tmp_path: Path) -> None:
    done = get(tmp_path / "ros", {**machine, "FAILS": "9"})
    assert done.returncode == 1 and "universe" in done.stderr
    assert not (tmp_path / "ros").exists()


def test_an_incomplete_set_is_refused(machine: dict[str, str], tmp_path: Path) -> None:
    done = get(tmp_path / "ros", {**machine, "WITHOUT": "rosmaster"})
    assert done.returncode == 1 and "rosmaster" in done.stderr
    assert not (tmp_path / "ros").exists()


def test_a_folder_with_other_contents_is_unchanged(machine: dict[str, str], tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "usr").write_text("precious")
    done = get(mine, machine)
    assert done.returncode == 1 and "something else" in done.stderr
    assert (mine / "usr").read_text() == "precious"


def test_without_apt_the_alternative_is_reported(machine: dict[str, str], tmp_path: Path) -> None:
    tools = tmp_path / "few"
    tools.mkdir()
    for name in ("bash", "env", "cat", "ls"):
        (tools / name).symlink_to(next(Path(d) / name for d in ("/bin", "/usr/bin") if (Path(d) / name).exists()))
    done = get(tmp_path / "ros", {**machine, "PATH": str(tools)})
    assert done.returncode == 1 and "container" in done.stderr
