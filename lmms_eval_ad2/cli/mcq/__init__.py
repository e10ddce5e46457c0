"""`ad2 mcq`: multiple-choice questions from open questions. Each part is a module with `register`."""

from __future__ import annotations

from typing import Any

from lmms_eval_ad2.cli.mcq import build, check, examples, options, split

PARTS = (build, options, check, split, examples)


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("mcq", help="make multiple-choice questions from open ones (AutoDrive-QA) and check them")
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    for part in PARTS:
        part.register(parts)
