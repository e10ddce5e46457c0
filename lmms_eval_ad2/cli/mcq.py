"""`ad2 mcq`: multiple choice made from open questions. Each part is a module of its own, cli/mcq_<part>.py."""

from __future__ import annotations

import importlib
from typing import Any

PARTS = ("build", "check", "split")


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("mcq", help="make multiple-choice questions from open ones (AutoDrive-QA), check them")
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    for name in PARTS:
        importlib.import_module(f"lmms_eval_ad2.cli.mcq_{name}").register(parts)
