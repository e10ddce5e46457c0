"""Simulated worlds. base.py is the interface that the runner uses."""
