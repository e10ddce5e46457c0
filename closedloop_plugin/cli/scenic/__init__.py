"""`ad2 scenic`: write and check scenario programs. `ad2 threats check` drives them."""

from __future__ import annotations

from typing import Any

from closedloop_plugin.cli.scenic import check, new

PARTS = (new, check)


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("scenic", help="scenario programs of your own: a template, a check in seconds")
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    for part in PARTS:
        part.register(parts)
