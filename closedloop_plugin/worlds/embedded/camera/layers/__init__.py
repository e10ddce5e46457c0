"""Layers of a camera frame, one module each."""
