"""Parse a chain of thought: one reply `<start1>…<end> … <startN>…<end>` (AD2-Bench section 3.2), or one per step."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lmms_eval_ad2.core.records import Answer, Unparsed
from lmms_eval_ad2.parsing.refusals import declines
from lmms_eval_ad2.parsing.wrappers import unwrap

_START = re.compile(r"[<＜〈《]\s{0,4}start[\s_-]{0,4}(?P<number>\d{1,2})\s{0,4}[>＞〉》]", re.IGNORECASE)
_END = re.compile(r"[<＜〈《]\s{0,4}(?:/?\s{0,4}end|/\s{0,4}start)[\s_-]{0,4}\d{0,2}\s{0,4}[>＞〉》]", re.IGNORECASE)


def read_chain(text: str, n_steps: int) -> Answer | Unparsed:
    """One string per step, "" for a missing step. If `n_steps` is 0, the highest step number is the length.

    A step ends at its end tag, or at the next start tag if that is missing. Of two steps with the same number the later
    one is used. Steps beyond `n_steps` are left out and listed in the note.
    """
    starts = list(_START.finditer(text))
    if not starts:
        return Unparsed("chain", "refusal" if declines(text) else "no_tags", text[:200])
    steps: dict[int, str] = {}
    for index, start in enumerate(starts):
        stop = starts[index + 1].start() if index + 1 < len(starts) else len(text)
        end = _END.search(text, start.end(), stop)
        steps[int(start["number"])] = text[start.end() : end.start() if end else stop].strip()
    count = n_steps or max(steps)
    values = tuple(steps.get(number, "") for number in range(1, count + 1))
    if not any(values):
        return Unparsed("chain", "empty", text[:200])
    extra = sorted(number for number in steps if not 1 <= number <= count)
    notes = [*_missing(values), *([f"extra steps: {', '.join(map(str, extra))}"] if extra else [])]
    return Answer("chain", values, "; ".join(notes))


def read_step_replies(replies: Sequence[str]) -> Answer | Unparsed:
    """One string per step, from a reply to each, without thoughts and special tokens; "" if only a thought is left."""
    found = [unwrap(reply) for reply in replies]
    texts = tuple(text for text, _ in found)
    if not any(texts):
        return Unparsed("chain", "unfinished_thought" if any(unfinished for _, unfinished in found) else "empty")
    return Answer("chain", texts, "; ".join(["rounds", *_missing(texts)]))


def _missing(steps: Sequence[str]) -> list[str]:
    """The note on steps without text."""
    numbers = [str(number) for number, text in enumerate(steps, 1) if not text]
    return [f"missing steps: {', '.join(numbers)}"] if numbers else []
