"""A record as a task asks it: the words, the pictures, and whether it can be asked like that at all.

Here a task's settings (`metadata: ad2:`, scoring/variant.py) meet the prompts, for evaluation and for training files
alike: what a model is trained on is what it is asked later.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from PIL import Image

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.prompts import text, visual
from lmms_eval_ad2.prompts.marks import MarkChoice, effective_mark
from lmms_eval_ad2.prompts.views import Layout, Views, is_mosaic, shown
from lmms_eval_ad2.records import Form, Lang, Record


class PromptSettings(Protocol):
    """What a task's settings say of the asking; scoring.variant.Variant has it all."""

    @property
    def lang(self) -> Lang: ...
    @property
    def form(self) -> Form | None: ...
    @property
    def style(self) -> Literal["direct", "chain"]: ...
    @property
    def mark(self) -> MarkChoice: ...
    @property
    def coords(self) -> bool: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def views(self) -> Views: ...
    @property
    def rounds(self) -> bool: ...
    @property
    def frame(self) -> text.Frame: ...
    def asked_form(self, form: Form) -> Form: ...


def can_ask(record: Record, how: PromptSettings) -> bool:
    """Has the record the form and the visual prompt that are asked for?"""
    if not text.can_ask(record, how.asked_form(record.form)) or (how.coords and not record.mark.coords):
        return False
    try:
        return how.mark in ("native", "none") or effective_mark(record, how.mark).kind != "none"
    except Ad2Error:  # a box cannot be made from a point
        return False


def words(record: Record, how: PromptSettings, prompts: text.PromptSet | None = None) -> str:
    """The text of the first turn."""
    if how.rounds:
        return round_words(record, how, 0, (), prompts)
    return text.build(
        record, lang=how.lang, form=how.form, style=how.style, coords=how.coords, mark=how.mark, layout=how.layout,
        views=how.views, frame=how.frame, prompts=prompts,
    )  # fmt: skip


def round_words(
    record: Record, how: PromptSettings, step: int, said: Sequence[str], prompts: text.PromptSet | None = None
) -> str:
    """The text of one turn when asked in rounds; `step` counts from 0, `said` are the answers to those before."""
    return text.build_round(
        record, step, said, lang=how.lang, mark=how.mark, layout=how.layout, views=how.views, prompts=prompts
    )


def pictures(record: Record, image_root: Path, how: PromptSettings) -> list[Image.Image]:
    """The images of every turn, as RGB (visual.render tells what it raises)."""
    return visual.render(record, image_root, mark=_drawn(how), layout=how.layout, views=how.views)


def untouched(record: Record, how: PromptSettings) -> tuple[str, ...] | None:
    """The image paths where the pictures are the stored images and nothing else; None where something is drawn."""
    pairs = shown(record, how.views)
    if is_mosaic(pairs, how.layout) or effective_mark(record, _drawn(how)).kind in ("point", "box"):
        return None
    return tuple(path for _, path in pairs)


def _drawn(how: PromptSettings) -> MarkChoice:
    return "none" if how.coords else how.mark
