"""Runs the agents and interpreters of the closed loop on ROS robots (Bench2ADVLM, section 3.2)."""
