"""Exact match of choices and yes/no answers (AD2-Bench A.5, equation 5; AutoDrive-QA accuracy)."""

from __future__ import annotations


def accuracy(predicted: str, target: str) -> float:
    """1.0 where the two canonical values (a letter, "yes"/"no", a number as text) are equal, else 0.0.

    Case and surrounding blanks do not count; everything else does.
    """
    return float(predicted.strip().casefold() == target.strip().casefold())
