"""PromptTexts: the packaged prompt texts (books: driving, threats), overlaid by a user's YAML file.

Keys and placeholders are checked. Values replace `{name}` in one pass and are not searched again, so a model's text
that contains `{situation}` is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from lmms_eval_ad2.prompts.prompt_set import PromptTable

# Keys of <book>.yaml -> (required placeholders, optional placeholders).
SLOTS: Mapping[str, tuple[str, str]] = {
    "situation": ("speed command", "cameras limit ahead side pictures history"),
    "situation_speed": ("speed", ""),
    "pictures": ("n", "times each"),
    "history": ("list", ""),
    "past": ("ago words", "speed controls"),
    "action": ("", "situation pictures history suffixes"),
    "suffixes": ("list", "top"),
    "trajectory": ("", "situation pictures history horizon step n"),
    "reasoning": ("", "situation pictures history"),
    "threat": ("", "situation pictures history"),
    "suffix": ("decision list", "situation pictures history top"),
    "cng": ("words", "situation scene suffix_note"),
    "dcs": ("words throttle_set steer_set brake_set", "situation scene suffix_note"),
    "suffix_note": ("", "top"),
    "scene_image": ("", ""),
    "scene_words": ("description", ""),
    "describe": ("", ""),
}
THREATS: Mapping[str, tuple[str, str]] = {
    "scene": ("speed command", "cameras pictures driven limit ahead side"),
    "pictures": ("n ages", "each"),
    "driven": ("time s", ""),
    "unmoved": ("time", ""),
    "replies": ("list", ""),
    "perception": ("", "scene"),
    "prediction": ("perception", "scene"),
    "planning": ("perception prediction", "scene"),
    "fuse": ("perception prediction planning facts", "drive pictures earlier further sight"),
    "further": ("n", ""),
    "sight": ("list", ""),
    "construct": ("description vocabulary schema", "facts earlier"),
    "earlier": ("list", ""),
    "survived": ("list", ""),
    "repair": ("problems", "task reply"),
}
# Whole numbers of a driving file: moments of which a question has the pictures, the present one included.
BOUNDS: Mapping[str, Mapping[str, tuple[int, int]]] = {"driving": {"frames": (1, 65)}}
BOOKS: Mapping[str, Mapping[str, tuple[str, str]]] = {"driving": SLOTS, "threats": THREATS}


class PromptTexts(PromptTable):
    """The texts of a book by key."""

    @classmethod
    def load(cls, file: Path | str | None = None, book: str = "driving") -> PromptTexts:
        """The packaged texts of a book, overlaid by `file`. Raises DataError, see PromptTable.overlaid."""
        other_keys = {
            key: f"It belongs in a file of {name} prompts; this is a file of {book} prompts."
            for name, slots in BOOKS.items()
            for key in slots
        }
        return cls.overlaid(resources.files(__package__).joinpath(f"{book}.yaml"), file, BOOKS[book], other_keys,
                            BOUNDS.get(book))  # fmt: skip

    def fill(self, key: str, **values: object) -> str:
        """The text of `key` with its placeholders replaced by `values`, without trailing white space."""
        return super().fill(key, **values).rstrip()


def texts_of(prompts: PromptTexts | Path | str | None, book: str = "driving") -> PromptTexts:
    """PromptTexts from PromptTexts, a file, or None for the packaged texts."""
    return prompts if isinstance(prompts, PromptTexts) else PromptTexts.load(prompts, book)
