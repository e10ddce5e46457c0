"""A real ROS 1 for tests, in separate processes: rospy.init_node works only once per process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from closedloop_plugin.robots.transport.ros import RosMaster, find_rospy
from lmms_eval_ad2.core.errors import Ad2Error

# Start of every probe. `wait` returns the first message that is `good`, or ends the probe with an exit code.
PREAMBLE = """
import json, os, queue, sys, time
import rospy
from geometry_msgs.msg import Pose2D, Twist
from nav_msgs.msg import Odometry
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Bool, String

rospy.init_node("probe", anonymous=True, disable_signals=True, disable_rosout=True)

def listen(topic, kind):
    seen = queue.Queue()
    rospy.Subscriber(topic, kind, seen.put, buff_size=1 << 22)
    return seen

def wait(seen, good=lambda message: True, seconds=30.0, what="message"):
    deadline = time.monotonic() + seconds
    while True:
        try:
            message = seen.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            sys.exit("no such %s in %g s" % (what, seconds))
        if good(message):
            return message

def publisher(topic, kind):
    out = rospy.Publisher(topic, kind, queue_size=10)
    deadline = time.monotonic() + 30.0
    while not out.get_num_connections():
        if time.monotonic() > deadline:
            sys.exit("no node subscribes to %s" % topic)
        time.sleep(0.005)
    return out
"""


def ros_path() -> Path:
    """The folder that contains rospy. Without it, skip the test; under CI, fail it."""
    try:
        return find_rospy()
    except Ad2Error as exc:
        if os.environ.get("CI") == "true":
            pytest.fail(str(exc))
        pytest.skip(str(exc))


class FaultyRosMaster(RosMaster):
    """A master that tests kill and restart."""

    def kill(self) -> None:
        self._child.kill()

    def restart(self) -> None:
        """Restart at the same address, without registrations. Connections between nodes are kept."""
        self._child.close()
        self._child = self._start(self.port)


@contextmanager
def master(port: int = 0) -> Iterator[FaultyRosMaster]:
    """A ROS master on loopback; see ros_path."""
    ros_path()
    with FaultyRosMaster(port) as running:
        yield running


def probe(running: RosMaster, code: str, *words: str) -> str:
    """Run PREAMBLE and `code` as a new node; returns its output. Its exit code must be 0."""
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + code, *words],
        env=running.env(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(f"the probe ended with {done.returncode}: {done.stdout[-1000:]}\n{done.stderr[-3000:]}")
    return done.stdout
