"""The prompt of a record in a task: text, images, and whether the record can be asked in this way.

Applies a task's settings (`metadata: ad2:`, scoring/variant.py) to the prompts. Evaluation and training files both use
it, so that a model is trained with the prompts with which it is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from PIL import Image

from lmms_eval_ad2.core.coordinates import Frame
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Form, Lang, Record
from lmms_eval_ad2.prompts import text, visual
from lmms_eval_ad2.prompts.marks import MarkChoice, effective_mark
from lmms_eval_ad2.prompts.views import Layout, Views, is_mosaic, shown


class PromptSettings(Protocol):
    """The settings of a task that affect its prompts; scoring.variant.TaskVariant implements it."""

    @property
    def lang(self) -> Lang: ...
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
    def frame(self) -> Frame: ...
    def asked_form(self, record: Record) -> Form: ...


# Benchmarks that are asked in either language; the others stay English under `lang: zh`, as published.
BILINGUAL = frozenset({"ad2_bench", "world"})


def in_language(record: Record, settings: PromptSettings) -> bool:
    """Whether all texts that the model reads exist in the asked language; True for a benchmark of one language."""
    if record.benchmark not in BILINGUAL:
        return True
    read = [record.question]
    form = settings.asked_form(record)
    if form == "mc":
        read += [option.text for option in record.options]
    elif form == "chain":
        read += [step.question for step in record.steps]
    return all(one.readable_in(settings.lang) for one in read)


def in_form(record: Record, settings: PromptSettings) -> bool:
    """Whether the record has the form in which the task asks it."""
    return text.can_ask(record, settings.asked_form(record))


def can_ask(record: Record, settings: PromptSettings) -> bool:
    """Whether the record has the requested form, visual prompt and language."""
    if not in_language(record, settings):
        return False
    if not in_form(record, settings) or (settings.coords and not record.mark.coords):
        return False
    if settings.mark in ("native", "none"):
        return True
    try:
        # The steps whose marks are drawn, one per turn; (None,) if all is asked in one turn, with the record's mark.
        turns = range(len(record.steps)) if settings.rounds else (None,)
        return any(effective_mark(record, settings.mark, step).kind != "none" for step in turns)
    except Ad2Error:  # a box cannot be made from a point
        return False


def prompt_text(record: Record, settings: PromptSettings, prompts: text.PromptSet | None = None) -> str:
    """The text of the first turn."""
    if settings.rounds:
        return round_text(record, settings, 0, (), prompts)
    return text.build(
        record, lang=settings.lang, form=settings.asked_form(record), style=settings.style, coords=settings.coords,
        mark=settings.mark, layout=settings.layout, views=settings.views, frame=settings.frame, prompts=prompts,
    )  # fmt: skip


def round_text(
    record: Record, settings: PromptSettings, step: int, previous: Sequence[str], prompts: text.PromptSet | None = None
) -> str:
    """The text of turn `step` (from 0) if the task asks in rounds; `previous`: the answers to the steps before."""
    return text.build_round(
        record, step, previous, lang=settings.lang, mark=settings.mark, layout=settings.layout, views=settings.views,
        prompts=prompts,
    )  # fmt: skip


def prompt_images(record: Record, image_root: Path, settings: PromptSettings, turn: int = 0) -> list[Image.Image]:
    """The images of a turn, with the mark of its step, as RGB; raises the errors of `visual.render`."""
    return visual.render(
        record, image_root, mark=_drawn(settings), layout=settings.layout, views=settings.views,
        step=turn if settings.rounds else None,
    )  # fmt: skip


def stored_images(record: Record, settings: PromptSettings, turn: int = 0) -> tuple[str, ...] | None:
    """The image paths if the model is shown the stored images unchanged; None if anything is drawn."""
    pairs = shown(record, settings.views)
    drawn = effective_mark(record, _drawn(settings), turn if settings.rounds else None)
    if is_mosaic(pairs, settings.layout) or drawn.kind in ("point", "box"):
        return None
    return tuple(path for _, path in pairs)


def _drawn(settings: PromptSettings) -> MarkChoice:
    return "none" if settings.coords else settings.mark
