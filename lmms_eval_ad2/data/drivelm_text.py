"""Parse DriveLM's notations in text: lettered options, object tags (`<c1,CAM_BACK,1088.3,497.5>`), ego behaviour.

Format: OpenDriveLab/DriveLM, `challenge/`. Text is untrusted: the patterns run in linear time, and text that does not
match the notation is ignored.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_CUE = re.compile(r"\boptions?(?: are| is)?\s?:", re.IGNORECASE)
# "A. text", "A) text", "A: text", "(A) text"; the letter must start the text or follow a space.
_MARKER = re.compile(r"(?:(?<=\s)|^)(\(?)([A-Z])([.):])(?=\s)")
_NUMBER = r"(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)"
_TAG = re.compile(rf"<\s?([A-Za-z]\w{{0,15}})\s?,\s?(CAM_\w{{1,32}})\s?,\s?{_NUMBER}\s?,\s?{_NUMBER}\s?>", re.ASCII)
# The closed vocabulary of the behaviour questions; a longer phrase precedes the phrase that it contains.
_STEERING = re.compile(r"\b(?:(?:slightly )?steering to the (?:left|right)|going straight)\b")
_SPEED = re.compile(r"\b(?:not moving|driving (?:slowly|with normal speed|very fast|fast))\b")
_DENIED = re.compile(r"(?:\b(?:not|never|neither|nor|without)|n't)(?: be| been| being)? $")


class ObjectTag(NamedTuple):
    """An object in a text: `x`, `y` is its centre in pixels of the camera's 1600x900 image, origin top left."""

    id: str
    camera: str
    x: float
    y: float


def read_options(question: str) -> dict[str, str]:
    """The lettered options of `question` in order: letter -> text (as written, trimmed).

    Letters must be A, B, C, ... with the same style of marker; otherwise, or for fewer than two options, the result is
    {}. If the question introduces its options ("... options:"), only the text after that is parsed.
    """
    start = max((cue.end() for cue in _CUE.finditer(question)), default=0)
    styles: dict[str, list[re.Match[str]]] = {}
    for marker in _MARKER.finditer(question, start):
        styles.setdefault(marker[1] + marker[3], []).append(marker)
    runs = [_run(markers) for markers in styles.values()]
    longest = max(runs, key=len, default=[])
    return _texts(question, longest) if len(longest) >= 2 else {}


def _run(markers: list[re.Match[str]]) -> list[re.Match[str]]:
    """The markers A, B, C, ... among `markers`: the last A before the first B, then the first of each letter."""
    run: list[re.Match[str]] = []
    for marker in markers:
        if marker[2] == "A" and len(run) <= 1:
            run = [marker]
        elif run and ord(marker[2]) == ord(run[-1][2]) + 1:
            run.append(marker)
    return run


def _texts(question: str, run: list[re.Match[str]]) -> dict[str, str]:
    """The text after each marker; {} if one is empty, since these are then not options."""
    ends = [marker.start() for marker in run[1:]] + [len(question)]
    texts = {marker[2]: question[marker.end() : end].strip() for marker, end in zip(run, ends, strict=True)}
    # A blank line ends the last option: the text after it is an instruction.
    last = run[-1][2]
    texts[last] = re.split(r"\n\s*\n", texts[last], maxsplit=1)[0].strip()
    return texts if all(texts.values()) else {}


def read_tags(text: str) -> list[ObjectTag]:
    """Every well-formed object tag in `text`, in order, with repetitions."""
    tags = (ObjectTag(m[1], m[2], float(m[3]), float(m[4])) for m in _TAG.finditer(text))
    return [tag for tag in tags if math.isfinite(tag.x) and math.isfinite(tag.y)]


def read_behavior(text: str) -> tuple[str, str] | None:
    """The ego vehicle's (steering, speed) in DriveLM's vocabulary, in any order and phrasing.

    None unless `text` has exactly one of each and neither is negated.
    """
    flat = " ".join(text.lower().split())
    found = []
    for pattern in (_STEERING, _SPEED):
        hits = list(pattern.finditer(flat))
        if len({hit[0] for hit in hits}) != 1 or any(
            _DENIED.search(flat[max(0, hit.start() - 20) : hit.start()]) for hit in hits
        ):
            return None
        found.append(hits[0][0])
    return found[0], found[1]
