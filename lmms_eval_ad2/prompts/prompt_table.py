"""Prompt texts of one language: the packaged ones, overridden by a user's YAML file, with all keys checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from lmms_eval_ad2.errors import DataError
from lmms_eval_ad2.prompts.prompt_set import check_text, filled, texts_sha256, user_text, yaml_mapping

if TYPE_CHECKING:  # from Python 3.11 on
    from importlib.resources.abc import Traversable
    from typing import Self

Slots = Mapping[str, tuple[str, str]]  # key -> (placeholders it must have, placeholders it may have)


@dataclass(frozen=True)
class PromptTable:
    """Prompt texts by key. `source` names the file; `sha256` is that of all effective texts."""

    texts: Mapping[str, str] = field(repr=False)
    source: str
    sha256: str

    @classmethod
    def overlaid(
        cls, packaged: Traversable, own: Path | str | None, slots: Slots, elsewhere: Mapping[str, str] | None = None
    ) -> Self:
        """The packaged texts, overridden by those of the YAML file `own`. Keys are those of `slots`.

        elsewhere: hint for a key that belongs in another file. Raises DataError (file, key, remedy) for an unreadable
        file, an unknown key, or a placeholder that is missing or unknown.
        """
        texts = _table(packaged.name, packaged.read_text("utf-8"), slots, {})
        if own is not None:
            texts |= _table(str(own), user_text(own), slots, elsewhere or {})
        return cls(texts, str(own or "packaged"), texts_sha256(texts))

    def fill(self, key: str, **values: object) -> str:
        """The text of `key` with `values` inserted literally; values are not expanded themselves."""
        return filled(self.texts[key], values)


def _table(file: str, text: str, slots: Slots, elsewhere: Mapping[str, str]) -> dict[str, str]:
    try:
        data = yaml_mapping(file, text, "a mapping from prompt keys to texts")
    except yaml.YAMLError as exc:
        raise DataError(file, None, "file", "valid YAML", " ".join(str(exc).split())) from exc
    for key, value in data.items():
        if key not in slots and key in elsewhere:
            raise DataError(file, None, str(key), "a known prompt key", key, elsewhere[key])
        check_text(file, str(key), str(key), value, list(slots), slots)
    return {str(key): value for key, value in data.items()}
