"""Prompt texts by language: the packaged ones, overridden by a user's YAML file. Keys and placeholders are checked.

Values replace `{name}` in one pass and are not expanded themselves: a question that contains `{steps}` or
`{0.__class__}` is unchanged. `{{` and `}}` are literal braces.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lmms_eval_ad2.core.errors import Ad2Error, DataError, yaml_fault
from lmms_eval_ad2.core.records import LANGS, Lang
from lmms_eval_ad2.data.coda_checkout import official_questions
from lmms_eval_ad2.storage import user_yaml

if TYPE_CHECKING:  # from Python 3.11 on
    from importlib.resources.abc import Traversable
    from typing import Self

# Prompt texts of one language: the packaged ones, overridden by a user's YAML file, with all keys checked.

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


PACKAGED = "default.yaml"
ENV = "AD2_PROMPTS"
PAPER = "paper"  # instead of a file: the texts that the papers print (paper.yaml)
OFFICIAL = "coda_lm:"  # before the path of a checkout of CODA-LM, instead of a file

# key -> (placeholders it must have, placeholders it may have). A key that is not listed takes none.
SLOTS: dict[str, tuple[str, str]] = {
    "mc": ("question options", "letters"),
    "mcq": ("question options", "letters"),
    "mcq_vqa": ("question", ""),
    "vqa": ("question", ""),
    "vqa_relation": ("question", ""),
    "vqa_reasoning": ("question", ""),
    "yesno": ("question", ""),
    "side": ("question", ""),
    "count": ("question", ""),
    "ocr": ("question", ""),
    "point": ("question", "frame"),
    "box": ("question", "frame"),
    "point_yx": ("question", "frame"),
    "box_yx": ("question", "frame"),
    "chain": ("question tags", "n steps"),
    "chain_step": ("i question", "name"),
    "chain_tag": ("i", "name"),
    "round": ("step", "question history i n name"),
    "round_history": ("answer", "i name question"),
    # CODA-LM's question is the same for a whole task, so a user's text may already include it.
    "coda_general": ("", "question"),
    "coda_suggestion": ("", "question"),
    "coda_region": ("", "mark question"),
    "coda_region_text": ("coords", ""),
    # Not in default.yaml: if there is one, it is the whole prompt of a region that is given by coordinates.
    "coda_region_coords": ("coords", "question"),
    "drivelm_tags": ("", "tag size"),
    "drivelm_size": ("width height", ""),
    "frame_pixel_size": ("", "width height"),
    "mark_text": ("text", ""),
    "mark_points": ("", "n"),
    "mark_boxes": ("", "n"),
    "mark_point_coords": ("coords", ""),
    "mark_points_coords": ("coords", "n"),
    "mark_box_coords": ("coords", ""),
    "mark_boxes_coords": ("coords", "n"),
    "view_single": ("view", ""),
    "views_list": ("views", "n"),
    "views_frames": ("views", "n"),
    "views_unnamed": ("", "n"),
    "views_mosaic": ("upper lower", ""),
}
_TOKEN = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True)
class PromptSet:
    """Prompt texts by language and key. `source` names the file; `sha256` is that of all effective texts.

    published: what these texts are, if they are published ones; tables show it next to the name of the run.
    """

    texts: Mapping[str, Mapping[str, str]] = field(repr=False)
    source: str
    sha256: str
    published: str = ""

    @classmethod
    def load(cls, path: Path | str | None = None) -> PromptSet:
        """The packaged texts, overridden by the file `path`, else by the one in the environment variable AD2_PROMPTS.

        "paper" instead of a file: the prompts that AD2-Bench and CODA-LM print in their papers. "coda_lm:CHECKOUT":
        CODA-LM's questions are those of its official converter.

        Raises DataError (file, key, remedy) for an unreadable file, an unknown key, or a placeholder that is missing or
        unknown; Ad2Error for a checkout without the converter.
        """
        user_file = path or os.environ.get(ENV)
        if not user_file:
            return _load(None, 0)
        if str(user_file) == PAPER:
            return _paper()
        if str(user_file).startswith(OFFICIAL):
            return _official(str(user_file).removeprefix(OFFICIAL))
        file = Path(user_file).expanduser()
        try:
            changed = file.stat().st_mtime_ns
        except OSError as exc:
            expected = f"a readable YAML file of prompts, '{PAPER}' or {OFFICIAL}CHECKOUT"
            raise DataError(user_file, None, "file", expected, str(exc), f"Check --prompts, or {ENV}.") from exc
        return _load(str(file), changed)

    @property
    def name(self) -> str:
        """A name for result files: what the texts are if they are published, "packaged", or the name of the file."""
        return self.published or Path(self.source).name

    def of(self, key: str, lang: Lang) -> str | None:
        """The text of `key` in `lang`, else in English, with its placeholders; None if there is none."""
        return self.texts[lang].get(key) or self.texts["en"].get(key)

    def fill(self, key: str, lang: Lang, **values: object) -> str:
        """The text of `key` in `lang` (in English if there is none), with `values` inserted literally."""
        text = self.of(key, lang)
        if text is None:
            raise Ad2Error(f"{self.source}: there is no prompt text '{key}'")
        return filled(text, values)


def filled(text: str, values: Mapping[str, object]) -> str:
    """`text` with its placeholders replaced by `values`, in one pass; a missing value is a KeyError."""
    return _TOKEN.sub(lambda m: m[0][0] if m[1] is None else str(values[m[1]]), text).strip("\n")


def placeholders(text: str) -> set[str]:
    """Names of the placeholders in `text`."""
    return {m[1] for m in _TOKEN.finditer(text) if m[1]}


@functools.lru_cache(maxsize=16)
def _load(file: str | None, changed: int) -> PromptSet:
    """Read and check the texts; `changed` (the file's time stamp) only serves as part of the cache key."""
    texts = _packaged(PACKAGED)
    if file is not None:
        texts = _overlaid(texts, _read(file, user_text(file), known=sorted({*texts["en"], *SLOTS})))
    return PromptSet(texts, file or "packaged", texts_sha256(texts))


@functools.cache
def _paper() -> PromptSet:
    """The packaged texts with the prompts that the papers print."""
    texts = _overlaid(_packaged(PACKAGED), _packaged(f"{PAPER}.yaml"))
    return PromptSet(texts, PAPER, texts_sha256(texts), published="paper prompts")


def _packaged(file: str) -> dict[str, dict[str, str]]:
    return _read(file, resources.files(__package__).joinpath(file).read_text("utf-8"))


def _overlaid(texts: dict[str, dict[str, str]], own: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    return {lang: {**texts[lang], **own[lang]} for lang in LANGS}


@functools.lru_cache(maxsize=4)
def _official(checkout: str) -> PromptSet:
    """The packaged texts with the official questions as the whole prompts of CODA-LM's tasks."""
    questions = official_questions(Path(checkout).expanduser())
    packaged = _load(None, 0).texts
    # A brace in a text is literal, and every language has the official question, which is English.
    own = {f"coda_{task}": text.replace("{", "{{").replace("}", "}}") for task, text in questions.items()}
    texts: dict[str, dict[str, str]] = {lang: {**packaged[lang], **own} for lang in LANGS}
    return PromptSet(texts, f"{OFFICIAL}{checkout}", texts_sha256(texts), published="official CODA-LM questions")


def _read(file: str, text: str, known: list[str] | None = None) -> dict[str, dict[str, str]]:
    try:
        data = yaml_mapping(file, text, "a mapping with the keys 'en' and 'zh'")
    except yaml.YAMLError as exc:
        raise DataError(file, None, "file", "valid YAML", yaml_fault(exc)) from exc
    texts: dict[str, dict[str, str]] = {lang: {} for lang in LANGS}
    for lang, table in data.items():
        if lang not in LANGS or not isinstance(table, dict):
            raise DataError(file, None, str(lang), "one of the languages en, zh, with a mapping of prompt texts", table)
        for key, value in table.items():
            check_text(file, f"{lang}.{key}", str(key), value, known, SLOTS)
            texts[lang][str(key)] = value
    return texts


def user_text(file: Path | str) -> str:
    """The content of a user's file of prompts. Raises DataError if it cannot be read or is not UTF-8."""
    try:
        return user_yaml.read_text(Path(file).expanduser())
    except OSError as exc:
        raise DataError(file, None, "file", "a readable UTF-8 YAML file of prompts", str(exc)) from exc


def yaml_mapping(file: str, text: str, expected: str) -> dict[Any, Any]:
    """The mapping in a YAML text; empty for an empty text. Raises YAMLError, and DataError for other content."""
    data: Any = user_yaml.parse(text) or {}
    if not isinstance(data, dict):
        raise DataError(file, None, "file", expected, data)
    return data


def texts_sha256(texts: Mapping[str, Any]) -> str:
    """sha256 of the canonical JSON of prompt texts (sorted keys, no spaces)."""
    canonical = json.dumps(texts, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def check_text(
    file: str, field_name: str, key: str, value: Any, known: list[str] | None, slots: Mapping[str, tuple[str, str]]
) -> None:
    """Raise DataError for a key that is not `known`, a value that is not a text, or placeholders not in `slots`."""
    if known is not None and key not in known:
        near = difflib.get_close_matches(key, known, 1)
        hint = f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(known)}."
        raise DataError(file, None, field_name, "a known prompt key", key, hint)
    if not isinstance(value, str) or not value.strip():
        raise DataError(file, None, field_name, "a text", value)
    need, may = (set(names.split()) for names in slots.get(key, ("", "")))
    found = placeholders(value)
    if need - found:
        missing = ", ".join(f"{{{n}}}" for n in sorted(need - found))
        raise DataError(file, None, field_name, f"the placeholder {missing}", value, "Put it where its value belongs.")
    if found - need - may:
        extra = sorted(found - need - may)
        near = difflib.get_close_matches(extra[0], sorted(need | may), 1)
        takes = ", ".join(f"{{{n}}}" for n in sorted(need | may)) or "no placeholder"
        hint = f"Did you mean {{{near[0]}}}?" if near else "Write a literal brace twice: {{ }}."
        raise DataError(file, None, field_name, f"only {takes}", f"{{{extra[0]}}}", hint)
