"""How a model under evaluation resizes images: from its loaded processor, or from the arguments of a finished run.

lmms-eval's Qwen wrappers resize in up to two steps: qwen_vl_utils (`process_vision_info`), then the processor of
transformers. The chat wrapper of Qwen2.5-VL passes its limits to the second step only, so that an image of 1920 x 1080
becomes 1932 x 1092 and then 1680 x 952, not 1680 x 924. Verified with the real wrappers by tests.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.coordinates import LEAST_TOKENS, MERGE_SIZE, InputResizing, ResizeStep

_PACKAGE = "lmms_eval.models."
_MOST_TOKENS = 16384  # the default limit of qwen_vl_utils for an image
# Processors that scale an image by smart resize, without crops or tiles.
_SMART = ("Qwen2VLImageProcessor", "Qwen2VLImageProcessorFast", "Qwen2VLImageProcessorPil")


@dataclass(frozen=True, slots=True)
class WrapperResizing:
    """The resizing of a wrapper of lmms-eval 0.7.3.

    patch_size: that it gives to qwen_vl_utils. limits_first: whether it passes its limits to qwen_vl_utils.
    then_processor: whether the processor resizes once more. defaults: its min_pixels and max_pixels.
    """

    patch_size: int
    limits_first: bool
    then_processor: bool
    defaults: tuple[int, int] = (256 * 28 * 28, 1_605_632)


WRAPPERS: dict[str, WrapperResizing] = {
    "chat.qwen2_5_vl": WrapperResizing(14, limits_first=False, then_processor=True),
    "simple.qwen2_5_vl": WrapperResizing(14, limits_first=True, then_processor=True),
    "simple.qwen2_vl": WrapperResizing(14, limits_first=True, then_processor=True, defaults=(3136, 602_112)),
    "chat.qwen3_vl": WrapperResizing(16, limits_first=False, then_processor=False),
    "simple.qwen3_vl": WrapperResizing(16, limits_first=True, then_processor=False),
}
# The wrapper that `--model NAME` loads: the chat one if there is one.
_BY_NAME = {"qwen2_5_vl": "chat.qwen2_5_vl", "qwen2_vl": "simple.qwen2_vl", "qwen3_vl": "chat.qwen3_vl"}


def of_model(model: Any) -> InputResizing | None:
    """The resizing of a loaded model; None if it is not known. Models of ours have an attribute `input_resizing`."""
    own = getattr(model, "input_resizing", None)
    if isinstance(own, InputResizing):
        return own
    step = processor_step(getattr(model, "processor", None))
    for base in type(model).__mro__:
        wrapper = WRAPPERS.get(base.__module__.removeprefix(_PACKAGE))
        if wrapper is not None:
            limits = getattr(model, "min_pixels", None), getattr(model, "max_pixels", None)
            return _steps(wrapper, limits, vision_utils_limits(), step) if step else None
    return None


def of_arguments(model: str, arguments: Mapping[str, str]) -> InputResizing | None:
    """The resizing of a finished run that does not record it, from --model and --model_args; None if not known."""
    wrapper = WRAPPERS.get(_BY_NAME.get(model, ""))
    if wrapper is None:
        return None
    try:
        low = int(arguments.get("min_pixels", wrapper.defaults[0]))
        high = int(arguments.get("max_pixels", wrapper.defaults[1]))
    except ValueError:
        return None
    processor = ResizeStep(wrapper.patch_size * MERGE_SIZE, low, high)
    return _steps(wrapper, (low, high), (LEAST_TOKENS, _MOST_TOKENS), processor)


def _steps(
    wrapper: WrapperResizing, limits: tuple[Any, Any], tokens: tuple[int, int], processor: ResizeStep
) -> InputResizing:
    """`limits`: the wrapper's min_pixels and max_pixels; `tokens`: the limits of qwen_vl_utils, in merged patches."""
    factor = wrapper.patch_size * MERGE_SIZE
    low, high = (count * factor**2 for count in tokens)
    if wrapper.limits_first:
        low, high = int(limits[0] or low), int(limits[1] or high)
    first = ResizeStep(factor, low, high)
    return InputResizing((first, processor) if wrapper.then_processor else (first,))


def processor_step(processor: Any) -> ResizeStep | None:
    """The smart resize of a processor of transformers (or of its image processor); None for any other processor."""
    images = getattr(processor, "image_processor", processor)
    if not any(base.__name__ in _SMART for base in type(images).__mro__) or not getattr(images, "do_resize", True):
        return None
    try:
        factor = int(images.patch_size) * int(images.merge_size)
        return ResizeStep(factor, int(images.size["shortest_edge"]), int(images.size["longest_edge"]))
    except (AttributeError, KeyError, TypeError, ValueError):  # another structure than that of transformers 5
        return None


def vision_utils_limits() -> tuple[int, int]:
    """The limits of the installed qwen_vl_utils for an image, in merged patches; environment variables may set them."""
    try:
        module = importlib.import_module("qwen_vl_utils.vision_process")
    except ImportError:
        return LEAST_TOKENS, _MOST_TOKENS
    tokens = getattr(module, "IMAGE_MIN_TOKEN_NUM", None), getattr(module, "IMAGE_MAX_TOKEN_NUM", None)
    if None not in tokens:
        return int(tokens[0] or 0), int(tokens[1] or 0)
    factor = 28  # before 0.0.14: pixels, for patches of 14
    return (
        getattr(module, "MIN_PIXELS", LEAST_TOKENS * factor**2) // factor**2,
        getattr(module, "MAX_PIXELS", _MOST_TOKENS * factor**2) // factor**2,
    )
