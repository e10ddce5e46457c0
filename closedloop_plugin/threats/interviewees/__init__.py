"""Implementations of Interviewee: a model, and an observed driver."""
