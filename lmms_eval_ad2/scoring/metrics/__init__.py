"""Metrics as plain functions of values: one module per kind of answer, and intervals and comparisons of their means.

Nothing here depends on samples, files or models. Missing values never become 0: a sample that could not be scored is
not passed to these functions.
"""
