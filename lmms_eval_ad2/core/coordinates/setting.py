"""The frame as a user writes it: `pixel`, ..., or `model_input` with the numbers that determine the model's size."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from lmms_eval_ad2.core.coordinates.frames import FRAMES, Frame
from lmms_eval_ad2.core.coordinates.model_input import InputResizing
from lmms_eval_ad2.core.errors import Ad2Error

ENV = "AD2_FRAME"
_LIMITS = ("max_pixels", "min_pixels", "patch_size", "merge_size")
_FIXED = ("width", "height")
HINT = "model_input:max_pixels=N[,min_pixels=N][,patch_size=N][,merge_size=N], or model_input:width=N,height=N"


@dataclass(frozen=True, slots=True)
class FrameSetting:
    """A frame, and for "model_input" the resizing if the user named it (otherwise it is taken from the model)."""

    frame: Frame = "auto"
    resizing: InputResizing | None = None

    @classmethod
    def parse(cls, text: object, where: str) -> FrameSetting:
        """Read `text`; raises Ad2Error with the allowed forms for any other text. `where`: the option, for errors."""
        name, _, more = str(text).partition(":")
        frame = next((known for known in FRAMES if known == name), None)
        if frame is None:
            near = difflib.get_close_matches(name, FRAMES, 1)
            hint = f"; did you mean '{near[0]}'?" if near else f"; expected one of {', '.join(FRAMES)}"
            raise Ad2Error(f"{where}: no coordinate frame '{str(text)[:80]}'{hint}")
        if not more:
            if str(text).endswith(":"):
                raise Ad2Error(f"{where}: '{text}' ends after the colon; expected {HINT}")
            return cls(frame)
        if frame != "model_input":
            raise Ad2Error(f"{where}: '{frame}' takes no arguments; only model_input does: {HINT}")
        return cls(frame, _resizing(more, where))


def _resizing(text: str, where: str) -> InputResizing:
    given: dict[str, int] = {}
    for pair in text.split(","):
        key, _, value = (part.strip() for part in pair.partition("="))
        if key not in (*_LIMITS, *_FIXED):
            near = difflib.get_close_matches(key, (*_LIMITS, *_FIXED), 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise Ad2Error(f"{where}: model_input has no '{key[:40]}'{hint}: {HINT}")
        if not re.fullmatch(r"[0-9]{1,9}", value) or not int(value):
            raise Ad2Error(f"{where}: model_input: {key} must be a whole number from 1, not '{value[:40]}'")
        given[key] = int(value)
    if set(given) == set(_FIXED):
        return InputResizing(fixed=(given["width"], given["height"]))
    if "max_pixels" not in given or set(given) & set(_FIXED):
        raise Ad2Error(f"{where}: model_input needs max_pixels, or width and height: {HINT}")
    if given.get("min_pixels", 1) > given["max_pixels"]:
        raise Ad2Error(f"{where}: model_input: min_pixels is above max_pixels")
    return InputResizing.of_limits(**given)
