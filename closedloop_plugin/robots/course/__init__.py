"""Drives segments of a course and says how far each run came."""
