"""A base and a camera for the client over ROS 1, in a process: ros_base.py FOLDER CAMERA_TYPE KIND.

Writes what arrives on the command topic into FOLDER/heard.jsonl; publishes a frame 20 times a second while FOLDER/stall
is not there, LIMO's status with the mode in FOLDER/mode, and odometry. Ends when its standard input does.
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

JPEG = bytes.fromhex("ffd8ffc0000b080008001001011100ffd9")  # a frame header of 16 x 8 is all that anybody looks at


def main(folder: Path, camera: str, kind: str) -> None:
    rospy.init_node("base", disable_signals=True, disable_rosout=True)
    heard = (folder / "heard.jsonl").open("a")

    def on_command(message: rospy.AnyMsg) -> None:
        told = message.data if kind == "word" else [message.linear.x, message.linear.y, message.angular.z]
        caller = message._connection_header["callerid"]
        heard.write(json.dumps({"at": time.monotonic(), "from": caller, "told": told}) + "\n")
        heard.flush()

    rospy.Subscriber("/cmd_vel", String if kind == "word" else Twist, on_command, tcp_nodelay=True)
    frames = rospy.Publisher("/camera", Image if camera == "raw" else CompressedImage, queue_size=1)
    status = limo_status()
    state = rospy.Publisher("/limo_status", status, queue_size=1)
    odometry = rospy.Publisher("/odom", Odometry, queue_size=1)
    ended = threading.Event()

    def until_told() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=until_told, daemon=True).start()
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
