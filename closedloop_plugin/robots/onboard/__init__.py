"""The programs on the vehicle. Python 3.6 and standard library; ros1.py needs rospy, ros2.py needs rclpy."""
