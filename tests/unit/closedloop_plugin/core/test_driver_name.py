"""Names of drivers in tables."""

from __future__ import annotations

import pytest

from closedloop_plugin.core.driver_name import driver_name


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ({"name": "expert (privileged)"}, "expert (privileged)"),
        ({"name": "lmms:llava_hf", "model_args": "pretrained=/a/tiny-driver/,device=cpu"}, "lmms:llava_hf tiny-driver"),
        ({"name": "lmms:qwen2_5_vl", "model_args": "device=cpu,pretrained=Qwen/Qwen2.5-VL-7B-Instruct"},
         "lmms:qwen2_5_vl Qwen2.5-VL-7B-Instruct"),
        ({"name": "lmms:openai", "model_args": "model_version=gpt-4o"}, "lmms:openai gpt-4o"),
        ({"name": "lmms:mine", "model_args": ""}, "lmms:mine"),
        ({"name": "lmms:mine", "model_args": "object=0123,base_model=x"}, "lmms:mine"),
        ({}, ""),
    ],
)  # fmt: skip
def test_a_model_is_named_with_its_checkpoint(agent: dict[str, str], name: str) -> None:
    assert driver_name(agent) == name
