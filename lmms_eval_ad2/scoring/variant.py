"""Task variants: language, form, style, marks and views of the questions (`metadata: ad2:` in a task's YAML)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from lmms_eval_ad2.core.coordinates import FRAMES, Frame, FrameSetting, InputResizing
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import FORMS, Form, Lang, Record
from lmms_eval_ad2.scoring.score_columns import suited_form

CHOICES: dict[str, tuple[Any, ...]] = {
    "lang": ("en", "zh"),
    "form": (None, *FORMS),
    "style": ("direct", "chain"),
    "mark": ("native", "none", "coords", "reference", "point", "box"),
    "layout": ("list", "mosaic"),
    "views": ("all", "front", "asked"),
    "frame": FRAMES,
    "judge": (True, False),
    "circular": (True, False),
    # Of texts with a reference.
    "rubric": (None, "ad2_vqa", "ad2_sacs", "coda_general", "coda_region", "coda_suggestion"),
}


@dataclass(frozen=True, slots=True)
class TaskVariant:
    """Settings of a task. The defaults are the canonical task.

    benchmark, part: select the records and the columns (docs/architecture.md).
    form: ask in this form, and leave out records that do not have it. None: each in its own form, or, if it has both of
    AD2-Bench's forms, in the one that suits its sub-task (score_columns.suited_form).
    style: "chain" asks for all steps, tagged, in one turn; `rounds` asks step by step.
    mark: the visual prompt to show (prompts/marks.py); coords: give the region as normalised coordinates in the text.
    frame: coordinate frame in which points and boxes are asked and read (coordinates.Frame); model_input: the numbers
    that determine the size of the model's input, e.g. "max_pixels=2007040", if the model does not tell them.
    captions: n-gram metrics over the free-text answers, in addition to the score.
    judge: False scores free text by `captions` alone (AutoDrive-QA Table 1's open-ended columns).
    circular: ask each multiple-choice question once per rotation of its options (scoring/derived_records.py).
    rubric: the judge's rubric for free text. None: that of the benchmark (scoring/sample.rubric_of).
    """

    benchmark: str
    part: str
    lang: Lang = "en"
    form: Form | None = None
    style: Literal["direct", "chain"] = "direct"
    mark: Literal["native", "none", "coords", "reference", "point", "box"] = "native"
    coords: bool = False
    layout: Literal["list", "mosaic"] = "list"
    views: Literal["all", "front", "asked"] = "all"
    rounds: bool = False
    frame: Frame = "auto"
    model_input: str = ""
    captions: tuple[str, ...] = ()
    judge: bool = True
    circular: bool = False
    rubric: str | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str) -> TaskVariant:
        """Build a variant from YAML; raises Ad2Error for invalid keys or values. `where`: the task, for errors."""
        data = _with_frame_split(data, where)
        known = [f.name for f in fields(cls)]
        for key, value in data.items():
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                raise Ad2Error(
                    f"{where}: unknown key '{key}' under metadata.ad2"
                    + (f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(known)}")
                )
            if key in CHOICES and value not in CHOICES[key]:
                raise Ad2Error(f"{where}: metadata.ad2.{key} is {value!r}; expected one of {CHOICES[key]}")
        if "benchmark" not in data or "part" not in data:
            raise Ad2Error(f"{where}: metadata.ad2 needs 'benchmark' and 'part'")
        if data.get("circular") and (data.get("form") not in (None, "mc") or _steps(data)):
            raise Ad2Error(f"{where}: metadata.ad2.circular rotates options: only for form mc, no chain, no rounds")
        if data.get("rubric") and (_steps(data) or data.get("form") not in (None, "vqa")):
            raise Ad2Error(f"{where}: metadata.ad2.rubric is for free text: only for form vqa, no chain, no rounds")
        return cls(**{**data, "captions": tuple(data.get("captions", ()))})

    @classmethod
    def of_table(cls, table: Mapping[str, Any], name: str) -> TaskVariant:
        """The variant of a task as its table in summary.json states it."""
        about = {"benchmark": table["benchmark"], "part": table["part"], "captions": table["captions"]}
        variant = dict(table["variant"])
        if variant.get("mark") == "text":  # its name up to version 0.9
            variant["mark"] = "coords"
        return cls.from_dict({**about, **variant}, name)

    def with_frame(self, text: str, where: str) -> TaskVariant:
        """The task asked and read in another frame, as written in --frame; raises Ad2Error for an invalid one."""
        setting = FrameSetting.parse(text, where)
        return replace(self, frame=setting.frame, model_input=text.partition(":")[2].strip())

    @property
    def frame_text(self) -> str:
        """The frame as it is written in --frame."""
        return f"{self.frame}:{self.model_input}" if self.model_input else self.frame

    def resizing(self) -> InputResizing | None:
        """How the model resizes images, if the task names it; None: the model tells it, or nobody."""
        return FrameSetting.parse(self.frame_text, "frame").resizing

    @property
    def named_form(self) -> Form | None:
        """The form in which all records are asked; None if it depends on the record."""
        return "chain" if self.style == "chain" or self.rounds else self.form

    def asked_form(self, record: Record) -> Form:
        """Return the form in which a record is asked."""
        return self.named_form or suited_form(record, self.lang)

    def changes(self) -> dict[str, Any]:
        """Return the settings that differ from the canonical task."""
        plain = asdict(TaskVariant(self.benchmark, self.part))
        return {k: v for k, v in asdict(self).items() if v != plain[k] and k != "captions"}


def _with_frame_split(data: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Split `frame: "model_input:max_pixels=..."` into its two fields, and check them."""
    if "frame" not in data and "model_input" not in data:
        return data
    text = str(data.get("frame", "auto"))
    more = data.get("model_input")
    text = f"{text}:{more}" if more else text
    setting = FrameSetting.parse(text, f"{where}: metadata.ad2.frame")
    return {**data, "frame": setting.frame, "model_input": text.partition(":")[2].strip()}


def _steps(data: Mapping[str, Any]) -> bool:
    return data.get("style") == "chain" or bool(data.get("rounds"))
