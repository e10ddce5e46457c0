"""Drives the segments of a course and measures how far each run gets."""
