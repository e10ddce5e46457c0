"""ROS node that reports the true pose of the sandbox's vehicle and places it. A separate process, because rospy's
init_node works once per process and replaces its logging configuration.
Run with `python -m closedloop_plugin.robots.course.transports.ground_truth_node`.

stdout: "ready", then a JSON line [stamp in s, x, y, yaw, speed] per pose. stdin: a JSON line [x, y, yaw] places the
vehicle (m, rad). Ends when stdin is closed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from typing import Any

from closedloop_plugin.robots.sandbox.node_process import READY
from closedloop_plugin.robots.transport.ros import master_pid
from lmms_eval_ad2.errors import Ad2Error, require


def main() -> int:
    try:
        _serve()
    except Ad2Error as exc:
        print(exc, file=sys.stderr)
        return 2
    return 0


def _serve() -> None:
    uri = os.environ.get("ROS_MASTER_URI", "")
    if not uri or master_pid(uri) is None:
        raise Ad2Error(f"no ROS master answers at {uri or 'ROS_MASTER_URI (not set)'}")
    rospy: Any = require("rospy", "a course through ROS")
    from geometry_msgs.msg import Pose2D
    from nav_msgs.msg import Odometry

    rospy.init_node("ad2_witness", disable_signals=True, disable_rosout=True)
    placement = rospy.Publisher("/ad2/place", Pose2D, queue_size=5)
    rospy.Subscriber("/ad2/truth", Odometry, _print_pose, queue_size=50)
    print(READY, flush=True)
    for line in sys.stdin:
        x, y, yaw = json.loads(line)
        placement.publish(Pose2D(x, y, yaw))
    rospy.signal_shutdown("the course ends")


def _print_pose(message: Any) -> None:
    position, q = message.pose.pose.position, message.pose.pose.orientation
    # The rotation is about z only, so that yaw = 2 atan2(q.z, q.w).
    pose = [message.header.stamp.to_sec(), position.x, position.y, 2 * math.atan2(q.z, q.w)]
    with contextlib.suppress(BrokenPipeError):  # the course was killed; stdin is closed too, which ends this process
        print(json.dumps([*pose, message.twist.twist.linear.x]), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
