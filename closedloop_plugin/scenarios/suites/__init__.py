"""Suites: named lists of routes, and folders of Scenic programs."""
