"""The same agents and interpreters on ROS robots (Bench2ADVLM, section 3.2)."""
