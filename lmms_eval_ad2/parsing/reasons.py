"""Why a text could not be read: every code that `Unparsed.reason` may carry, with what it means.

The codes stand in result files and tables, so they stay as they are once published.
"""

from __future__ import annotations

import re

# lmms-eval (and some of its models) writes these in place of an answer when none was had.
FAILURES: dict[str, str] = {
    "request_failed": "the request to the model failed",
    "budget_exceeded": "the token budget of the run was spent",
    "safety_blocked": "the provider blocked the reply",
    "generation_failed": "the model raised an error",
    "media_failed": "the model could not load the media",
}

REASONS: dict[str, str] = {
    **FAILURES,
    "empty": "nothing was said",
    "unfinished_thought": "the text ends while the model still thinks",
    "refusal": "the model declined",
    "no_verdict": "no explicit answer",
    "hedged": "the model left it open",
    "several": "more than one answer at once",
    "contradiction": "the letter and the option's text beside it disagree",
    "not_offered": "an answer that was not among those offered",
    "range": "a range or a bound where one number was asked",
    "not_a_count": "a number that counts nothing (negative, fractional)",
    "too_many_numbers": "more numbers than the form has room for, none marked as the answer",
    "malformed": "numbers or brackets that do not make the form asked",
    "point_for_box": "a point where a box was asked",
    "several_points": "several points, none marked as the answer",
    "several_boxes": "several boxes, none marked as the answer",
    "no_image_size": "proportional coordinates, and no image size to scale them by",
    "no_tags": "no step tags in a chain of thought",
}

_MARKERS: tuple[tuple[str, str], ...] = (
    (r"\[LMMS_EVAL_REQUEST_FAILED\b", "request_failed"),
    (r"\[LMMS_EVAL_BUDGET_EXCEEDED\]", "budget_exceeded"),
    (r"\[SAFETY_BLOCKED\b", "safety_blocked"),
    (r"\[GENERATION_FAILED\]", "generation_failed"),
    (r"\[ERROR\]", "generation_failed"),
    (r"\[AD2_MEDIA_FAILED\]", "media_failed"),  # ours: a broken image costs its own samples, not the run
    # async_openai: a reply without content
    (r"(?:Error: )?can only concatenate str \(not \"NoneType\"\) to str\s*\Z", "generation_failed"),
    # oryx, llava_vid: the whole answer is this one line
    (r"Video [^\n]{0,4096} (?:can not load|generate failed), check the source\s*\Z", "media_failed"),
)
_FAILURE = re.compile("|".join(f"(?P<m{i}>{pattern})" for i, (pattern, _) in enumerate(_MARKERS)))


def failure_reason(text: str) -> str | None:
    """The code of failure text that lmms-eval 0.7.3 wrote in place of an answer; None for an answer."""
    found = _FAILURE.match(text.lstrip()[:8192])
    return _MARKERS[int(found.lastgroup[1:])][1] if found and found.lastgroup else None
