"""Implementations of Interviewee: a model, and a driver without words."""
