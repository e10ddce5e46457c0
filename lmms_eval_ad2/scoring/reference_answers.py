"""Reference answers as values, and as text in the answer format that the prompts request."""

from __future__ import annotations

from collections.abc import Sequence

from lmms_eval_ad2.core.coordinates import Frame, Size, from_pixels
from lmms_eval_ad2.core.records import Answer, Form, Lang, Record, Value
from lmms_eval_ad2.scoring.sample import reference_text, target_of

WORDS: dict[Lang, dict[str, str]] = {"en": {}, "zh": {"yes": "是", "no": "否", "left": "左", "right": "右"}}


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


def written(
    value: Value, form: Form, lang: Lang, frame: Frame, size: Size | None, model_input: Size | None = None
) -> str:
    """Format `value` (Answer.value of `form`; points and boxes in pixels) as text; a string of a point or box is kept.

    `frame`: coordinate frame of the answer. It needs `size` (width, height) in pixels, "model_input" also that of the
    image as the model sees it; without them the numbers stay pixels.
    """
    if form == "yesno":
        return WORDS[lang].get(str(value), str(value))
    if isinstance(value, tuple) and form in ("point", "box"):
        pixels = [float(v) for v in value]
        numbers = [_number(v) for v in from_pixels(pixels, frame, size, model_input) or pixels]
        return f"<{','.join(numbers)}>" if form == "point" else f"<OUTPUT START>[{', '.join(numbers)}]<OUTPUT END>"
    return str(value)


def chain(steps: Sequence[str]) -> str:
    """Format all steps of a chain of thought for one turn, each in tags (AD2-Bench section 3.2)."""
    return "\n".join(f"<start{number}>{text}<end>" for number, text in enumerate(steps, 1))


def _number(value: float) -> str:
    return format(value, ".10g")
