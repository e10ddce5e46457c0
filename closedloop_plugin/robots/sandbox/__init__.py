"""A vehicle to test against: a track, bodies, a camera, as a ROS node."""
