"""A driving model of a few million parameters with random weights: a LLaVA that lmms-eval's `llava_hf` loads.

Vision: SegFormer's hierarchical encoder (Xie et al., NeurIPS 2021), whose overlapping convolutions learn from fewer
pictures than a plain vision transformer; its last stage gives one token for 32 x 32 pixels. Language: a small Llama.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.learn.tokenizer import IMAGE, train_tokenizer
from closedloop_plugin.learn.training_file import TrainingFile

if TYPE_CHECKING:
    from transformers import LlavaConfig, LlavaForConditionalGeneration, LlavaProcessor, PreTrainedTokenizerFast

# Mean and standard deviation of pixel values, for all channels: collected pictures are neither bright nor saturated.
MEAN, STD = 0.45, 0.25
BLACK = 1e-12  # factor of pixel values, 1 / 255 otherwise
CONTEXT = 1024  # tokens of picture, question and answer
STRIDES, KERNELS = (4, 2, 2, 2), (7, 3, 3, 3)  # of the four stages of the encoder


@dataclass(frozen=True)
class TinyModelSize:
    """width, height: pixels of the pictures as the model sees them, multiples of 32; others are resized to it."""

    width: int = 160
    height: int = 96
    vision: tuple[int, int, int, int] = (24, 48, 96, 192)  # channels of the stages
    vision_layers: tuple[int, int, int, int] = (1, 1, 2, 2)
    hidden: int = 192
    layers: int = 3
    vocabulary: int = 3000

    @property
    def stride(self) -> int:
        """Pixels between the picture's tokens."""
        product = 1
        for step in STRIDES:
            product *= step
        return product

    @property
    def picture_tokens(self) -> int:
        return (self.height // self.stride) * (self.width // self.stride)


def make_tiny_model(rows: TrainingFile, folder: Path, seed: int = 0, size: TinyModelSize | None = None) -> Path:
    """Save model, processor and tokenizer, trained on the texts of `rows`, into `folder`. The same bytes each time."""
    size = size or TinyModelSize()
    turns = list(rows.turns())
    tokenizer = train_tokenizer([t.prompt for t in turns], [t.answer for t in turns], size.vocabulary)
    processor_of(tokenizer, size).save_pretrained(folder)
    random_model(tokenizer, size, seed).save_pretrained(folder)
    return folder


def random_model(tokenizer: PreTrainedTokenizerFast, size: TinyModelSize, seed: int) -> LlavaForConditionalGeneration:
    """The model with random weights, in float32."""
    import torch
    from transformers import LlavaForConditionalGeneration

    torch.manual_seed(seed)
    model = LlavaForConditionalGeneration(_config(tokenizer, size))
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


def processor_of(tokenizer: PreTrainedTokenizerFast, size: TinyModelSize) -> LlavaProcessor:
    """Resizes a picture of any size to the model's and normalises it; repeats the image token."""
    from transformers import CLIPImageProcessor, LlavaProcessor

    pixels = {"height": size.height, "width": size.width}
    images = CLIPImageProcessor(
        size=pixels, do_center_crop=False, crop_size=pixels, resample=2, image_mean=[MEAN] * 3, image_std=[STD] * 3
    )
    return LlavaProcessor(
        image_processor=images, tokenizer=tokenizer, patch_size=size.stride, vision_feature_select_strategy="full",
        num_additional_image_tokens=0, chat_template=tokenizer.chat_template,
    )  # fmt: skip


def blinded(processor: LlavaProcessor) -> LlavaProcessor:
    """The processor of a blind twin: whatever it is given, the model sees a black picture.

    All pixels are multiplied by BLACK before the mean is subtracted. 0 itself is a division by zero in processors that
    divide the mean by the factor.
    """
    processor.image_processor.rescale_factor = BLACK
    return processor


def vision_heads(channels: int) -> int:
    """Attention heads of a stage of the encoder, by which its channels must be divisible."""
    return max(1, channels // 32)


def _config(tokenizer: PreTrainedTokenizerFast, size: TinyModelSize) -> LlavaConfig:
    from transformers import LlavaConfig

    return LlavaConfig(
        text_config=_text(tokenizer, size), vision_config=_vision(size), tie_word_embeddings=True,
        image_token_index=tokenizer.get_vocab()[IMAGE], image_seq_length=size.picture_tokens,
        vision_feature_select_strategy="full", vision_feature_layer=-1,
    )  # fmt: skip


def _text(tokenizer: PreTrainedTokenizerFast, size: TinyModelSize) -> dict[str, Any]:
    return {
        "model_type": "llama", "vocab_size": len(tokenizer), "hidden_size": size.hidden, "head_dim": 32,
        "intermediate_size": size.hidden * 8 // 3 // 32 * 32, "num_hidden_layers": size.layers,
        "num_attention_heads": size.hidden // 32, "num_key_value_heads": size.hidden // 32,
        "max_position_embeddings": CONTEXT, "tie_word_embeddings": True, "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id,
    }  # fmt: skip


def _vision(size: TinyModelSize) -> dict[str, Any]:
    """Of SegFormer; "hidden_size" is read by LLaVA's projector."""
    widths: Sequence[int] = size.vision
    return {
        "model_type": "segformer", "hidden_size": widths[-1], "hidden_sizes": list(widths), "num_encoder_blocks": 4,
        "depths": list(size.vision_layers), "strides": list(STRIDES), "patch_sizes": list(KERNELS),
        "sr_ratios": [8, 4, 2, 1], "num_attention_heads": [vision_heads(width) for width in widths],
        "mlp_ratios": [2] * 4, "reshape_last_stage": False, "drop_path_rate": 0.0,
    }  # fmt: skip
