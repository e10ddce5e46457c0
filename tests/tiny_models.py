"""A tiny Qwen2.5-VL with random weights, built on the spot: real wrappers and engines run on it in seconds, offline.

What it says means nothing. Tokenizer, chat template, image processor and weights are all made here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2Tokenizer,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

PIXELS = {"min_pixels": 28 * 28 * 4, "max_pixels": 28 * 28 * 16}  # 4 to 16 image tokens
SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
# The family's own ids: ms-swift has the image token's written down. The ids below stay empty.
IDS = {token: number for number, token in enumerate(SPECIAL, 151_643)}
CORPUS = (
    "The truck on the left lane slows down because the road is wet and the light is red.",
    "Answer with the letter of the right option: A, B, C, D, E or F. yes no 0 1 2 3 4 5 6 7 8 9",
)
CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string -%}{{ message.content }}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' -%}<|vision_start|><|image_pad|><|vision_end|>
{%- elif part.type == 'video' -%}<|vision_start|><|video_pad|><|vision_end|>
{%- else -%}{{ part.text }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
"""


@pytest.fixture(scope="session")
def tiny_qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder, made once a session; for test modules with `pytest_plugins = ("tiny_models",)`."""
    return make_tiny_qwen2_5_vl(tmp_path_factory.mktemp("tiny_qwen2_5_vl"))


def make_tiny_qwen2_5_vl(folder: Path) -> Path:
    """Save model, tokenizer and processor into `folder` (20 MB); loads as any checkpoint does."""
    tokenizer = _tokenizer()
    pixels = {**PIXELS, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2}
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(**pixels),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(**pixels),
        chat_template=CHAT_TEMPLATE,
    )
    processor.save_pretrained(folder)
    torch.manual_seed(0)
    model = Qwen2_5_VLForConditionalGeneration(_config()).to(torch.bfloat16)
    _silence_empty_ids(model, sorted(tokenizer.get_vocab().values()))
    model.generation_config.eos_token_id = [IDS["<|im_end|>"], IDS["<|endoftext|>"]]
    model.generation_config.pad_token_id = IDS["<|endoftext|>"]
    model.save_pretrained(folder)
    return folder


def _tokenizer() -> Qwen2Tokenizer:
    """Byte-level BPE over two sentences, with the special tokens of the family."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    learnt = json.loads(tokenizer.to_str())["model"]
    made = Qwen2Tokenizer(
        vocab={**learnt["vocab"], **IDS}, merges=[tuple(m) for m in learnt["merges"]],
        unk_token=None, eos_token="<|im_end|>", pad_token="<|endoftext|>",
        extra_special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL],
    )  # fmt: skip
    made.model_max_length = 8192
    return made


def _silence_empty_ids(model: Qwen2_5_VLForConditionalGeneration, used: list[int]) -> None:
    """Logit 0 for ids without a token: with hundreds of random others it is never the largest."""
    weight = model.lm_head.weight.data
    kept = weight[used].clone()
    weight.zero_()
    weight[used] = kept


def _config() -> Qwen2_5_VLConfig:
    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": 151_664, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 8192,
            "rope_scaling": {"type": "default", "rope_type": "default", "mrope_section": [2, 3, 3]},
            "tie_word_embeddings": False, "initializer_range": 0.2,
            "bos_token_id": IDS["<|endoftext|>"], "eos_token_id": IDS["<|im_end|>"],
        },
        vision_config={
            "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 32,
            "fullatt_block_indexes": [1], "window_size": 56, "patch_size": 14,
        },
        image_token_id=IDS["<|image_pad|>"], video_token_id=IDS["<|video_pad|>"],
        vision_start_token_id=IDS["<|vision_start|>"], vision_end_token_id=IDS["<|vision_end|>"],
        vision_token_id=IDS["<|vision_pad|>"], tie_word_embeddings=False, initializer_range=0.2,
    )  # fmt: skip
