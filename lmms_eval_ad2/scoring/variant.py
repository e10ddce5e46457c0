"""Task variants: language, form, style, marks and views of the questions (`metadata: ad2:` in a task's YAML)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.records import FORMS, Form, Lang

Frame = Literal["auto", "pixel", "unit", "thousand"]

CHOICES: dict[str, tuple[Any, ...]] = {
    "lang": ("en", "zh"),
    "form": (None, *FORMS),
    "style": ("direct", "chain"),
    "mark": ("native", "none", "text", "point", "box"),
    "layout": ("list", "mosaic"),
    "views": ("all", "front", "asked"),
    "frame": get_args(Frame),
    "judge": (True, False),
    "circular": (True, False),
}


@dataclass(frozen=True, slots=True)
class TaskVariant:
    """Settings of a task. The defaults are the canonical task.

    benchmark, part: select the records and the columns (docs/architecture.md).
    form: ask in this form instead of the record's own (for example an MC record as VQA).
    style: "chain" asks for all steps, tagged, in one turn; `rounds` asks step by step.
    mark: the visual prompt to draw; coords: give the region as normalised coordinates in the text.
    frame: frame of coordinates in answers (parsing.parse).
    captions: n-gram metrics over the free-text answers, in addition to the score.
    judge: False scores free text by `captions` alone (AutoDrive-QA Table 1's open-ended columns).
    circular: ask each multiple-choice question once per rotation of its options (scoring/rotation.py).
    """

    benchmark: str
    part: str
    lang: Lang = "en"
    form: Form | None = None
    style: Literal["direct", "chain"] = "direct"
    mark: Literal["native", "none", "text", "point", "box"] = "native"
    coords: bool = False
    layout: Literal["list", "mosaic"] = "list"
    views: Literal["all", "front", "asked"] = "all"
    rounds: bool = False
    frame: Frame = "auto"
    captions: tuple[str, ...] = ()
    judge: bool = True
    circular: bool = False

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str) -> TaskVariant:
        """Build a variant from YAML; raises Ad2Error for invalid keys or values. `where`: the task, for errors."""
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
        return cls(**{**data, "captions": tuple(data.get("captions", ()))})

    def asked_form(self, form: Form) -> Form:
        """Return the form in which a record of `form` is asked."""
        if self.style == "chain" or self.rounds:
            return "chain"
        return self.form or form

    def changes(self) -> dict[str, Any]:
        """Return the settings that differ from the canonical task."""
        plain = asdict(TaskVariant(self.benchmark, self.part))
        return {k: v for k, v in asdict(self).items() if v != plain[k] and k != "captions"}


def _steps(data: Mapping[str, Any]) -> bool:
    return data.get("style") == "chain" or bool(data.get("rounds"))
