"""What runs on the vehicle: Python 3.6, standard library, and rospy or rclpy in a file each."""
