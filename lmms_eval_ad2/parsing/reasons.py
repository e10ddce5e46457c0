"""Reason codes of `Unparsed.reason`, with their meaning.

The codes are written to result files and tables, so they must not change.
"""

from __future__ import annotations

import re

# lmms-eval, some of its models and `ad2 score` return these failures as text in place of an answer.
FAILURES: dict[str, str] = {
    "request_failed": "the request to the model failed",
    "budget_exceeded": "the token budget of the run was spent",
    "safety_blocked": "the provider blocked the reply",
    "generation_failed": "the model raised an error",
    "media_failed": "the model could not load the media",
    "no_answer": "the answer file has no row for the record",
}

# Also returned as text, by ad2_chance and in its floor: to repeat the request does not help.
NO_OTHER_REFERENCE = "no_other_reference"

REASONS: dict[str, str] = {
    **FAILURES,
    NO_OTHER_REFERENCE: "no other record has a reference from which a random answer can be drawn",
    "empty": "the reply is empty",
    "unfinished_thought": "the text ends inside a thinking tag",
    "too_long": "the answer has more than 100,000 characters",
    "refusal": "the model declined",
    "no_verdict": "no explicit answer",
    "hedged": "the model did not decide",
    "several": "more than one answer",
    "contradiction": "the letter and the option text after it disagree",
    "not_offered": "an answer that was not offered",
    "range": "a range or a bound instead of one number",
    "not_a_count": "a number that cannot be a count (negative, fractional)",
    "too_many_numbers": "more numbers than the form allows, none marked as the answer",
    "malformed": "numbers or brackets that do not have the requested form",
    "point_for_box": "a point instead of a box",
    "several_points": "several points, none marked as the answer",
    "several_boxes": "several boxes, none marked as the answer",
    "no_image_size": "proportional coordinates without an image size to scale them by",
    "no_model_input_size": "coordinates of the model's input, whose size is not known",
    "no_tags": "no step tags in a chain of thought",
}

_MARKERS: tuple[tuple[str, str], ...] = (
    (r"\[LMMS_EVAL_REQUEST_FAILED\b", "request_failed"),
    (r"\[LMMS_EVAL_BUDGET_EXCEEDED\]", "budget_exceeded"),
    (r"\[SAFETY_BLOCKED\b", "safety_blocked"),
    (r"\[GENERATION_FAILED\]", "generation_failed"),
    (r"\[ERROR\]", "generation_failed"),
    (r"\[AD2_MEDIA_FAILED\]", "media_failed"),  # written by our models for samples with a broken image
    (r"\[AD2_NO_ANSWER\]", "no_answer"),  # written by `ad2 score`
    (r"\[AD2_NO_OTHER_REFERENCE\]", NO_OTHER_REFERENCE),  # written by ad2_chance
    # async_openai: a reply without content
    (r"(?:Error: )?can only concatenate str \(not \"NoneType\"\) to str\s*\Z", "generation_failed"),
    # oryx, llava_vid: the whole answer is this one line
    (r"Video [^\n]{0,4096} (?:can not load|generate failed), check the source\s*\Z", "media_failed"),
)
_FAILURE = re.compile("|".join(f"(?P<m{i}>{pattern})" for i, (pattern, _) in enumerate(_MARKERS)))


def failure_reason(text: str) -> str | None:
    """The code of a failure that lmms-eval 0.7.3 or ad2_chance returned as text; None for an answer."""
    found = _FAILURE.match(text.lstrip()[:8192])
    return _MARKERS[int(found.lastgroup[1:])][1] if found and found.lastgroup else None
