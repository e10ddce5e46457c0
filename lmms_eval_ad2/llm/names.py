"""Names that a user typed, against those that exist: one message, with the near ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, TypeVar

from lmms_eval_ad2.errors import Ad2Error

S = TypeVar("S", bound=str)


def one_of(name: Any, known: Iterable[S], what: str) -> S:
    """The member of `known` that equals `name`; Ad2Error with near names otherwise."""
    names: list[S] = list(known)
    for candidate in names:
        if candidate == name:
            return candidate
    near = difflib.get_close_matches(str(name), [str(n) for n in names], n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    raise Ad2Error(f"unknown {what} '{name}'; {hint}")


def check_keys(given: Iterable[Any], known: Iterable[str], where: str) -> None:
    """Ad2Error for the first key of `given` that `known` lacks."""
    names = list(known)
    for key in given:
        one_of(key, names, f"key of {where}:")
