"""What wrappers of lmms-eval take is read from their source: misspelt arguments, and no GPU, are found at once."""

from __future__ import annotations

import pytest

from lmms_eval_ad2.harness import model_requirements
from lmms_eval_ad2.harness.model_requirements import faults
from lmms_eval_ad2.harness.wrapper_source import constructor_of

pytestmark = pytest.mark.integration


def about(text: str, name: str, arguments: str, **more: str | None) -> list[str]:
    return [fault for fault in faults(name, arguments, **more) if text in fault]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("qwen2_5_vl", "max_pixel=1", "did you mean 'max_pixels'?"),  # an inherited constructor, which asserts
        ("minicpm_v", "device_map=cpu", "did you mean 'device'?"),
        ("ad2_chance", "sed=1", "did you mean 'seed'?"),
        ("ad2_hf", "pretraned=x", "did you mean 'pretrained'?"),
    ],
)
def test_an_argument_that_a_constructor_refuses(name: str, arguments: str, expected: str) -> None:
    (line,) = about("unknown model argument", name, arguments)
    assert line.startswith(f"--model {name}: ") and line.endswith(expected)


@pytest.mark.parametrize("name", ["internvl_hf", "openai", "vllm", "ad2_swift"])
def test_constructors_that_accept_anything_refuse_nothing(name: str) -> None:
    assert not about("unknown model argument", name, "no_such=1,api_key=x")


def test_a_wrapper_that_uses_a_gpu_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_requirements, "torch_has_cuda", lambda: False)
    (line,) = about("no CUDA", "qwen2_5_vl", "pretrained=a/b", device=None)
    assert line.endswith("give --device cpu and device_map=cpu in --model_args")
    assert about("no CUDA", "qwen2_5_vl", "device_map=cpu", device=None)[0].endswith("give --device cpu")
    assert not about("no CUDA", "qwen2_5_vl", "device_map=cpu", device="cpu")
    assert not about("no CUDA", "qwen2_5_vl", ""), "without the option's value nothing is judged"
    assert not about("no CUDA", "ad2_hf", "pretrained=a/b", device=None)
    monkeypatch.setattr(model_requirements, "torch_has_cuda", lambda: True)
    assert not about("no CUDA", "qwen2_5_vl", "", device=None)


def test_the_constructor_of_every_wrapper_can_be_read_or_is_left_alone() -> None:
    from lmms_eval.models import MODEL_REGISTRY_V2 as registry

    paths = [registry.resolve(name).class_path for name in registry.list_canonical_model_ids()]
    assert sum(constructor_of(path) is not None for path in paths) > 100
