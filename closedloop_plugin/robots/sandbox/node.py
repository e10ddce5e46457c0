"""The sandbox as a ROS 1 node that simulates a vehicle. Run with `python -m closedloop_plugin.robots.sandbox.node`.

Uses the topics of a robot's file, and in addition: /ad2/truth (nav_msgs/Odometry: true pose on the floor), /ad2/event
(std_msgs/String: JSON of SandboxEvent), /ad2/place (geometry_msgs/Pose2D: places the vehicle), /ad2/camera
(std_msgs/Bool: false stalls the camera). Runs in real time on the monotonic clock, until its stdin is closed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from closedloop_plugin.robots.sandbox.scene import SandboxScene
from closedloop_plugin.robots.transport.ros import START_S, RosChildProcess, RosMaster, master_pid
from closedloop_plugin.robots.vehicles.robot_config import find_robot
from closedloop_plugin.robots.vehicles.vehicle import Twist, Vehicle, WordCommand
from lmms_eval_ad2.core.errors import Ad2Error, require

MODULE = "closedloop_plugin.robots.sandbox.node"
READY = "ready"
STEP_S = 0.01
ODOMETRY_STEPS, STATUS_STEPS = 2, 10  # odometry at 50 Hz like LIMO's driver, status at 10 Hz
CAMERA_S = 0.05
LATE_S = 0.1  # after a longer delay the missed time is skipped; catching up would be 3 cm of uncontrolled driving


class SandboxRosNode:
    """The ROS node. `run` advances the simulation; commands arrive in rospy's threads."""

    def __init__(self, vehicle: Vehicle, mode: int | None) -> None:
        self.rospy: Any = require("rospy", "the sandbox's node")
        self.vehicle, self.mode = vehicle, mode
        self.scene = SandboxScene(vehicle)
        self._lock = threading.Lock()
        self._camera_on = True
        self._ended = threading.Event()
        self._advertise()

    def _advertise(self) -> None:
        from geometry_msgs.msg import Pose2D
        from geometry_msgs.msg import Twist as TwistMessage
        from nav_msgs.msg import Odometry
        from sensor_msgs.msg import CompressedImage, Image
        from std_msgs.msg import Bool, String

        from closedloop_plugin.robots.onboard.ros1 import limo_status

        def on_twist(message: Any) -> None:  # not checked for finite numbers, as in real drivers
            self._command(Twist(message.linear.x, message.linear.y, message.angular.z))

        def switch_camera(message: Any) -> None:
            self._camera_on = bool(message.data)

        topics, publisher, subscriber = self.vehicle.topics, self.rospy.Publisher, self.rospy.Subscriber
        self._message = {"odom": Odometry, "text": String, "jpeg": CompressedImage, "raw": Image}
        self._message["status"] = limo_status()
        self._odom = publisher(topics.odom, Odometry, queue_size=5) if topics.odom else None
        self._status = publisher(topics.status, self._message["status"], queue_size=5) if topics.status else None
        self._truth = publisher("/ad2/truth", Odometry, queue_size=5)
        self._events = publisher("/ad2/event", String, queue_size=100, latch=True)
        image = CompressedImage if topics.camera_type == "compressed" else Image
        self._image = publisher(topics.camera, image, queue_size=1)
        if self.vehicle.kind == "word":
            subscriber(topics.cmd, String, lambda m: self._command(WordCommand(m.data)), queue_size=5)
        else:
            subscriber(topics.cmd, TwistMessage, on_twist, queue_size=5)
        subscriber("/ad2/place", Pose2D, lambda m: self._place(m.x, m.y, m.theta), queue_size=5)
        subscriber("/ad2/camera", Bool, switch_camera, queue_size=5)

    def run(self) -> None:
        """Run until `end` or until ROS shuts the node down."""
        camera = threading.Thread(target=self._publish_frames, daemon=True)
        camera.start()
        due, count = time.monotonic(), 0
        while not self._ended.is_set() and not self.rospy.is_shutdown():
            with self._lock:
                events = self.scene.step(STEP_S)
            for event in events:
                self._publish_event(asdict(event))
            count += 1
            if count % ODOMETRY_STEPS == 0:
                self._publish_motion()
            if self._status and count % STATUS_STEPS == 0:
                status = self._message["status"]()
                status.header.stamp = self.rospy.Time.now()
                status.control_mode, status.battery_voltage = 1, 12.0  # commanded by ROS, charged
                status.motion_mode = self.mode or 0
                self._send(self._status, status)
            due += STEP_S
            late = time.monotonic() - due
            if late > LATE_S:
                due += late
            self._ended.wait(max(0.0, -late))
        self._ended.set()
        camera.join()  # a thread in native code at interpreter exit would abort the process

    def end(self) -> None:
        self._ended.set()

    def _command(self, actuation: Twist | WordCommand) -> None:
        with self._lock:
            self.scene.command(actuation)

    def _place(self, x: float, y: float, yaw: float) -> None:
        if not all(map(math.isfinite, (x, y, yaw))):
            return
        with self._lock:
            events = self.scene.place(x, y, yaw)
        for event in events:
            self._publish_event(asdict(event))

    def _publish_event(self, event: dict[str, Any]) -> None:
        self._send(self._events, self._message["text"](json.dumps(event)))

    def _publish_motion(self) -> None:
        with self._lock:
            body = self.scene.body
            truth, odometry = (*body.pose, body.vx, body.wz), body.odometry()
        now = self.rospy.Time.now()
        self._send(self._truth, self._odometry("ad2_floor", now, *truth))
        if self._odom:
            self._send(self._odom, self._odometry("odom", now, *odometry.values()))

    def _odometry(self, frame: str, now: Any, x: float, y: float, yaw: float, v: float, w: float) -> Any:
        message = self._message["odom"]()
        message.header.stamp, message.header.frame_id, message.child_frame_id = now, frame, "base_link"
        place, turn = message.pose.pose.position, message.pose.pose.orientation
        place.x, place.y = x, y
        turn.z, turn.w = math.sin(yaw / 2), math.cos(yaw / 2)
        message.twist.twist.linear.x, message.twist.twist.angular.z = v, w
        return message

    def _publish_frames(self) -> None:
        """Publish 20 frames a second, in a separate thread, because drawing takes longer than a step."""
        due = time.monotonic()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            due = max(due + CAMERA_S, time.monotonic())
            if not self._camera_on:
                continue
            with self._lock:
                pose = self.scene.body.pose
            self._send(self._image, self._frame(self.rospy.Time.now(), pose))

    def _send(self, publisher: Any, message: Any) -> None:
        try:
            publisher.publish(message)
        except self.rospy.ROSException:  # the publisher was closed: the node is being shut down
            self.end()

    def _frame(self, stamp: Any, pose: tuple[float, float, float]) -> Any:
        """The camera message at this pose: a JPEG, or raw pixels."""
        raw = self.vehicle.topics.camera_type == "raw"
        message = self._message["raw" if raw else "jpeg"]()
        message.header.stamp, message.header.frame_id = stamp, "camera"
        if raw:
            picture = self.scene.picture(pose)
            message.height, message.width, _ = picture.shape
            message.encoding, message.step, message.data = "rgb8", picture.strides[0], picture.tobytes()
        else:
            message.format, message.data = "jpeg", self.scene.jpeg(pose)
        return message


class SandboxNodeProcess(RosChildProcess):
    """`robot`: a file, or a name in configs/robots. `mode`: the mode its status reports, instead of the robot's."""

    def __init__(
        self, master: RosMaster, robot: str | Path, mode: int | None = None, timeout_s: float = START_S
    ) -> None:
        words = [sys.executable, "-m", MODULE, "--robot", str(robot)]
        words += [] if mode is None else ["--mode", str(mode)]
        super().__init__("the sandbox's node", words, master.env(), timeout_s)
        if self.first_line != READY:
            self.close()
            raise Ad2Error(f"the sandbox's node printed {self.first_line!r} instead of {READY!r}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="a simulated vehicle on the sandbox track, as a ROS 1 node")
    parser.add_argument("--robot", default="sandbox", help="a robot's file, or the name of one in configs/robots")
    parser.add_argument("--mode", type=int, help="the mode that its status reports, instead of the robot's")
    args = parser.parse_args(argv)
    try:
        return _main(args)
    except Ad2Error as exc:
        print(exc, file=sys.stderr)
        return 2


def _main(args: argparse.Namespace) -> int:
    vehicle = find_robot(args.robot).vehicle
    if vehicle.ros != 1:
        raise Ad2Error(f"{vehicle.name} uses ROS {vehicle.ros}; the sandbox is a ROS 1 node: choose another --robot")
    uri = os.environ.get("ROS_MASTER_URI", "")
    if not uri or master_pid(uri) is None:
        raise Ad2Error(f"no ROS master answers at {uri or 'ROS_MASTER_URI (not set)'}: `ad2 robot sandbox` starts one")
    rospy: Any = require("rospy", "the sandbox's node")
    rospy.init_node("ad2_sandbox", disable_signals=True, disable_rosout=True)
    node = SandboxRosNode(vehicle, vehicle.mode if args.mode is None else args.mode)

    def end_with_stdin() -> None:  # the parent process closes the pipe, or ends for any reason
        sys.stdin.buffer.read()
        node.end()

    threading.Thread(target=end_with_stdin, daemon=True).start()
    print(READY, flush=True)
    node.run()
    rospy.signal_shutdown("the sandbox ends")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
