"""Scores of points and boxes in every coordinate frame: the same replies, read in each.

A model that answers in another frame than it is read in gets boxes near 0, which looks like a bad model. The figures
are written beside the scores and warned of (coordinates/misfit.py); they never replace them.
"""

from __future__ import annotations

from typing import Any

from lmms_eval_ad2.core.coordinates import FRAMES, Frame, InputResizing
from lmms_eval_ad2.core.coordinates.misfit import LIMITS
from lmms_eval_ad2.core.records import Answer
from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.scoring.metrics import typed_answers
from lmms_eval_ad2.scoring.sample import ScoredSample, input_size, target_of
from lmms_eval_ad2.scoring.variant import TaskVariant


class FrameCheck:
    """Collects the samples of one task; `resizing` as in `score_sample`."""

    def __init__(self, variant: TaskVariant, resizing: InputResizing | None) -> None:
        self._variant, self._resizing = variant, resizing
        self._counts: dict[str, int] = {}
        self._sums: dict[str, dict[Frame, float]] = {}

    def add(self, sample: ScoredSample) -> None:
        """Add a sample; one that is no point or box, or that could not be scored, is left out."""
        if sample.form not in LIMITS or sample.status == "unscored" or not isinstance(sample.raw, str):
            return
        record = sample.record
        target = target_of(record, sample.form, self._variant.lang)
        if not isinstance(target, Answer):
            return
        size = input_size(record, self._variant, self._resizing)
        metric: Any = typed_answers.iou if sample.form == "box" else typed_answers.location_score
        self._counts[sample.form] = self._counts.get(sample.form, 0) + 1
        sums = self._sums.setdefault(sample.form, dict.fromkeys(FRAMES, 0.0))
        for frame in FRAMES:
            read = parse(sample.raw, sample.form, image_size=record.image_size, frame=frame, model_input=size)
            if isinstance(read, Answer):
                sums[frame] += float(metric(read.value, target.value))

    def summary(self) -> dict[str, Any] | None:
        """The block `coordinates` of the task's table; None without points and boxes.

        frame: as in --frame. model_input: how the model resizes images (InputResizing.to_json), None if not known.
        by_frame: form -> {n, scores: frame -> mean in percent, unparsed replies as 0}.
        """
        if not self._counts:
            return None
        used = self._variant.resizing() or self._resizing
        return {
            "frame": self._variant.frame_text,
            "model_input": used.to_json() if used else None,
            "by_frame": {
                form: {"n": n, "scores": {f: round(100 * total / n, 6) for f, total in self._sums[form].items()}}
                for form, n in self._counts.items()
            },
        }
