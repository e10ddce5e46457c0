"""The transports of a course: simulated in this process, simulated through ROS, or a real vehicle."""
