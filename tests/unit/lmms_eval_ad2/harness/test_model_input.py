"""The resizing of a loaded model: wrappers by their module, real processors without weights."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from lmms_eval_ad2.core.coordinates import InputResizing, ResizeStep
from lmms_eval_ad2.harness.model_input import of_arguments, of_model, processor_step

pytestmark = pytest.mark.integration  # loads transformers

SIZES = [(1920, 1080), (1600, 900), (333, 777)]


def loaded(module: str, **attributes: Any) -> Any:
    """A model of a class that is defined in `module` of lmms-eval."""
    return type("Model", (), {"__module__": f"lmms_eval.models.{module}"} | attributes)()


def processor(**limits: int) -> Any:
    images = pytest.importorskip("transformers").Qwen2VLImageProcessor(**limits)
    return SimpleNamespace(image_processor=images)


@pytest.mark.parametrize(
    ("module", "limits"), [("chat.qwen3_vl", {}), ("simple.qwen3_vl", {"min_pixels": 200_704, "max_pixels": 1_605_632})]
)
def test_qwen3_vl_is_resized_by_qwen_vl_utils_alone(module: str, limits: dict[str, int]) -> None:
    vision = pytest.importorskip("qwen_vl_utils.vision_process")
    resizing = of_model(loaded(module, processor=processor(patch_size=16), **limits))
    assert resizing is not None
    for size in SIZES:
        real = vision.fetch_image({"image": Image.new("RGB", size), **limits}, image_patch_size=16)
        assert resizing.size_of(size) == real.size


def test_a_subclass_of_a_wrapper_is_resized_as_the_wrapper() -> None:
    base = type(loaded("chat.qwen3_vl"))
    derived = type("Derived", (base,), {"__module__": "elsewhere", "processor": processor(patch_size=16)})()
    assert of_model(derived) == of_model(loaded("chat.qwen3_vl", processor=processor(patch_size=16)))


def test_a_model_of_ours_states_its_resizing() -> None:
    assert of_model(SimpleNamespace(input_resizing=InputResizing())) == InputResizing()


@pytest.mark.parametrize(
    "model",
    [
        SimpleNamespace(),
        SimpleNamespace(input_resizing=None),
        loaded("chat.openai"),
        loaded("chat.qwen2_5_vl"),
        loaded("chat.qwen2_5_vl", processor=SimpleNamespace(image_processor=object())),
    ],
)
def test_an_unknown_resizing_is_not_guessed(model: Any) -> None:
    assert of_model(model) is None


def test_processors_that_crop_or_tile_or_do_not_resize_are_not_known() -> None:
    transformers = pytest.importorskip("transformers")
    assert processor_step(transformers.CLIPImageProcessor()) is None
    assert processor_step(processor(do_resize=False)) is None
    assert processor_step(None) is None
    broken = type("Qwen2VLImageProcessor", (), {"patch_size": 14, "merge_size": 2, "size": {"shortest_edge": None}})()
    assert processor_step(broken) is None


def test_arguments_of_a_finished_run() -> None:
    got = of_arguments("qwen2_vl", {"pretrained": "x"})
    assert got == InputResizing((ResizeStep(28, 3136, 602_112),) * 2)
    assert of_arguments("openai", {"max_pixels": "9"}) is None
    assert of_arguments("qwen2_5_vl", {"max_pixels": "many"}) is None
