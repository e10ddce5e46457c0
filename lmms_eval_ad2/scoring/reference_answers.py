"""Reference answers as values, and as text in the answer format that the prompts request."""

from __future__ import annotations

from collections.abc import Sequence

from lmms_eval_ad2.records import Answer, Form, Lang, Record, Value
from lmms_eval_ad2.scoring.sample import reference_text, target_of
from lmms_eval_ad2.scoring.variant import Frame

YES_NO: dict[Lang, dict[str, str]] = {"en": {"yes": "yes", "no": "no"}, "zh": {"yes": "是", "no": "否"}}


def reference(record: Record, form: Form, lang: Lang, step: int = 0) -> Value | None:
    """Return the reference as a value (point and box in pixels); None if the record has no readable one."""
    if form == "chain":
        return record.steps[step].answer.get(lang) or None if step < len(record.steps) else None
    if form == "vqa":
        return reference_text(record, lang) or None
    if form == "ocr":
        return record.answer.get(lang) or None
    target = target_of(record, form, lang)
    return target.value if isinstance(target, Answer) else None


def written(value: Value, form: Form, lang: Lang, frame: Frame, size: tuple[int, int] | None) -> str:
    """Format `value` (Answer.value of `form`; points and boxes in pixels) as text; a string of a point or box is kept.

    `frame`: coordinate frame of the answer; proportional frames need `size` (width, height) in pixels.
    """
    if form == "yesno":
        return YES_NO[lang].get(str(value), str(value))
    if isinstance(value, tuple) and form in ("point", "box"):
        numbers = [_number(v) for v in in_frame([float(v) for v in value], frame, size)]
        return f"<{','.join(numbers)}>" if form == "point" else f"<OUTPUT START>[{', '.join(numbers)}]<OUTPUT END>"
    return str(value)


def chain(steps: Sequence[str]) -> str:
    """Format all steps of a chain of thought for one turn, each in tags (AD2-Bench section 3.2)."""
    return "\n".join(f"<start{number}>{text}<end>" for number, text in enumerate(steps, 1))


def in_frame(pixels: Sequence[float], frame: Frame, size: tuple[int, int] | None) -> list[float]:
    """Convert alternating x, y from pixels to `frame`: value * scale / size; without `size` they stay pixels."""
    scale = {"unit": 1, "thousand": 1000}.get(frame)
    if scale is None or size is None:
        return list(pixels)
    return [value * scale / size[axis % 2] for axis, value in enumerate(pixels)]


def _number(value: float) -> str:
    return format(value, ".10g")
