"""Roads: town files as they are, and corridor maps built from a route's own waypoints."""
