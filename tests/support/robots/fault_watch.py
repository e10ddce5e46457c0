"""Monitor of the simulated vehicle for the fault tests: a ROS node in a separate process.

Output, JSON lines: ["ready"]; ["truth", t, x, y, v, yaw] for each ground truth of the sandbox; ["cmd", t, moves, node]
for each command to the wheels; ["late", t, s] if a thread slept s too long on a busy machine. t: s on the monotonic
clock, of the stamp of the truth and of the arrival of the command. Units: m, m/s, rad.
Input: ["place", x, y, yaw] and ["camera", on]. Ends with its standard input.
"""

import json
import math
import os
import sys
import threading
import time

import rospy
from geometry_msgs.msg import Pose2D, Twist
from nav_msgs.msg import Odometry
from std_msgs.msg import Bool

_OUT = threading.Lock()
_READY = threading.Event()


def write_line(*values: object) -> None:
    with _OUT:
        sys.stdout.write(json.dumps(values) + "\n")
        sys.stdout.flush()


def on_truth(message: Odometry) -> None:
    if not _READY.is_set():
        return
    stamp = message.header.stamp.to_sec() - time.time() + time.monotonic()
    place, q = message.pose.pose.position, message.pose.pose.orientation
    # The rotation is about z only, so that yaw = 2 atan2(q.z, q.w).
    write_line("truth", stamp, place.x, place.y, message.twist.twist.linear.x, 2 * math.atan2(q.z, q.w))


def on_command(message: Twist) -> None:
    if not _READY.is_set():
        return
    moves = bool(message.linear.x or message.linear.y or message.angular.z)
    write_line("cmd", time.monotonic(), moves, message._connection_header["callerid"])


def measure_stalls() -> None:
    while True:
        begun = time.monotonic()
        time.sleep(0.005)
        late = time.monotonic() - begun - 0.005
        if late > 0.01:
            write_line("late", begun + late, late)


def main() -> None:
    rospy.init_node("fault_watch", disable_signals=True, disable_rosout=True)
    place = rospy.Publisher("/ad2/place", Pose2D, queue_size=5)
    camera = rospy.Publisher("/ad2/camera", Bool, queue_size=5)
    threading.Thread(target=execute_commands, args=(place, camera), daemon=True).start()
    while not (place.get_num_connections() and camera.get_num_connections()):
        time.sleep(0.01)  # the parent process waits with a limit
    # Before "ready", thus before the vehicle's client starts: if a publisher registers at the same time, rospy may
    # drop the newer of two lists of publishers and never connect to it.
    rospy.Subscriber("/ad2/truth", Odometry, on_truth, queue_size=100, tcp_nodelay=True)
    rospy.Subscriber("/cmd_vel", Twist, on_command, queue_size=100, tcp_nodelay=True)
    write_line("ready")
    _READY.set()
    threading.Thread(target=measure_stalls, daemon=True).start()
    rospy.spin()


def execute_commands(place: rospy.Publisher, camera: rospy.Publisher) -> None:
    for line in sys.stdin:
        what, *values = json.loads(line)
        if what == "place":
            place.publish(Pose2D(*values))
        else:
            camera.publish(Bool(*values))
    os._exit(0)  # other threads may still be waiting


if __name__ == "__main__":
    main()
