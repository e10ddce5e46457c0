"""How a planner reaches a robot: SSH, a tunnel, ROS."""
