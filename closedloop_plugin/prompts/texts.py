"""The prompt texts, in books (driving, threats): the packaged ones, overlaid by a user's YAML file. Every key and
placeholder is checked.

Filling puts values in place of `{name}` in one pass and never looks into a value again, so a model's words that
contain `{situation}` stay as they are.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path as File
from typing import Any

import yaml

from lmms_eval_ad2.errors import DataError

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
_TOKEN = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True)
class Texts:
    """Prompt texts by key. `source` names the file; `sha256` is that of all effective texts."""

    texts: Mapping[str, str] = field(repr=False)
    source: str
    sha256: str

    @classmethod
    def load(cls, file: File | str | None = None, book: str = "driving") -> Texts:
        """A book's packaged texts, overlaid by `file`. DataError (file, key, what to do) for anything wrong in it."""
        packaged = resources.files(__package__).joinpath(f"{book}.yaml").read_text("utf-8")
        texts = _read(f"{book}.yaml", packaged, book)
        if file is not None:
            try:
                own = File(file).expanduser().read_text("utf-8")
            except (OSError, UnicodeDecodeError) as exc:
                raise DataError(file, None, "file", "a readable UTF-8 YAML file of prompts", str(exc)) from exc
            texts |= _read(str(file), own, book)
        canonical = json.dumps(texts, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return cls(texts, str(file) if file else "packaged", hashlib.sha256(canonical.encode()).hexdigest())

    def fill(self, key: str, **values: object) -> str:
        """The text of `key` with `values` put in literally, without the blank at its end."""
        return _TOKEN.sub(lambda m: m[0][0] if m[1] is None else str(values[m[1]]), self.texts[key]).rstrip()


def texts_of(prompts: Texts | File | str | None, book: str = "driving") -> Texts:
    """What a caller may hand over as `prompts`: a Texts, a file, or None for the packaged ones."""
    return prompts if isinstance(prompts, Texts) else Texts.load(prompts, book)


def _read(file: str, text: str, book: str) -> dict[str, str]:
    try:
        data: Any = yaml.safe_load(text) or {}
    except yaml.YAMLError as exc:
        raise DataError(file, None, "file", "valid YAML", " ".join(str(exc).split())) from exc
    if not isinstance(data, dict):
        raise DataError(file, None, "file", "a mapping of prompt texts", data)
    for key, value in data.items():
        _check(file, str(key), value, book)
    return {str(key): value for key, value in data.items()}


def _check(file: str, key: str, value: Any, book: str) -> None:
    slots = BOOKS[book]
    if key not in slots:
        near = difflib.get_close_matches(key, slots, 1)
        elsewhere = [name for name, others in BOOKS.items() if key in others]
        hint = f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(slots)}."
        if elsewhere:
            hint = f"It belongs into a file of {elsewhere[0]} prompts; this is one of {book} prompts."
        raise DataError(file, None, key, "a known prompt key", key, hint)
    if not isinstance(value, str) or not value.strip():
        raise DataError(file, None, key, "a text", value)
    need, may = (set(names.split()) for names in slots[key])
    found = {m[1] for m in _TOKEN.finditer(value) if m[1]}
    if need - found:
        missing = ", ".join(f"{{{n}}}" for n in sorted(need - found))
        raise DataError(file, None, key, f"the placeholder {missing}", value, "Put it where its text belongs.")
    if found - need - may:
        extra = sorted(found - need - may)[0]
        takes = ", ".join(f"{{{n}}}" for n in sorted(need | may)) or "no placeholder"
        raise DataError(file, None, key, f"only {takes}", f"{{{extra}}}", "Write a literal brace twice: {{ }}.")
