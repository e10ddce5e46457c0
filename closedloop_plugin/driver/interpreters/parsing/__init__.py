"""Parsing of driving replies: controls, waypoints, driving words, speed suffixes."""
