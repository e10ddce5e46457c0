"""A driving reply -> controls, waypoints or action words."""
