"""`ad2 learn`: training of a small model on collected drives. Each part is a module with `register`."""

from __future__ import annotations

from typing import Any

from closedloop_plugin.cli.learn import model, train

PARTS = (model, train)


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("learn", help="train a small model on the frames of drives")
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    for part in PARTS:
        part.register(parts)
