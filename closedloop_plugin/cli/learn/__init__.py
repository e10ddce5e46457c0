"""`ad2 learn`: a small model from the frames of drives, and what it was trained on. Each part has `register`."""

from __future__ import annotations

from typing import Any

from closedloop_plugin.cli.learn import check, loss, shipped, train

PARTS = (train, loss, check, shipped)


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("learn", help="train a small model on the frames of drives; check training data")
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    for part in PARTS:
        part.register(parts)
