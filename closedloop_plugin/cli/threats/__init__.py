"""`ad2 threats`: scenarios made from a model's own answers. Each part is a module of this folder."""

from __future__ import annotations

from typing import Any

from closedloop_plugin.cli.threats import check, gallery, generate, search

PARTS = (generate, check, search, gallery)


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("threats", help="threat scenarios: generate, check, search, show")
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    for part in PARTS:
        part.register(parts)
