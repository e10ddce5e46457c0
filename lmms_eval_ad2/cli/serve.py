"""`ad2 serve`."""

from __future__ import annotations

from typing import Any


def register(subparsers: Any) -> None:
    subparsers.add_parser("serve")
