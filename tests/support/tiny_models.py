"""A tiny Qwen2.5-VL, Qwen3-VL and LLaVA-1.5 with random weights: real wrappers, engines and trainers run on them in
seconds, offline.

Their output is meaningless. Tokenizer, chat template, image processor and weights are all generated here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import (
        LlavaConfig,
        PreTrainedTokenizerFast,
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2Tokenizer,
        Qwen3VLConfig,
        Qwen3VLForConditionalGeneration,
    )

PIXELS = {"min_pixels": 28 * 28 * 4, "max_pixels": 28 * 28 * 16}  # 4 to 16 image tokens
SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
# The ids of the Qwen family, since the image token's id is hard-coded in ms-swift. Smaller ids are unused.
IDS = {token: number for number, token in enumerate(SPECIAL, 151_643)}
LLAVA_SPECIAL = ("<unk>", "<s>", "</s>", "<image>", "<pad>")
SIDE = 28  # pixels of the tiny LLaVA's pictures: four patches
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
LLAVA_CHAT_TEMPLATE = """\
{%- for message in messages -%}
{{ message.role | upper }}: {% if message.content is string -%}{{ message.content }}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' -%}<image>
{% else -%}{{ part.text }}
{%- endif -%}
{%- endfor -%}
{%- endif %} {% endfor -%}
{%- if add_generation_prompt -%}ASSISTANT:{% endif -%}
"""


@pytest.fixture(scope="session")
def tiny_qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder, made once a session; for test modules with `pytest_plugins = ("support.tiny_models",)`."""
    return make_tiny_qwen2_5_vl(tmp_path_factory.mktemp("tiny_qwen2_5_vl"))


@pytest.fixture(scope="session")
def tiny_llava(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Like `tiny_qwen`, for LLaVA-1.5."""
    return make_tiny_llava(tmp_path_factory.mktemp("tiny_llava1_5"))


def make_tiny_qwen2_5_vl(folder: Path) -> Path:
    """Save model, tokenizer and processor into `folder` (20 MB); in the usual checkpoint format."""
    import torch
    from transformers import (
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

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


def make_tiny_qwen3_vl(folder: Path) -> Path:
    """Save a Qwen3-VL of the same kind into `folder` (20 MB): patches of 16, one layer of deepstack."""
    import torch
    from transformers import (
        Qwen2VLImageProcessor,
        Qwen3VLForConditionalGeneration,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    tokenizer = _tokenizer()
    pixels = {**PIXELS, "patch_size": 16, "temporal_patch_size": 2, "merge_size": 2}
    processor = Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(**pixels),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(patch_size=16, temporal_patch_size=2, merge_size=2),
        chat_template=CHAT_TEMPLATE,
    )
    processor.save_pretrained(folder)
    torch.manual_seed(0)
    model = Qwen3VLForConditionalGeneration(_qwen3_config()).to(torch.bfloat16)
    _silence_empty_ids(model, sorted(tokenizer.get_vocab().values()))
    model.generation_config.eos_token_id = [IDS["<|im_end|>"], IDS["<|endoftext|>"]]
    model.generation_config.pad_token_id = IDS["<|endoftext|>"]
    model.save_pretrained(folder)
    return folder


def make_tiny_llava(folder: Path) -> Path:
    """Save a LLaVA-1.5 of the same kind into `folder` (1 MB): CLIP tower, projector, two layers of Llama."""
    import torch
    from tokenizers import decoders
    from transformers import (
        CLIPImageProcessor,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        PreTrainedTokenizerFast,
    )

    bpe = _bytes_bpe(LLAVA_SPECIAL)
    bpe.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<pad>",
        extra_special_tokens={"image_token": "<image>"}, model_max_length=2048,
    )  # fmt: skip
    pixels = {"size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessor(**pixels), tokenizer=tokenizer, patch_size=14,
        vision_feature_select_strategy="default", num_additional_image_tokens=1, chat_template=LLAVA_CHAT_TEMPLATE,
    )  # fmt: skip
    processor.save_pretrained(folder)
    torch.manual_seed(0)
    model = LlavaForConditionalGeneration(_llava_config(tokenizer)).to(torch.bfloat16)
    model.save_pretrained(folder)
    return folder


def _bytes_bpe(special: Sequence[str] = ()) -> Tokenizer:
    """Byte-level BPE over two sentences."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in special],
    )  # fmt: skip
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def _tokenizer() -> Qwen2Tokenizer:
    """The byte-level BPE with the special tokens of the Qwen family."""
    from tokenizers import AddedToken
    from transformers import Qwen2Tokenizer

    learnt = json.loads(_bytes_bpe().to_str())["model"]
    made = Qwen2Tokenizer(
        vocab={**learnt["vocab"], **IDS}, merges=[tuple(m) for m in learnt["merges"]],
        unk_token=None, eos_token="<|im_end|>", pad_token="<|endoftext|>",
        extra_special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL],
    )  # fmt: skip
    made.model_max_length = 8192
    return made


def _silence_empty_ids(
    model: Qwen2_5_VLForConditionalGeneration | Qwen3VLForConditionalGeneration, used: list[int]
) -> None:
    """Logit 0 for ids without a token: with hundreds of random others it is never the largest."""
    weight = model.lm_head.weight.data
    kept = weight[used].clone()
    weight.zero_()
    weight[used] = kept


def _config() -> Qwen2_5_VLConfig:
    from transformers import Qwen2_5_VLConfig

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


def _qwen3_config() -> Qwen3VLConfig:
    from transformers import Qwen3VLConfig

    return Qwen3VLConfig(
        text_config={
            "vocab_size": 151_664, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 8192,
            "rope_scaling": {"rope_type": "default", "mrope_section": [4, 2, 2], "mrope_interleaved": True},
            "initializer_range": 0.2, "bos_token_id": IDS["<|endoftext|>"], "eos_token_id": IDS["<|im_end|>"],
        },
        vision_config={
            "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 32,
            "patch_size": 16, "num_position_embeddings": 64, "deepstack_visual_indexes": [0],
            "initializer_range": 0.2,
        },
        image_token_id=IDS["<|image_pad|>"], video_token_id=IDS["<|video_pad|>"],
        vision_start_token_id=IDS["<|vision_start|>"], vision_end_token_id=IDS["<|vision_end|>"],
        tie_word_embeddings=False,
    )  # fmt: skip


def _llava_config(tokenizer: PreTrainedTokenizerFast) -> LlavaConfig:
    from transformers import LlavaConfig

    layers = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32, "intermediate_size": 64}
    return LlavaConfig(
        text_config={
            **layers, "model_type": "llama", "vocab_size": len(tokenizer), "max_position_embeddings": 2048,
            "initializer_range": 0.2, "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={
            **layers, "model_type": "clip_vision_model", "image_size": SIDE, "patch_size": 14, "projection_dim": 32,
        },
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"), image_seq_length=(SIDE // 14) ** 2,
        vision_feature_select_strategy="default", vision_feature_layer=-2, initializer_range=0.2,
    )  # fmt: skip
