"""The forward pass of a LLaVA in training: pixels, the tokens of pictures, the logits and the loss of answers, and the
loss of what these tokens say about the cells of a SeenGrid.

All arguments of a function are on one device, and so is the result.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from closedloop_plugin.learn.encoded_rows import TrainingBatch
from closedloop_plugin.learn.seen_grid import CHANNELS, FINE, KINDS, RARE
from closedloop_plugin.learn.tiny_model import BLACK
from lmms_eval_ad2.core.errors import Ad2Error

if TYPE_CHECKING:
    from transformers import LlavaForConditionalGeneration, LlavaProcessor

HEAD = "grid_head.safetensors"
HEAD_START = -4.0  # bias at the start: most cells are empty


def pixels_of(
    pictures: torch.Tensor, processor: LlavaProcessor, jitter: float = 0.0, shift: int = 0, seed: int = 0
) -> torch.Tensor:
    """Normalised as by the processor, after a random change of each picture: of contrast and brightness by `jitter`,
    and a move to the side by up to `shift` pixels (not up or down, which is how near something on the road looks).

    A blind model's pictures are black (see tiny_model.blinded), and stay so. The changes are drawn by the CPU, so they
    are the same on all devices.
    """
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
    width = pictures.shape[-1]
    columns = (torch.arange(width, device=pictures.device) + pixels[:, None]).clamp_(0, width - 1)
    return torch.gather(pictures, 3, columns[:, None, None].expand_as(pictures))


def loss_of(model: LlavaForConditionalGeneration, batch: TrainingBatch, seen: torch.Tensor) -> torch.Tensor:
    """Weighted cross entropy, summed over the answer tokens; the rest of the logits is not computed."""
    logits = answer_logits(model, batch, seen)
    each = torch.nn.functional.cross_entropy(logits, batch.answers, reduction="none")
    return (each * batch.weights).sum()


def answer_logits(model: LlavaForConditionalGeneration, batch: TrainingBatch, seen: torch.Tensor) -> torch.Tensor:
    """(N, V): the logits before each answer token. seen: of `picture_tokens`."""
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


def make_head(width: int, folder: Path | None = None) -> torch.nn.Linear:
    """(B, tokens, width) -> (B, tokens, FINE * FINE * CHANNELS); as saved in `folder`, or with zero weights.

    Raises Ad2Error if the saved one does not fit.
    """
    head = torch.nn.Linear(width, FINE * FINE * CHANNELS)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.constant_(head.bias, HEAD_START)
    if folder is not None and (folder / HEAD).is_file():
        try:
            head.load_state_dict(load_file(folder / HEAD))
        except (OSError, RuntimeError, SafetensorError) as exc:
            raise Ad2Error(
                f"{folder / HEAD}: does not fit this model; delete it to start with a head of zero weights"
            ) from exc
    return head


def by_token(grids: torch.Tensor) -> torch.Tensor:
    """Cells of each token: (B, FINE * rows, FINE * columns, CHANNELS) -> (B, rows * columns, FINE**2 * CHANNELS)."""
    b, rows, columns, channels = grids.shape
    parts = grids.view(b, rows // FINE, FINE, columns // FINE, FINE, channels).permute(0, 1, 3, 2, 4, 5)
    return parts.reshape(b, (rows // FINE) * (columns // FINE), FINE * FINE * channels)


def grid_loss(head: torch.nn.Linear, tokens: torch.Tensor, grids: torch.Tensor) -> torch.Tensor:
    """Weighted binary cross entropy, summed over the cells. tokens: (B, T, width); grids: uint8, as in `by_token`."""
    wanted = by_token(grids.float().div_(255))
    each = [RARE.get(kind, 1.0) for kind in KINDS]
    weights = torch.tensor([*each, *each]).repeat(FINE * FINE).to(wanted.device)
    return torch.nn.functional.binary_cross_entropy_with_logits(head(tokens), wanted, weight=weights, reduction="sum")
