"""Road maps: OpenDRIVE files of towns, and corridor maps built from the waypoints of a route."""
