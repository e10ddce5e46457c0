"""Coordinate frames of points and boxes: units of the numbers, and the size of the image that a model sees.

Some models answer in pixels of the image after their own resizing (Qwen2.5-VL). Their processor scales an image so that
both sides are multiples of a factor (patch size x merge size) and the area lies between two limits ("smart resize"). A
wrapper may resize before the processor does, so that a description is a sequence of steps. It holds numbers only: a
finished run can be scored again without the model.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.numbers import is_number, is_whole

Size = tuple[int, int]  # width, height

Frame = Literal["auto", "pixel", "unit", "percent", "thousand", "thousand_yx", "model_input"]
FRAMES: tuple[Frame, ...] = get_args(Frame)

# Length of the image's width and height in a proportional frame.
EXTENTS: dict[Frame, float] = {"unit": 1.0, "percent": 100.0, "thousand": 1000.0, "thousand_yx": 1000.0}


def to_pixels(
    values: Sequence[float], frame: Frame, size: Size | None, model_input: Size | None = None
) -> tuple[float, ...] | None:
    """Convert alternating x, y (thousand_yx: y, x) to x, y in pixels of the stored image.

    size: (width, height) of the stored image; model_input: of the image as the model sees it. None if the frame needs
    a size that is not given.
    """
    if frame == "thousand_yx":
        values = swapped(values)
    if frame in ("pixel", "auto"):
        return tuple(values)
    extent = model_input if frame == "model_input" else (EXTENTS[frame],) * 2
    if size is None or extent is None:
        return None
    return tuple(value / extent[axis % 2] * size[axis % 2] for axis, value in enumerate(values))


def from_pixels(
    pixels: Sequence[float], frame: Frame, size: Size | None, model_input: Size | None = None
) -> tuple[float, ...] | None:
    """The inverse of `to_pixels`: alternating x, y in pixels of the stored image to `frame`."""
    if frame in ("pixel", "auto"):
        return tuple(pixels)
    extent = model_input if frame == "model_input" else (EXTENTS[frame],) * 2
    if size is None or extent is None:
        return None
    values = tuple(value * extent[axis % 2] / size[axis % 2] for axis, value in enumerate(pixels))
    return swapped(values) if frame == "thousand_yx" else values


def swapped(values: Sequence[float]) -> tuple[float, ...]:
    """Exchange the two axes: (y, x) to (x, y) and back, for any number of points in a row."""
    return tuple(values[index ^ 1] for index in range(len(values)))


# The functions of transformers and qwen_vl_utils refuse a larger ratio of the sides.
MAX_RATIO = 200
# Defaults of the Qwen-VL family: patches of 14 pixels, merged two by two, at least four of these per image.
PATCH_SIZE, MERGE_SIZE, LEAST_TOKENS = 14, 2, 4


@dataclass(frozen=True, slots=True)
class ResizeStep:
    """One smart resize: sides are rounded to multiples of `factor`, the area is kept within the limits (in pixels)."""

    factor: int
    min_pixels: int
    max_pixels: int

    def apply(self, size: Size) -> Size | None:
        """The size after this step; None for an image that the processor refuses.

        As `smart_resize` in transformers (models/qwen2_vl/image_processing_qwen2_vl.py) and in qwen_vl_utils.
        """
        width, height = size
        if min(size) < 1 or max(size) > MAX_RATIO * min(size):
            return None
        new = [max(self.factor, round(side / self.factor) * self.factor) for side in (width, height)]
        area = new[0] * new[1]
        if area > self.max_pixels:
            beta = math.sqrt(height * width / self.max_pixels)
            new = [max(self.factor, math.floor(s / beta / self.factor) * self.factor) for s in (width, height)]
        elif area < self.min_pixels:
            beta = math.sqrt(self.min_pixels / (height * width))
            new = [math.ceil(s * beta / self.factor) * self.factor for s in (width, height)]
        return new[0], new[1]


@dataclass(frozen=True, slots=True)
class InputResizing:
    """How a model resizes an image: steps in order (none: not at all), or one size for every image (`fixed`)."""

    steps: tuple[ResizeStep, ...] = ()
    fixed: Size | None = None

    def size_of(self, image: Size | None) -> Size | None:
        """(width, height) of the image as the model sees it; None if the stored size is not known or is refused."""
        if self.fixed is not None:
            return self.fixed
        size = image
        for step in self.steps:
            size = step.apply(size) if size is not None else None
        return size

    @classmethod
    def of_limits(
        cls, max_pixels: int, min_pixels: int | None = None, patch_size: int = PATCH_SIZE, merge_size: int = MERGE_SIZE
    ) -> InputResizing:
        """A single smart resize with the given limits; `min_pixels` defaults to four merged patches."""
        factor = patch_size * merge_size
        return cls((ResizeStep(factor, min_pixels or LEAST_TOKENS * factor**2, max_pixels),))

    def to_json(self) -> dict[str, Any]:
        return {"fixed": list(self.fixed)} if self.fixed else {"steps": [asdict(step) for step in self.steps]}

    @classmethod
    def from_json(cls, data: Any, where: str) -> InputResizing | None:
        """Read the output of `to_json`; None for None. Raises Ad2Error for anything else; `where`: the file."""
        if data is None:
            return None
        if isinstance(data, Mapping) and _is_size(data.get("fixed")):
            return cls(fixed=(data["fixed"][0], data["fixed"][1]))
        steps = data.get("steps") if isinstance(data, Mapping) else None
        names = ResizeStep.__slots__
        if isinstance(steps, list) and all(_is_step(step, names) for step in steps):
            return cls(tuple(ResizeStep(*(step[name] for name in names)) for step in steps))
        raise Ad2Error(
            f"{where}: field 'model_input': expected null, {{fixed: [width, height]}} or "
            f"{{steps: [{{{', '.join(names)}}}, ...]}} with whole numbers, found {str(data)[:80]}; name the size: "
            "--frame model_input:max_pixels=..."
        )


def _is_size(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(is_whole(side, low=1) for side in value)


def _is_step(value: Any, names: tuple[str, ...]) -> bool:
    return isinstance(value, Mapping) and all(is_whole(value.get(name), low=1) for name in names)


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


# Means, in percent: a warning if the used frame is below the first and another one above the second. An IoU is near 0
# for unrelated boxes. The location score is not: on 1920 x 1080, random points have 25, and 0..1000 read as pixels 37.
LIMITS: dict[str, tuple[float, float]] = {"box": (10.0, 40.0), "point": (50.0, 70.0)}
LEAST = 3  # replies: fewer may agree with another frame by accident


def misfit_warnings(blocks: Mapping[str, Any], run: str = "RUN") -> list[str]:
    """One line for each task whose replies fit another frame much better; no score is changed.

    blocks: task -> the block `coordinates` of its table (docs/architecture.md), which others may have written. run: the
    folder named in the command.
    """
    lines = []
    for task, block in blocks.items():
        by_frame: dict[str, list[str]] = {}
        for form, n, mean, other, better in _misfits(block):
            plural = "boxes" if form == "box" else "points"
            by_frame.setdefault(other, []).append(f"{n} {plural} score {mean:.1f}, but {better:.1f} in '{other}'")
        lines += [
            f"{task}: in the coordinate frame '{block['frame']}' {' and '.join(parts)}; if that is the model's frame: "
            f"ad2 rescore {run} --frame {other} (no score has been changed)"
            for other, parts in by_frame.items()
        ]
    return lines


def _misfits(block: Any) -> Iterator[tuple[str, int, float, str, float]]:
    """(form, n, mean, best frame, its mean) of a block `coordinates`; other structures give none."""
    if not isinstance(block, Mapping) or not isinstance(block.get("by_frame"), Mapping):
        return
    frame = str(block.get("frame"))
    for form, cell in block["by_frame"].items():
        if form not in LIMITS or not isinstance(cell, Mapping) or not isinstance(cell.get("scores"), Mapping):
            continue
        scores = {str(name): value for name, value in cell["scores"].items() if is_number(value)}
        mean, n = scores.get(frame.partition(":")[0]), cell.get("n")
        if mean is None or not is_whole(n, low=LEAST):
            continue
        other = max(scores, key=lambda name: scores[name])
        if mean < LIMITS[form][0] and scores[other] > LIMITS[form][1]:
            yield form, n, mean, other, scores[other]
