"""Plain functions from values to numbers. One module a kind of answer; `summary` turns many numbers into one.

Nothing here knows of samples, files or models, and nothing turns a missing value into 0:
what could not be scored never reaches these functions, or comes as None where a signature says so.
"""
