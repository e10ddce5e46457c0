"""Drives of the target: on the standard route, where it is interviewed, and on the scenarios made for it."""
