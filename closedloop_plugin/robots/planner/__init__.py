"""The planner on the lab machine: server, sessions, decision cycle, control socket, emergency stop, journal."""
