"""The size of an image after the model's own resizing, for models that answer in pixels of that size (Qwen2.5-VL).

Such a model's processor scales an image so that both sides are multiples of a factor (patch size x merge size) and the
area lies between two limits ("smart resize"). A wrapper may resize before the processor does, so that a description is
a sequence of steps. It holds numbers only: a finished run can be scored again without the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.numbers import is_whole

Size = tuple[int, int]  # width, height

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
