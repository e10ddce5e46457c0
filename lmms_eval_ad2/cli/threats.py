"""`ad2 threats`: scenarios made from a model's own answers. Each part is a module of its own, cli/threats_<part>.py."""

from __future__ import annotations

import importlib
from typing import Any

PARTS = ("generate", "check", "search", "gallery")


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("threats", help="threat scenarios: make, check and search them, look at them")
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    for name in PARTS:
        importlib.import_module(f"lmms_eval_ad2.cli.threats_{name}").register(parts)
