"""The forward pass of a LLaVA in training: pixels, the tokens of pictures, the logits and the loss of answers.

All arguments of a function are on one device, and so is the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from closedloop_plugin.learn.encoded_rows import TrainingBatch
from closedloop_plugin.learn.tiny_model import BLACK

if TYPE_CHECKING:
    import torch
    from transformers import LlavaForConditionalGeneration, LlavaProcessor


def pixels_of(
    pictures: torch.Tensor, processor: LlavaProcessor, jitter: float = 0.0, shift: int = 0, seed: int = 0
) -> torch.Tensor:
    """Normalised as by the processor, after a random change of each picture: of contrast and brightness by `jitter`,
    and a move to the side by up to `shift` pixels (not up or down, which is how near something on the road looks).

    A blind model's pictures are black (see tiny_model.blinded), and stay so. The changes are drawn by the CPU, so they
    are the same on all devices.
    """
    import torch

    images, device = processor.image_processor, pictures.device
    draw = torch.Generator().manual_seed(seed)
    mean, std = (torch.tensor(value)[:, None, None].to(device) for value in (images.image_mean, images.image_std))
    if shift:
        moves = torch.randint(-shift, shift + 1, (len(pictures),), generator=draw)
        pictures = _moved_aside(pictures, moves.to(device))
    values = pictures.float().mul_(images.rescale_factor)
    if jitter and images.rescale_factor != BLACK:
        gain, lift = torch.rand(2, len(pictures), 1, 1, 1, generator=draw).to(device) * 2 - 1
        values = (values * (1 + jitter * gain) + jitter / 2 * lift).clamp_(0, 1)
    return values.sub_(mean).div_(std)


def _moved_aside(pictures: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
    """(B, C, H, W) moved to the left by (B,) pixels; the columns at the edges are repeated."""
    import torch

    width = pictures.shape[-1]
    columns = (torch.arange(width, device=pictures.device) + pixels[:, None]).clamp_(0, width - 1)
    return torch.gather(pictures, 3, columns[:, None, None].expand_as(pictures))


def loss_of(model: LlavaForConditionalGeneration, batch: TrainingBatch, seen: torch.Tensor) -> torch.Tensor:
    """Weighted cross entropy, summed over the answer tokens; the rest of the logits is not computed."""
    import torch

    logits = answer_logits(model, batch, seen)
    each = torch.nn.functional.cross_entropy(logits, batch.answers, reduction="none")
    return (each * batch.weights).sum()


def losses_of(
    model: LlavaForConditionalGeneration, processor: LlavaProcessor, batch: TrainingBatch, black: bool = False
) -> list[float]:
    """The cross entropy of each answer of a batch, summed over its tokens, without gradients. black: with black
    pictures."""
    import torch

    with torch.inference_mode():
        pictures = batch.pixels * 0 if black else batch.pixels
        logits = answer_logits(model, batch, picture_tokens(model, pixels_of(pictures, processor)))
        each = torch.nn.functional.cross_entropy(logits, batch.answers, reduction="none")
        sums = torch.zeros(int(batch.answer.max()) + 1, device=each.device).index_add(0, batch.answer, each)
    return [float(value) for value in sums.tolist()]


def answer_logits(model: LlavaForConditionalGeneration, batch: TrainingBatch, seen: torch.Tensor) -> torch.Tensor:
    """(N, V): the logits before each answer token. seen: of `picture_tokens`."""
    import torch

    hidden = torch.finfo(torch.float32).min
    mask = torch.zeros(batch.mask.shape, device=batch.mask.device).masked_fill_(~batch.mask, hidden)
    embedded = model.get_input_embeddings()(batch.tokens)
    places = (batch.tokens == model.config.image_token_id)[..., None].expand_as(embedded)
    embedded = embedded.masked_scatter(places, model.model.multi_modal_projector(seen))
    out = model.model.language_model(
        inputs_embeds=embedded, attention_mask=mask, position_ids=batch.positions, use_cache=False
    )
    return model.lm_head(out.last_hidden_state.flatten(0, 1)[batch.before])


def picture_tokens(model: LlavaForConditionalGeneration, pixels: torch.Tensor) -> torch.Tensor:
    """(B, tokens, width of the encoder) of (B, 3, H, W). Equal pictures, as a blind twin's, are encoded once."""
    distinct = pixels[:1] if bool((pixels == pixels[:1]).all()) else pixels
    states = model.model.vision_tower(distinct, output_hidden_states=True).hidden_states
    tokens: torch.Tensor = states[model.config.vision_feature_layer]
    return tokens.expand(len(pixels), -1, -1)
