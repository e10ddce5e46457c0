"""The planner's side of a robot: session, listener, control socket, emergency stop, journal."""
