"""Who sees the sandbox's vehicle as it really is, and puts it down. A process of its own, since rospy's init_node works
once in one and takes its logging. `python -m closedloop_plugin.robots.course.transports.ground_truth_node`.

Out: "ready", then a line of JSON for every truth, [stamp in s, x, y, yaw, speed]. In: a line [x, y, yaw] for every
placing. Ends with its standard input.
"""

from __future__ import annotations

import json
import math
import os
import sys
from typing import Any

from closedloop_plugin.robots.sandbox.node_process import READY
from closedloop_plugin.robots.transport.ros import master_pid
from lmms_eval_ad2.errors import Ad2Error, require


def main() -> int:
    uri = os.environ.get("ROS_MASTER_URI", "")
    if not uri or master_pid(uri) is None:
        raise Ad2Error(f"no ROS master answers at {uri or 'ROS_MASTER_URI (not set)'}")
    rospy: Any = require("rospy", "a course through ROS")
    from geometry_msgs.msg import Pose2D
    from nav_msgs.msg import Odometry

    rospy.init_node("ad2_witness", disable_signals=True, disable_rosout=True)
    placing = rospy.Publisher("/ad2/place", Pose2D, queue_size=5)
    rospy.Subscriber("/ad2/truth", Odometry, _tell, queue_size=50)
    print(READY, flush=True)
    for line in sys.stdin:
        x, y, yaw = json.loads(line)
        placing.publish(Pose2D(x, y, yaw))
    rospy.signal_shutdown("the course ends")
    return 0


def _tell(message: Any) -> None:
    place, turn = message.pose.pose.position, message.pose.pose.orientation
    truth = [message.header.stamp.to_sec(), place.x, place.y, 2 * math.atan2(turn.z, turn.w)]
    print(json.dumps([*truth, message.twist.twist.linear.x]), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
