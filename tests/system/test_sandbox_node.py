"""The sandbox over a real rosmaster and real rospy: a client sees the topics of the vehicle in its file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.robots import ros_master

from closedloop_plugin.robots.sandbox.node import MODULE, SandboxNodeProcess
from closedloop_plugin.robots.transport.ros import RosMaster
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES
from closedloop_plugin.robots.vehicles.vehicle import RosTopics
from lmms_eval_ad2.core.errors import Ad2Error

DRIVE = """
truth, odom = listen("/ad2/truth", Odometry), listen(sys.argv[1], Odometry)
events, wheels = listen("/ad2/event", String), publisher("/cmd_vel", Twist)
place = publisher("/ad2/place", Pose2D)
place.publish(Pose2D(0.34, 1.9, -1.5708))
wait(events, lambda m: json.loads(m.data)["what"] == "placed", what="placing")
wait(truth, lambda m: abs(m.pose.pose.position.y - 1.9) < 0.01, what="pose after placing")
start = wait(odom)
go = Twist(); go.linear.x = 0.3
wheels.publish(go)
here = wait(truth, lambda m: m.pose.pose.position.y < 1.7, what="driving")

def under_way(m):
    # In a frame of its own: forward is x, whatever the floor's.
    return m.pose.pose.position.x - start.pose.pose.position.x > 0.1 and m.twist.twist.linear.x > 0.29

now = wait(odom, under_way, what="odometry")
wheels.publish(Twist())
wait(truth, lambda m: m.twist.twist.linear.x == 0.0, what="stop")
print(json.dumps({"frames": [here.header.frame_id, now.header.frame_id, now.child_frame_id],
                  "x": here.pose.pose.position.x, "w": here.pose.pose.orientation.w}))
"""
SEE = """
kind = {"raw": Image, "compressed": CompressedImage}[sys.argv[2]]
frames, switch = listen(sys.argv[1], kind), publisher("/ad2/camera", Bool)
frame = wait(frames)
later = wait(frames, lambda m: m.header.stamp > frame.header.stamp)
switch.publish(Bool(False))
deadline = time.monotonic() + 30.0
try:
    while time.monotonic() < deadline:
        frames.get(timeout=0.5)
    sys.exit("the camera never stalled")
except queue.Empty:
    pass
switch.publish(Bool(True))
wait(frames, what="frame after the stall")
out = {"bytes": len(frame.data), "head": list(bytearray(frame.data[:2]))}
if sys.argv[2] == "raw":
    out.update(width=frame.width, height=frame.height, step=frame.step, encoding=frame.encoding)
print(json.dumps(out))
"""
STATUS_MD5 = "89a12362fe9a1bc68d82a887b7cca0f7"  # of limo_base/msg/LimoStatus.msg of agilexrobotics/limo_ros
STATUS = """
from closedloop_plugin.robots.onboard.ros1 import limo_status
status = wait(listen("/limo_status", limo_status()))
print(json.dumps([status.motion_mode, status.control_mode, status._md5sum]))
"""
SPEAK = """
truth, wheels = listen("/ad2/truth", Odometry), publisher(sys.argv[1], String)
wheels.publish(String("left"))
wait(truth, lambda m: m.twist.twist.angular.z > 5.0, what="turning")
wheels.publish(String("stop"))
wait(truth, lambda m: m.twist.twist.angular.z == 0.0, what="stop")
print("stopped")
"""


@pytest.fixture(scope="module")
def master() -> Iterator[RosMaster]:
    with ros_master.master() as started:
        yield started


@pytest.mark.parametrize("robot", ["sandbox", "jetbot-waveshare"])
def test_the_vehicle_is_placed_driven_and_stopped(master: RosMaster, robot: str) -> None:
    topics = RosTopics("", "", odom="/odom_raw") if "jetbot" in robot else VEHICLES["limo-ackermann"].topics
    node = SandboxNodeProcess(master, robot)
    try:
        result = json.loads(ros_master.probe(master, DRIVE, topics.odom))
    finally:
        node.close()
    assert result["frames"] == ["ad2_floor", "odom", "base_link"]
    assert result["x"] == pytest.approx(0.34, abs=0.01) and result["w"] == pytest.approx(0.7071, abs=0.01)
    assert node.process.returncode == 0


@pytest.mark.parametrize("robot", ["sandbox", "jetbot-waveshare"])
def test_the_camera_sends_frames_until_it_stalls(master: RosMaster, robot: str) -> None:
    topics = VEHICLES["limo-ackermann" if robot == "sandbox" else robot].topics
    node = SandboxNodeProcess(master, robot)
    try:
        seen = json.loads(ros_master.probe(master, SEE, topics.camera, topics.camera_type))
    finally:
        node.close()
    if topics.camera_type == "raw":
        assert (seen["width"], seen["height"], seen["encoding"]) == (640, 480, "rgb8")
        assert seen["bytes"] == 480 * seen["step"]
    else:
        assert seen["head"] == [0xFF, 0xD8] and 5_000 < seen["bytes"] < 60_000


@pytest.mark.parametrize(("mode", "shown"), [(None, 1), (2, 2)])
def test_a_limo_reports_its_mode(master: RosMaster, mode: int | None, shown: int) -> None:
    node = SandboxNodeProcess(master, "sandbox", mode)
    try:
        assert json.loads(ros_master.probe(master, STATUS)) == [shown, 1, STATUS_MD5]
    finally:
        node.close()


def test_a_base_with_word_commands_executes_them(master: RosMaster) -> None:
    node = SandboxNodeProcess(master, "jetbot-dusty-ros1")
    try:
        assert ros_master.probe(master, SPEAK, VEHICLES["jetbot-dusty-ros1"].topics.cmd).strip() == "stopped"
    finally:
        node.close()


def test_a_vehicle_of_ros_2_is_refused(master: RosMaster, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Ad2Error, match="ended while it started, code 2"):
        SandboxNodeProcess(master, "jetbot-dusty-ros2")
    assert "uses ROS 2" in capfd.readouterr().err


def test_without_a_master_the_node_ends_instead_of_waiting(tmp_path: Path) -> None:
    env = {**os.environ, "ROS_MASTER_URI": "http://127.0.0.1:9/", "PYTHONPATH": str(ros_master.ros_path())}
    done = subprocess.run(
        [sys.executable, "-m", MODULE], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "no ROS master answers at http://127.0.0.1:9/" in done.stderr
