"""How a course's decisions reach a vehicle: in this process, through ROS, or to a real vehicle."""
