"""The prompt texts, in books (driving, threats): the packaged ones, overlaid by a user's YAML file. Every key and
placeholder is checked.

Filling puts values in place of `{name}` in one pass and never looks into a value again, so a model's words that
contain `{situation}` stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path as File

from lmms_eval_ad2.prompts.prompt_table import PromptTable

# Of a book (the file <book>.yaml beside this one): key -> (placeholders it must have, placeholders it may have)
SLOTS: Mapping[str, tuple[str, str]] = {
    "situation": ("speed command", "cameras limit ahead side"),
    "action": ("", "situation suffixes"),
    "suffixes": ("list", "top"),
    "trajectory": ("", "situation horizon step n"),
    "reasoning": ("", "situation"),
    "threat": ("", "situation"),
    "suffix": ("decision list", "situation top"),
    "cng": ("words", "situation scene suffix_note"),
    "dcs": ("words throttle_set steer_set brake_set", "situation scene suffix_note"),
    "suffix_note": ("", "top"),
    "scene_image": ("", ""),
    "scene_words": ("description", ""),
    "describe": ("", ""),
}
THREATS: Mapping[str, tuple[str, str]] = {
    "scene": ("speed command", "cameras pictures limit ahead side"),
    "pictures": ("n step", "each"),
    "perception": ("", "scene"),
    "prediction": ("perception", "scene"),
    "planning": ("perception prediction", "scene"),
    "fuse": ("perception prediction planning facts", "pictures earlier"),
    "construct": ("description vocabulary schema", "facts earlier"),
    "earlier": ("list", ""),
    "repair": ("problems", "task reply"),
}
BOOKS: Mapping[str, Mapping[str, tuple[str, str]]] = {"driving": SLOTS, "threats": THREATS}


class PromptTexts(PromptTable):
    """A book's texts by the keys of its slots."""

    @classmethod
    def load(cls, file: File | str | None = None, book: str = "driving") -> PromptTexts:
        """A book's packaged texts, overlaid by `file`; DataError as PromptTable.overlaid tells."""
        strangers = {
            key: f"It belongs into a file of {name} prompts; this is one of {book} prompts."
            for name, slots in BOOKS.items()
            for key in slots
        }
        return cls.overlaid(resources.files(__package__).joinpath(f"{book}.yaml"), file, BOOKS[book], strangers)

    def fill(self, key: str, **values: object) -> str:
        """The text of `key` with `values` put in literally, without the blank at its end."""
        return super().fill(key, **values).rstrip()


def texts_of(prompts: PromptTexts | File | str | None, book: str = "driving") -> PromptTexts:
    """What a caller may hand over as `prompts`: a Texts, a file, or None for the packaged ones."""
    return prompts if isinstance(prompts, PromptTexts) else PromptTexts.load(prompts, book)
