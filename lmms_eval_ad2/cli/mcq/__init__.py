"""`ad2 mcq`: multiple-choice questions from open questions. A module for each part."""

from __future__ import annotations

from typing import Any

from lmms_eval_ad2.cli.mcq import build, check, examples

# In the order of the help.
PARTS = (build.register, check.register, examples.register)


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("mcq", help="make multiple-choice questions from open ones (AutoDrive-QA) and check them")
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    for register_part in PARTS:
        register_part(parts)
