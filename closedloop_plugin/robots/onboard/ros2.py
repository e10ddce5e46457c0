"""ROS 2 backend (rclpy), same interface as ros1.py. Needs geometry_msgs, nav_msgs, sensor_msgs and std_msgs.

ROS 2 has no master. A node that ends in order is seen within seconds, a killed one only when its lease ends (20 s with
Fast DDS): until then silence shows it, of the camera (client.py) and of an odometry that had arrived before (here).
"""

import atexit
import importlib
import threading
from typing import Any, Dict, Iterable, Optional

import rclpy
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import String

from closedloop_plugin.robots.onboard import ros_messages
from closedloop_plugin.robots.onboard.io import LATEST_S, VehicleNotReady

_STATUS_TYPES = {"limo_base/LimoStatus": "limo_msgs/msg/LimoStatus"}  # of ROS 1: the same message of limo_ros2
_SPIN_S = 0.1  # after which the thread looks whether it is to end


class Ros2IO(ros_messages.RosBackend):
    """One ROS node. At most one per process: rclpy is initialised for the whole process."""

    def __init__(self, settings: Dict[str, Any], node: str, sees: bool) -> None:
        topics = settings["vehicle"]["topics"]
        super().__init__(settings, sees)
        _init()
        self._node = rclpy.create_node(node)
        self._wheels = self._node.create_publisher(String if self._words else Twist, topics["cmd"], 1)
        if self._pictures:
            self._subscribe(topics, self._pictures)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._closing = threading.Event()
        self._spinning = threading.Thread(target=self._spin, daemon=True)
        self._spinning.start()
        atexit.register(self.close)  # a thread within rclpy at the end of the interpreter would abort the process

    def publish(self, actuation: Dict[str, Any]) -> None:
        if self._words:
            self._wheels.publish(String(data=actuation["word"]))
            return
        self._wheels.publish(ros_messages.fill(Twist(), actuation["twist"]))

    def _fields(self, message: Any) -> Iterable[str]:
        names: Iterable[str] = message.get_fields_and_field_types()
        return names

    def fault(self) -> Optional[str]:
        if not rclpy.ok():
            raise VehicleNotReady("ROS has shut this node down")
        if self._pictures and self._pictures.fault:
            return self._pictures.fault
        if not self._wheels.get_subscription_count():
            return f"no node subscribes to {self._wheels.topic_name}"
        if self._odometry.count and self._odometry.get() is None:
            return f"the odometry has been silent for {LATEST_S:g} s: has the base ended?"
        return None

    def close(self) -> None:
        """End the node. Further calls do nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._spinning.join()
        self._executor.shutdown()
        self._node.destroy_node()
        if rclpy.ok():
            rclpy.shutdown()

    def _spin(self) -> None:
        while not self._closing.is_set() and rclpy.ok():
            self._executor.spin_once(_SPIN_S)

    def _subscribe(self, topics: Dict[str, Any], pictures: ros_messages.LatestCameraFrame) -> None:
        clock = self._node.get_clock()

        def on_frame(message: Any) -> None:
            stamp = message.header.stamp
            self._on_frame(clock.now().nanoseconds * 1e-9 - (stamp.sec + stamp.nanosec * 1e-9), message)

        found = [(topics["camera"], Image if pictures.raw else CompressedImage, on_frame)]
        if topics["odom"]:
            found.append((topics["odom"], Odometry, self._odometry.put))
        if topics["status"]:
            found.append((topics["status"], _message_class(topics["status_type"]), self._status.put))
        for topic, kind, callback in found:
            self._node.create_subscription(kind, topic, callback, qos_profile_sensor_data)


def _init() -> None:
    """Initialise rclpy without its handlers of signals, where it has that option: a stop must still be published."""
    try:
        from rclpy.signals import SignalHandlerOptions
    except ImportError:  # before Humble; client and relay replace the handlers
        rclpy.init(args=[])
    else:
        rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)


def _message_class(status_type: str) -> Any:
    """The class of "package/Name" or "package/msg/Name"."""
    package, _, name = _STATUS_TYPES.get(status_type, status_type).replace("/msg/", "/").partition("/")
    try:
        return getattr(importlib.import_module(f"{package}.msg"), name)
    except (ImportError, AttributeError, ValueError):
        raise VehicleNotReady(f"status type {status_type}: unknown here; source the workspace that has it") from None
