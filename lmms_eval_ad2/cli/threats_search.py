"""`ad2 threats search`."""

from __future__ import annotations

from typing import Any


def register(parts: Any) -> None:
    parts.add_parser("search")
