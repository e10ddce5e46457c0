"""The untrusted texts of a decision as files keep them: long ones cut, without the keys of the environment."""

from __future__ import annotations

from collections.abc import Mapping

from lmms_eval_ad2.storage.redaction import without_keys

TEXT = 16_000  # characters kept of a text
TEXTS, NAME = 16, 80  # texts of a decision that are kept, characters of their names


class KeptTexts:
    """The texts of one decision. `keys`: from environment_keys(). `cut`: whole lengths of the cut ones, by field."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.cut: dict[str, int] = {}
        self._keys = keys

    def text(self, field: str, text: object) -> str:
        """The text without keys; of a long one its beginning."""
        whole = str(text)
        if len(whole) > TEXT:
            self.cut[field] = len(whole)
        # Keys first: a cut through a key would leave its beginning.
        return without_keys(whole[: 2 * TEXT], self._keys)[:TEXT]

    def optional(self, field: str, text: str | None) -> str | None:
        return None if text is None else self.text(field, text)

    def answers(self, field: str, texts: Mapping[str, str]) -> dict[str, str]:
        """The fast system's answers by task."""
        named = [(str(name)[:NAME], text) for name, text in list(texts.items())[:TEXTS]]
        return {name: self.text(f"{field}.{name}", text) for name, text in named}
