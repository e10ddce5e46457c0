"""A vehicle base and a camera on ROS 1 for the client, as a program: ros_base.py FOLDER CAMERA_TYPE KIND.

Writes the messages on the command topic to FOLDER/heard.jsonl. Publishes a frame 20 times a second unless FOLDER/stall
exists, the status of a LIMO with the mode in FOLDER/mode, and odometry. Ends with its standard input.
"""

import json
import sys
import threading
import time
from pathlib import Path

import rospy
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import String

from closedloop_plugin.robots.onboard.ros1 import limo_status

JPEG = bytes.fromhex("ffd8ffc0000b080008001001011100ffd9")  # only the frame header, 16 x 8, is read


def main(folder: Path, camera: str, kind: str) -> None:
    rospy.init_node("base", disable_signals=True, disable_rosout=True)
    heard = (folder / "heard.jsonl").open("a")

    def on_command(message: rospy.AnyMsg) -> None:
        command = message.data if kind == "word" else [message.linear.x, message.linear.y, message.angular.z]
        caller = message._connection_header["callerid"]
        heard.write(json.dumps({"at": time.monotonic(), "from": caller, "command": command}) + "\n")
        heard.flush()

    rospy.Subscriber("/cmd_vel", String if kind == "word" else Twist, on_command, tcp_nodelay=True)
    frames = rospy.Publisher("/camera", Image if camera == "raw" else CompressedImage, queue_size=1)
    status = limo_status()
    state = rospy.Publisher("/limo_status", status, queue_size=1)
    odometry = rospy.Publisher("/odom", Odometry, queue_size=1)
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    while not ended.wait(0.05):
        message = Odometry()
        message.pose.pose.position.x, message.pose.pose.orientation.z = 1.5, 1.0
        message.twist.twist.linear.x = 0.25
        odometry.publish(message)
        state.publish(status(motion_mode=int((folder / "mode").read_text()), battery_voltage=11.5))
        if not (folder / "stall").exists():
            frames.publish(picture(camera))


def picture(camera: str) -> "Image | CompressedImage":
    message = CompressedImage(format="jpeg", data=JPEG)
    if camera == "raw":
        message = Image(width=16, height=8, encoding="bgr8", step=50, data=bytes(8 * 50))
    message.header.stamp = rospy.Time.now()
    return message


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
