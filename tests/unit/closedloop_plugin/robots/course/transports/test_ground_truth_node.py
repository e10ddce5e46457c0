"""The node with the sandbox's true pose: lines for the course, without an error after the course was killed."""

from __future__ import annotations

import json
import math
import sys
from types import SimpleNamespace

import pytest

from closedloop_plugin.robots.course.transports import ground_truth_node

HALF = math.pi / 4
ODOMETRY = SimpleNamespace(
    header=SimpleNamespace(stamp=SimpleNamespace(to_sec=lambda: 2.5)),
    pose=SimpleNamespace(
        pose=SimpleNamespace(
            position=SimpleNamespace(x=1.0, y=-3.0), orientation=SimpleNamespace(z=math.sin(HALF), w=math.cos(HALF))
        )
    ),
    twist=SimpleNamespace(twist=SimpleNamespace(linear=SimpleNamespace(x=0.4))),
)


class ClosedPipe:
    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    def flush(self) -> None:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_pose_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    ground_truth_node._print_pose(ODOMETRY)
    assert json.loads(capsys.readouterr().out) == pytest.approx([2.5, 1.0, -3.0, math.pi / 2, 0.4])


def test_a_pose_after_the_end_of_the_course_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", ClosedPipe())
    ground_truth_node._print_pose(ODOMETRY)


@pytest.mark.parametrize("uri", ["", "nonsense", pytest.param("http://127.0.0.1:1/", marks=pytest.mark.integration)])
def test_without_a_ros_master_it_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], uri: str
) -> None:
    monkeypatch.setenv("ROS_MASTER_URI", uri)
    assert ground_truth_node.main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("no ROS master answers at") and (uri or "not set") in line


def test_without_rospy_it_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ground_truth_node, "master_pid", lambda uri: 1)
    monkeypatch.setenv("ROS_MASTER_URI", "http://127.0.0.1:1/")
    monkeypatch.setitem(sys.modules, "rospy", None)
    assert ground_truth_node.main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "rospy" in line
