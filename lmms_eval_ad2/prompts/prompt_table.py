"""Prompt texts of one language: the packaged ones, overridden by a user's YAML file, with all keys checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lmms_eval_ad2.core.errors import DataError, yaml_fault
from lmms_eval_ad2.prompts.prompt_set import check_text, filled, texts_sha256, user_text, yaml_mapping

if TYPE_CHECKING:  # from Python 3.11 on
    from importlib.resources.abc import Traversable
    from typing import Self

Slots = Mapping[str, tuple[str, str]]  # key -> (placeholders it must have, placeholders it may have)
Bounds = Mapping[str, tuple[int, int]]  # key of a whole number -> (least, most)


@dataclass(frozen=True)
class PromptTable:
    """Prompt texts by key. `source` names the file; `sha256` is that of all effective texts and numbers.

    numbers: whole numbers that the user's file states beside its texts, by key; see `overlaid`.
    """

    texts: Mapping[str, str] = field(repr=False)
    source: str
    sha256: str
    numbers: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def overlaid(
        cls,
        packaged: Traversable,
        own: Path | str | None,
        slots: Slots,
        elsewhere: Mapping[str, str] | None = None,
        bounds: Bounds | None = None,
    ) -> Self:
        """The packaged texts, overridden by those of the YAML file `own`. Keys are those of `slots` and `bounds`.

        elsewhere: hint for a key that belongs in another file. Raises DataError (file, key, remedy) for an unreadable
        file, an unknown key, a placeholder that is missing or unknown, or a number out of its bounds.
        """
        bounds = bounds or {}
        found = _table(packaged.name, packaged.read_text("utf-8"), slots, {}, bounds)
        if own is not None:
            found |= _table(str(own), user_text(own), slots, elsewhere or {}, bounds)
        texts = {key: value for key, value in found.items() if key not in bounds}
        numbers = {key: value for key, value in found.items() if key in bounds}
        return cls(texts, str(own or "packaged"), texts_sha256(found), numbers)

    def fill(self, key: str, **values: object) -> str:
        """The text of `key` with `values` inserted literally; values are not expanded themselves."""
        return filled(self.texts[key], values)


def _table(file: str, text: str, slots: Slots, elsewhere: Mapping[str, str], bounds: Bounds) -> dict[str, Any]:
    try:
        data = yaml_mapping(file, text, "a mapping from prompt keys to texts")
    except yaml.YAMLError as exc:
        raise DataError(file, None, "file", "valid YAML", yaml_fault(exc)) from exc
    for key, value in data.items():
        if key in bounds:
            least, most = bounds[key]
            if type(value) is not int or not least <= value <= most:
                raise DataError(file, None, str(key), f"a whole number from {least} to {most}", value)
            continue
        if key not in slots and key in elsewhere:
            raise DataError(file, None, str(key), "a known prompt key", key, elsewhere[key])
        check_text(file, str(key), str(key), value, [*slots, *bounds], slots)
    return {str(key): value for key, value in data.items()}
