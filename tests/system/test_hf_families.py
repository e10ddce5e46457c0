"""ad2_hf answers as a plain `model.generate` of each family's own class does, alone and in a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.tiny_families import FAMILIES

from lmms_eval_ad2.harness.models.engine_model import GenerationSettings, ModelPrompt

pytestmark = pytest.mark.system

GREEDY = GenerationSettings(max_new_tokens=8)


def picture(angle: int) -> Image.Image:
    return Image.linear_gradient("L").resize((160, 90)).rotate(angle).convert("RGB")


QUESTIONS = [
    ModelPrompt("What is there?", (picture(0),)),
    ModelPrompt("The truck on the left lane slows down. Why does it, and what is to be done next?", (picture(60),)),
    ModelPrompt("Which of the two pictures is wet?", (picture(0), picture(90))),
]


def plain(folder: Path, question: ModelPrompt) -> str:
    """What the model cards show: class from the configuration, chat template, processor, `generate`."""
    import torch
    import transformers
    from transformers import AutoConfig, AutoProcessor

    (name,) = AutoConfig.from_pretrained(folder).architectures
    model = getattr(transformers, name)
    loaded = model.from_pretrained(folder, dtype=torch.float32).eval()
    processor = AutoProcessor.from_pretrained(folder)
    if processor.chat_template:
        parts: list[dict[str, Any]] = [{"type": "image", "image": image} for image in question.images]
        messages = [{"role": "user", "content": [*parts, {"type": "text", "text": question.text}]}]
        inputs = processor.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
        )
    else:  # PaliGemma
        text = "<image>" * len(question.images) + question.text
        inputs = processor(images=[list(question.images)], text=[text], return_tensors="pt")
    tokens = loaded.generate(**inputs, max_new_tokens=8, do_sample=False)
    return processor.tokenizer.decode(tokens[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_answers_as_its_plain_model(family: str, tmp_path: Path) -> None:
    from lmms_eval_ad2.harness.models.hf import HfModel

    folder = FAMILIES[family](tmp_path / family)
    template = "plain" if family == "paligemma" else ""
    model = HfModel(pretrained=str(folder), batch_size=3, dtype="float32", chat_template=template)
    expected = [plain(folder, question) for question in QUESTIONS]
    assert len(set(expected)) > 1, "the same text to everything"
    assert [model._engine.generate([q], GREEDY)[0] for q in QUESTIONS] == expected, "alone"
    other = ModelPrompt(QUESTIONS[0].text, (picture(90),))
    assert model._engine.generate([other], GREEDY) != expected[:1], "the picture does not reach the model"
    # Not through `generate`, which would repeat a failing batch one by one.
    assert model._engine._answers(QUESTIONS, GREEDY) == expected, "in a batch"
