"""ROS 2 backend (rclpy), same interface as ros1.py. NOT RUN by our tests: rclpy is not available where they run.

Try it with the wheels off the ground. ROS 2 has no master; a node that has ended shows as a stalled camera.
"""

import threading
import time
from typing import Any, Dict, Optional, Tuple

import rclpy
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import qos_profile_sensor_data
from rosidl_runtime_py.utilities import get_message
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import String

from closedloop_plugin.robots.onboard import ros_messages
from closedloop_plugin.robots.onboard.io import VehicleIO, VehicleNotReady


class Ros2IO(VehicleIO):
    def __init__(self, settings: Dict[str, Any], node: str, sees: bool) -> None:
        topics = settings["vehicle"]["topics"]
        self._pictures = ros_messages.LatestCameraFrame(settings) if sees else None
        self._odometry, self._status = ros_messages.LatestMessage(), ros_messages.LatestMessage()
        rclpy.init(args=[])
        self._node = rclpy.create_node(node)
        self._words = settings["vehicle"]["kind"] == "word"
        self._wheels = self._node.create_publisher(String if self._words else Twist, topics["cmd"], 1)
        if self._pictures:
            self._subscribe(topics, self._pictures)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        threading.Thread(target=self._executor.spin, daemon=True).start()

    def publish(self, actuation: Dict[str, Any]) -> None:
        if self._words:
            self._wheels.publish(String(data=actuation["word"]))
            return
        self._wheels.publish(ros_messages.fill(Twist(), actuation["twist"]))

    def latest_frame(self) -> Optional[Tuple[float, bytes, int, int]]:
        return self._pictures.get() if self._pictures else None

    def camera_heard(self) -> Optional[float]:
        return self._pictures.heard_at if self._pictures else None

    def odometry(self) -> Optional[Dict[str, float]]:
        return ros_messages.odometry(self._odometry.get())

    def status(self) -> Optional[Dict[str, Any]]:
        found = self._status.get()
        return ros_messages.status(found, found.get_fields_and_field_types() if found else ())

    def received(self) -> Dict[str, int]:
        return ros_messages.counts(self._pictures, self._odometry, self._status)

    def fault(self) -> Optional[str]:
        if not rclpy.ok():
            raise VehicleNotReady("ROS has shut this node down")
        if self._pictures and self._pictures.fault:
            return self._pictures.fault
        return None if self._wheels.get_subscription_count() else f"no node subscribes to {self._wheels.topic_name}"

    def close(self) -> None:
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.shutdown()

    def _subscribe(self, topics: Dict[str, Any], pictures: ros_messages.LatestCameraFrame) -> None:
        def on_frame(message: Any) -> None:
            pictures.put(time.monotonic(), message)
            self.wake()

        found = [(topics["camera"], Image if pictures.raw else CompressedImage, on_frame)]
        if topics["odom"]:
            found.append((topics["odom"], Odometry, self._odometry.put))
        if topics["status"]:
            found.append((topics["status"], get_message(topics["status_type"]), self._status.put))
        for topic, kind, callback in found:
            self._node.create_subscription(kind, topic, callback, qos_profile_sensor_data)
