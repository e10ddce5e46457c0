"""`ad2 learn`: training data of drives. Each part is a module with `register`."""

from __future__ import annotations

from typing import Any

from closedloop_plugin.cli.learn import check

PARTS = (check,)


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("learn", help="training data of drives: compare them with what is measured")
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    for part in PARTS:
        part.register(parts)
