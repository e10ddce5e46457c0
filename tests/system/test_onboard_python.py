"""The files copied to the vehicle need only Python 3.6 and its standard library, and ROS in the files for ROS."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.robots.onboard import REPO, oldest_python

ONBOARD = REPO / "closedloop_plugin/robots/onboard"
FILES = sorted(ONBOARD.glob("*.py"))
# Imports allowed besides the standard library, at the top or where needed.
MORE = {
    "ros1.py": {"rospy", "roslib", "genpy", "geometry_msgs", "nav_msgs", "sensor_msgs", "std_msgs"},
    "ros2.py": {"rclpy", "geometry_msgs", "nav_msgs", "sensor_msgs", "std_msgs"},
    "jpeg.py": {"PIL", "cv2", "numpy"},
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_syntax_is_python_3_6_and_the_imports_are_available_on_board(file: Path) -> None:
    tree = ast.parse(file.read_text("utf-8"), feature_version=(3, 6))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    assert "__future__" not in found and "dataclasses" not in found, "both are of 3.7"
    unavailable = {
        name for name in found if name.split(".")[0] not in sys.stdlib_module_names | MORE.get(file.name, set())
    }
    ours = {name for name in unavailable if name.startswith("closedloop_plugin.robots.onboard")}
    assert unavailable == ours, "on the vehicle there is nothing else of ours"


def test_every_file_without_ros_loads_in_the_oldest_python(tmp_path: Path) -> None:
    """From a copy inside empty packages, as the deployment creates it."""
    folder = tmp_path / "closedloop_plugin/robots/onboard"
    folder.mkdir(parents=True)
    for package in (folder.parent, folder.parent.parent):
        (package / "__init__.py").touch()
    for file in FILES:
        (folder / file.name).write_bytes(file.read_bytes())
    names = [f"closedloop_plugin.robots.onboard.{f.stem}" for f in FILES if f.stem not in ("ros1", "ros2", "__init__")]
    code = f"import importlib\nfor name in {names}: importlib.import_module(name)\nprint('all')"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV_"))}
    done = subprocess.run(
        [oldest_python(), "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "all", done.stderr


def test_the_oldest_python_is_3_6() -> None:
    """Skipped without Python 3.6: then the tests of the client do not cover 3.6."""
    version = subprocess.run(
        [oldest_python(), "--version"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    if not version.startswith("Python 3.6"):
        pytest.skip(f"no Python 3.6 here, the client's tests ran with {version.strip()}")
