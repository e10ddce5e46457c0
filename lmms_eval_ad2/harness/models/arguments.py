"""Checks of `--model_args`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from lmms_eval_ad2.core.errors import Ad2Error


def refuse_unknown(model: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise Ad2Error for the first of `given` that is not in `known`, with the closest known name."""
    names = sorted(known)
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names)}"
            raise Ad2Error(f"{model}: unknown model argument '{name}'; {hint}")


def whole_number(model: str, name: str, value: object, least: int) -> int:
    """Return `value` as an int; raises Ad2Error if it is not a whole number of at least `least`."""
    try:
        number = int(str(value))
    except ValueError:
        number = least - 1
    if number < least:
        raise Ad2Error(f"{model}: {name} must be a whole number of at least {least}, not {value!r}")
    return number
