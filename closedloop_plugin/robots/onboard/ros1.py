"""ROS 1 backend. Needs rospy and the packages geometry_msgs, nav_msgs, sensor_msgs and std_msgs."""

import os
from typing import Any, Dict, Iterable, List, Optional

import genpy.dynamic
import roslib.message
import rospy
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import String

from closedloop_plugin.robots.onboard import ros_messages
from closedloop_plugin.robots.onboard.io import VehicleNotReady
from closedloop_plugin.robots.onboard.ros1_master import RosMasterMonitor, call

# agilexrobotics/limo_ros, limo_base/msg/LimoStatus.msg, so that its workspace need not be sourced
LIMO_STATUS = "limo_base/LimoStatus"
_LIMO_STATUS = """std_msgs/Header header
uint8 vehicle_state
uint8 control_mode
float64 battery_voltage
uint16 error_code
uint8 motion_mode
================================================================================
MSG: std_msgs/Header
uint32 seq
time stamp
string frame_id
"""


def limo_status() -> Any:
    """The class of LIMO's status message."""
    return genpy.dynamic.generate_dynamic(LIMO_STATUS, _LIMO_STATUS)[LIMO_STATUS]


class Ros1IO(ros_messages.RosBackend):
    """One ROS node. At most one per process: rospy cannot be initialised twice."""

    def __init__(self, settings: Dict[str, Any], node: str, sees: bool) -> None:
        topics = settings["vehicle"]["topics"]
        super().__init__(settings, sees)
        uri = _reachable_master()
        self._subscribers: List[rospy.Subscriber] = []
        rospy.init_node(node, disable_signals=True, disable_rosout=True)
        # With a queue, publishing never waits for a subscriber that hangs.
        self._wheels = rospy.Publisher(topics["cmd"], String if self._words else Twist, queue_size=1)
        if self._pictures:
            self._subscribe(topics, self._pictures)
        self._monitor = RosMasterMonitor(uri, rospy.get_name(), self._register, lambda: self.wake())

    def publish(self, actuation: Dict[str, Any]) -> None:
        if self._words:
            self._wheels.publish(String(actuation["word"]))
            return
        self._wheels.publish(ros_messages.fill(Twist(), actuation["twist"]))

    def _fields(self, message: Any) -> Iterable[str]:
        names: Iterable[str] = message.__slots__
        return names

    def fault(self) -> Optional[str]:
        if rospy.is_shutdown():
            raise VehicleNotReady("ROS has shut this node down (rosnode kill, or another node of its name)")
        fault = self._monitor.fault or (self._pictures and self._pictures.fault)
        if fault:
            return fault
        return None if self._wheels.get_num_connections() else f"no node subscribes to {self._wheels.resolved_name}"

    def close(self) -> None:
        self._monitor.close()
        rospy.signal_shutdown("closed")

    def _subscribe(self, topics: Dict[str, Any], pictures: ros_messages.LatestCameraFrame) -> None:
        def on_frame(message: Any) -> None:
            self._on_frame(rospy.get_time() - message.header.stamp.to_sec(), message)

        self._listen(topics["camera"], Image if pictures.raw else CompressedImage, on_frame)
        if topics["odom"]:
            self._listen(topics["odom"], Odometry, self._odometry.put)
        if topics["status"]:
            kind = roslib.message.get_message_class(topics["status_type"])
            if kind is None and topics["status_type"] == LIMO_STATUS:
                kind = limo_status()
            if kind is None:
                raise VehicleNotReady(
                    f"status type {topics['status_type']}: unknown here; source the workspace that has it"
                )
            self._listen(topics["status"], kind, self._status.put)

    def _listen(self, topic: str, kind: Any, callback: Any) -> None:
        # Queue of one message and a buffer that holds a raw image, to get the newest message, not the oldest.
        subscriber = rospy.Subscriber(topic, kind, callback, queue_size=1, buff_size=1 << 22, tcp_nodelay=True)
        self._subscribers.append(subscriber)

    def _register(self) -> None:
        """Register this node with a restarted master, through the master's XML-RPC API: rospy has no call for it."""
        uri, name, here = rospy.get_master().getUri()[2], rospy.get_name(), rospy.get_node_uri()
        call(uri, "registerPublisher", name, self._wheels.resolved_name, self._wheels.type, here)
        for subscriber in self._subscribers:
            topic = subscriber.resolved_name
            code, publishers = call(uri, "registerSubscriber", name, topic, subscriber.type, here)
            if code == 1 and isinstance(publishers, list):
                call(here, "publisherUpdate", "/master", topic, publishers)  # type: ignore[arg-type]


def _reachable_master() -> str:
    """The master's address. Checked here because rospy.init_node waits indefinitely for a missing master."""
    uri = os.environ.get("ROS_MASTER_URI", "")
    if not uri:
        raise VehicleNotReady("ROS_MASTER_URI is not set: source the vehicle's workspace first")
    try:
        call(uri, "getPid", "/ad2_onboard")
    except OSError as exc:
        raise VehicleNotReady(f"no ROS master at {uri} ({exc}): start the vehicle's bringup first") from None
    return uri
