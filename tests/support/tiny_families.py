"""Tiny random checkpoints of families of vision-language models, each saved as a user would find it on the Hub.

Sizes are as small as the classes allow. Their answers are meaningless, and depend on text and pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.tiny_models import _bytes_bpe, make_tiny_llava, make_tiny_qwen2_5_vl, make_tiny_qwen3_vl

TEXT = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 2048, "initializer_range": 0.2,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
VISION = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 14,
    "image_size": 28, "initializer_range": 0.2,
}  # fmt: skip
SQUARE = {"height": 28, "width": 28}


def template(image: str) -> str:
    """A chat template in which a picture is written as `image`."""
    return (
        "{%- for m in messages -%}{{ m.role | upper }}: {% if m.content is string -%}{{ m.content }}{%- else -%}"
        "{%- for part in m.content -%}{%- if part.type == 'image' -%}" + image + "{%- else -%}{{ part.text }}"
        "{%- endif -%}{%- endfor -%}{%- endif %} {% endfor -%}{%- if add_generation_prompt -%}ASSISTANT:{% endif -%}"
    )


def tokenizer(*special: str, **named: str) -> Any:
    """Byte-level BPE with <pad>, <s>, </s> as ids 0 to 2; `named`: attributes with a token of their own."""
    from tokenizers import decoders
    from transformers import PreTrainedTokenizerFast

    bpe = _bytes_bpe(tuple(dict.fromkeys(("<pad>", "<s>", "</s>", *special, *named.values()))))
    bpe.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", pad_token="<pad>", model_max_length=2048,
        extra_special_tokens=named,
    )  # fmt: skip


def save(folder: Path, model_class: Any, config: Any, processor: Any) -> Path:
    """Save a model with random weights and its processor."""
    import torch

    torch.manual_seed(0)
    model = model_class(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.2)  # at the usual 0.02, texts do not depend on the picture
    model.generation_config.eos_token_id = None  # a text of the full length: random weights may end at once
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def qwen2_vl(folder: Path) -> Path:
    import transformers as t

    words = tokenizer("<|vision_start|>", "<|vision_end|>", image_token="<|image_pad|>", video_token="<|video_pad|>")
    pixels = {"min_pixels": 3136, "max_pixels": 12544}
    processor = t.Qwen2VLProcessor(
        t.Qwen2VLImageProcessor(**pixels), words, t.Qwen2VLVideoProcessor(**pixels),
        chat_template=template("<|vision_start|><|image_pad|><|vision_end|>"),
    )  # fmt: skip
    ids = words.convert_tokens_to_ids
    config = t.Qwen2VLConfig(
        text_config={**TEXT, "vocab_size": len(words), "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}},
        vision_config={"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2},
        image_token_id=ids("<|image_pad|>"), video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"), vision_end_token_id=ids("<|vision_end|>"),
    )  # fmt: skip
    return save(folder, t.Qwen2VLForConditionalGeneration, config, processor)


def internvl(folder: Path) -> Path:
    import transformers as t

    words = tokenizer(
        start_image_token="<img>", end_image_token="</img>", context_image_token="<IMG_CONTEXT>",
        video_token="<video>",
    )  # fmt: skip
    processor = t.InternVLProcessor(
        t.GotOcr2ImageProcessor(size=SQUARE, crop_to_patches=False), words, t.InternVLVideoProcessor(size=SQUARE),
        image_seq_length=1, chat_template=template("<IMG_CONTEXT>\n"),
    )  # fmt: skip
    config = t.InternVLConfig(
        text_config={**TEXT, "model_type": "qwen2", "vocab_size": len(words)},
        vision_config={**VISION, "patch_size": [14, 14], "image_size": [28, 28]},
        image_token_id=words.convert_tokens_to_ids("<IMG_CONTEXT>"), image_seq_length=1,
    )  # fmt: skip
    return save(folder, t.InternVLForConditionalGeneration, config, processor)


def llava_onevision(folder: Path) -> Path:
    import transformers as t

    words = tokenizer(image_token="<image>", video_token="<video>")
    grid = [[28, 28], [28, 56], [56, 28]]
    processor = t.LlavaOnevisionProcessor(
        t.LlavaOnevisionImageProcessor(size=SQUARE, image_grid_pinpoints=grid), words,
        t.LlavaOnevisionVideoProcessor(size=SQUARE), num_image_tokens=4, vision_feature_select_strategy="full",
        chat_template=template("<image>\n"),
    )  # fmt: skip
    config = t.LlavaOnevisionConfig(
        text_config={**TEXT, "model_type": "qwen2", "vocab_size": len(words)},
        vision_config={**VISION, "model_type": "siglip_vision_model", "vision_use_head": False},
        image_token_index=words.convert_tokens_to_ids("<image>"),
        video_token_index=words.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=grid, vision_feature_layer=-1,
    )  # fmt: skip
    return save(folder, t.LlavaOnevisionForConditionalGeneration, config, processor)


def idefics3(folder: Path) -> Path:
    import transformers as t

    words = tokenizer(
        "<row_1_col_1>", "<end_of_utterance>", image_token="<image>", fake_image_token="<fake_token_around_image>",
        global_image_token="<global-img>", end_of_utterance_token="<end_of_utterance>",
    )  # fmt: skip
    edge = {"longest_edge": 28}
    processor = t.Idefics3Processor(
        t.Idefics3ImageProcessor(size=edge, max_image_size=edge, do_image_splitting=False), words, image_seq_len=1,
        chat_template=template("<image>"),
    )  # fmt: skip
    config = t.Idefics3Config(
        text_config={**TEXT, "model_type": "llama", "vocab_size": len(words) + 8},
        vision_config=VISION, scale_factor=2, image_token_id=words.convert_tokens_to_ids("<image>"), pad_token_id=0,
    )  # fmt: skip
    return save(folder, t.Idefics3ForConditionalGeneration, config, processor)


def paligemma(folder: Path) -> Path:
    """Without a chat template, as its checkpoints are."""
    import transformers as t

    words = tokenizer(image_token="<image>")
    pictures = t.SiglipImageProcessor(size=SQUARE)
    pictures.image_seq_length = 4
    processor = t.PaliGemmaProcessor(pictures, words)
    config = t.PaliGemmaConfig(
        text_config={**TEXT, "model_type": "gemma", "vocab_size": len(words)},
        vision_config={**VISION, "model_type": "siglip_vision_model", "vision_use_head": False, "projection_dim": 32},
        image_token_index=words.convert_tokens_to_ids("<image>"), projection_dim=32, hidden_size=32,
    )  # fmt: skip
    return save(folder, t.PaliGemmaForConditionalGeneration, config, processor)


def gemma3(folder: Path) -> Path:
    import transformers as t

    words = tokenizer(boi_token="<start_of_image>", eoi_token="<end_of_image>", image_token="<image_soft_token>")
    processor = t.Gemma3Processor(
        t.Gemma3ImageProcessor(size=SQUARE), words, image_seq_length=1, chat_template=template("<start_of_image>")
    )
    ids = words.convert_tokens_to_ids
    config = t.Gemma3Config(
        text_config={**TEXT, "vocab_size": len(words), "sliding_window": 64, "tie_word_embeddings": False},
        tie_word_embeddings=False,  # tied, the last token is repeated
        vision_config={**VISION, "vision_use_head": False}, mm_tokens_per_image=1,
        boi_token_index=ids("<start_of_image>"), eoi_token_index=ids("<end_of_image>"),
        image_token_index=ids("<image_soft_token>"), image_token_id=ids("<image_soft_token>"),
    )  # fmt: skip
    return save(folder, t.Gemma3ForConditionalGeneration, config, processor)


def glm4v(folder: Path) -> Path:
    import transformers as t

    words = tokenizer(
        "<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>", image_token="<|image|>",
        video_token="<|video|>",
    )  # fmt: skip
    size = {"shortest_edge": 56 * 56 * 2, "longest_edge": 56 * 56 * 4}
    processor = t.Glm4vProcessor(
        t.Glm4vImageProcessor(size=size), words, t.Glm4vVideoProcessor(size=size),
        chat_template=template("<|begin_of_image|><|image|><|end_of_image|>"),
    )  # fmt: skip
    ids = words.convert_tokens_to_ids
    config = t.Glm4vConfig(
        text_config={
            **TEXT, "vocab_size": len(words),
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1],
                "partial_rotary_factor": 0.5,
            },
        },
        vision_config={
            **VISION, "depth": 2, "num_heads": 2, "out_hidden_size": 32, "image_size": 56, "patch_size": 14,
        },
        image_token_id=ids("<|image|>"), video_token_id=ids("<|video|>"),
        image_start_token_id=ids("<|begin_of_image|>"), image_end_token_id=ids("<|end_of_image|>"),
        video_start_token_id=ids("<|begin_of_video|>"), video_end_token_id=ids("<|end_of_video|>"),
    )  # fmt: skip
    return save(folder, t.Glm4vForConditionalGeneration, config, processor)


def mistral3(folder: Path) -> Path:
    import transformers as t

    words = tokenizer(image_token="[IMG]", image_break_token="[IMG_BREAK]", image_end_token="[IMG_END]")
    processor = t.PixtralProcessor(
        t.PixtralImageProcessor(size={"longest_edge": 56}, patch_size=14), words, patch_size=14,
        spatial_merge_size=2, chat_template=template("[IMG]"),
    )  # fmt: skip
    config = t.Mistral3Config(
        text_config={**TEXT, "model_type": "mistral", "vocab_size": len(words)},
        vision_config={**VISION, "model_type": "pixtral", "image_size": 56, "head_dim": 16},
        image_token_index=words.convert_tokens_to_ids("[IMG]"), spatial_merge_size=2, vision_feature_layer=-1,
    )  # fmt: skip
    return save(folder, t.Mistral3ForConditionalGeneration, config, processor)


def ovis2(folder: Path) -> Path:
    import transformers as t

    marks = ("<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>")
    words = tokenizer("<IMG_ATOM>", *marks, image_token="<image>")
    processor = t.Ovis2Processor(
        t.Ovis2ImageProcessor(size=SQUARE, crop_to_patches=False), words, image_seq_length=4,
        chat_template=template("<image>\n"),
    )  # fmt: skip
    ids = words.convert_tokens_to_ids
    config = t.Ovis2Config(
        text_config={**TEXT, "model_type": "qwen2", "vocab_size": len(words)},
        vision_config={**VISION, "vocab_size": 16 + len(marks), "num_visual_indicator_tokens": len(marks)},
        image_token_id=ids("<IMG_ATOM>"), visual_indicator_token_ids=[ids(mark) for mark in marks],
        vocab_size=len(words), hidden_size=32,
    )  # fmt: skip
    return save(folder, t.Ovis2ForConditionalGeneration, config, processor)


def minicpm_v(folder: Path) -> Path:
    import transformers as t

    words = tokenizer(
        image_token="<|image_pad|>", video_token="<|video_pad|>", image_start_token="<image>",
        image_end_token="</image>", slice_start_token="<slice>", slice_end_token="</slice>",
        image_id_start_token="<image_id>", image_id_end_token="</image_id>",
    )  # fmt: skip
    processor = t.MiniCPMV4_6Processor(
        t.MiniCPMV4_6ImageProcessor(slice_mode=False, scale_resolution=64, patch_size=8),
        t.MiniCPMV4_6VideoProcessor(slice_mode=False, scale_resolution=64, patch_size=8), words,
        chat_template=template("<|image_pad|>"),
    )  # fmt: skip
    config = t.MiniCPMV4_6Config(
        text_config={**TEXT, "model_type": "qwen2", "vocab_size": len(words)},
        vision_config={**VISION, "patch_size": 8, "image_size": 64}, insert_layer_id=0, image_size=64,
        image_token_id=words.convert_tokens_to_ids("<|image_pad|>"),
        video_token_id=words.convert_tokens_to_ids("<|video_pad|>"),
    )  # fmt: skip
    return save(folder, t.MiniCPMV4_6ForConditionalGeneration, config, processor)


def cohere2_vision(folder: Path) -> Path:
    import transformers as t

    words = tokenizer(
        image_token="<|IMG_PATCH|>", boi_token="<|START_OF_IMG|>", eoi_token="<|END_OF_IMG|>",
        img_line_break_token="<|IMG_LINE_BREAK|>",
    )  # fmt: skip
    # The processor takes patch_size**2 tokens for a tile; 56 pixels in patches of 14, two by two: 2 x 2.
    pictures = t.Cohere2VisionImageProcessor(size={"height": 56, "width": 56}, max_patches=1, patch_size=2)
    processor = t.Cohere2VisionProcessor(pictures, words, chat_template=template("<|IMG_PATCH|>"))
    config = t.Cohere2VisionConfig(
        text_config={**TEXT, "model_type": "cohere2", "vocab_size": len(words), "sliding_window": 64},
        vision_config={**VISION, "model_type": "siglip_vision_model", "image_size": 56, "vision_use_head": False},
        image_token_id=words.convert_tokens_to_ids("<|IMG_PATCH|>"), alignment_intermediate_size=64,
    )  # fmt: skip
    return save(folder, t.Cohere2VisionForConditionalGeneration, config, processor)


FAMILIES: dict[str, Callable[[Path], Path]] = {
    "qwen2_vl": qwen2_vl,
    "qwen2_5_vl": make_tiny_qwen2_5_vl,
    "qwen3_vl": make_tiny_qwen3_vl,
    "internvl": internvl,
    "llava": make_tiny_llava,
    "llava_onevision": llava_onevision,
    "idefics3": idefics3,
    "paligemma": paligemma,
    "gemma3": gemma3,
    "glm4v": glm4v,
    "mistral3": mistral3,
    "ovis2": ovis2,
    "minicpm_v": minicpm_v,
    "cohere2_vision": cohere2_vision,
}
