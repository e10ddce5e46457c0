"""A vehicle base and a camera on ROS 2 for the client, as a program: ros2_base.py FOLDER CAMERA_TYPE KIND.

Writes the messages on the command topic to FOLDER/heard.jsonl. Publishes a frame 20 times a second unless FOLDER/stall
exists, a battery's state as its status, and odometry. Ends with its standard input.
"""

import json
import sys
import threading
from pathlib import Path

import rclpy
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rclpy.node import Node
from sensor_msgs.msg import BatteryState, CompressedImage, Image
from std_msgs.msg import String

JPEG = bytes.fromhex("ffd8ffc0000b080008001001011100ffd9")  # only the frame header, 16 x 8, is read


def main(folder: Path, camera: str, kind: str) -> None:
    rclpy.init()
    node = rclpy.create_node("base")
    heard = (folder / "heard.jsonl").open("a")

    def on_command(message: "Twist | String") -> None:
        command = message.data if kind == "word" else [message.linear.x, message.linear.y, message.angular.z]
        heard.write(json.dumps({"command": command}) + "\n")
        heard.flush()

    node.create_subscription(String if kind == "word" else Twist, "/cmd_vel", on_command, 10)
    frames = node.create_publisher(Image if camera == "raw" else CompressedImage, "/camera", 1)
    state = node.create_publisher(BatteryState, "/battery", 50)
    odometry = node.create_publisher(Odometry, "/odom", 50)

    def publish() -> None:
        message = Odometry()
        message.pose.pose.position.x, message.pose.pose.orientation.z, message.pose.pose.orientation.w = 1.5, 1.0, 0.0
        message.twist.twist.linear.x = 0.25
        odometry.publish(message)
        state.publish(BatteryState(voltage=11.5))
        if not (folder / "stall").exists():
            frames.publish(picture(node, camera))

    node.create_timer(0.05, publish)
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    while not ended.is_set():
        rclpy.spin_once(node, timeout_sec=0.1)
    node.destroy_node()
    rclpy.shutdown()


def picture(node: Node, camera: str) -> "Image | CompressedImage":
    message = CompressedImage(format="jpeg", data=JPEG)
    if camera == "raw":
        message = Image(width=16, height=8, encoding="bgr8", step=50, data=bytes(8 * 50))
    message.header.stamp = node.get_clock().now().to_msg()
    return message


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
