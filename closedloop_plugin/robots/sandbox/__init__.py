"""A simulated vehicle for tests and demos: track, vehicle body and camera, also as a ROS node."""
