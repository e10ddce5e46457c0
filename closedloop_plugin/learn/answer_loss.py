"""The loss of a model's answers on rows: what it knows about pictures, in seconds instead of hours of driving.

The loss of an answer is minus the logarithm of the probability that the model says exactly this text: the sum of the
cross entropies of its tokens, nats. So models with different tokenizers can be compared. With black pictures, a model
knows only what the question states, as speed and navigation; what it loses by them is what it sees.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from tqdm import tqdm
from transformers import LlavaForConditionalGeneration, LlavaProcessor

from closedloop_plugin.learn.encoded_rows import EncodedRows, TrainingBatch
from closedloop_plugin.learn.forward_pass import answer_logits, picture_tokens, pixels_of
from closedloop_plugin.learn.model_folder import CPU, check_device, check_llava, load_llava
from closedloop_plugin.learn.training_file import CHOICE, DRIVING, PictureGroup, TrainingFile

OTHER = "other"
KINDS = (DRIVING, CHOICE, OTHER)
BATCH = 32  # pictures


@dataclass(frozen=True)
class AnswerLoss:
    """Means over n answers, nats. black: with black pictures."""

    n: int
    mean: float
    black: float


def spread_pictures(rows: TrainingFile, most: int | None) -> TrainingFile:
    """At most so many of the file's pictures, with all their questions, spread evenly over it."""
    if most is None or most >= len(rows.groups):
        return rows
    chosen = np.linspace(0, len(rows.groups) - 1, most).round().astype(int)
    return TrainingFile(tuple(rows.groups[i] for i in chosen), rows.sha256)


def answer_losses(models: Sequence[Path], rows: TrainingFile, device: str = CPU) -> dict[Path, dict[str, AnswerLoss]]:
    """By model and by kind of question, of those that the rows have.

    models: of `ad2 learn train`, or other LLaVAs whose processors only resize pictures; those that resize
    alike share the resized pictures. Raises Ad2Error for other folders and for a device that is not there, before the
    first model is asked.
    """
    check_device(device, 1)
    for folder in models:
        check_llava(folder)
    with TemporaryDirectory() as temporary:
        return {folder: _losses(folder, rows, Path(temporary), device) for folder in models}


def _losses(folder: Path, rows: TrainingFile, pictures: Path, device: str) -> dict[str, AnswerLoss]:
    """Of one model. pictures: folder where resized ones are kept."""
    model, processor = load_llava(folder)
    model.to(device)  # type: ignore[arg-type]  # transformers decorates it
    model.eval()
    losses: dict[str, list[tuple[float, float]]] = defaultdict(list)
    data = EncodedRows(rows, processor, pictures / "pictures.npy")
    for start in tqdm(range(0, len(data), BATCH), desc=folder.name, unit="batch", disable=None):
        groups = range(start, min(start + BATCH, len(data)))
        batch = data.batch([(i, range(len(data.turns[i]))) for i in groups]).to(model.device)
        both = (_batch_losses(model, processor, batch, black) for black in (False, True))
        for kind, *pair in zip(_kinds(rows.groups, groups), *both, strict=True):
            losses[kind].append((pair[0], pair[1]))
    found = {kind: np.mean(losses[kind], axis=0) for kind in KINDS if kind in losses}
    return {kind: AnswerLoss(len(losses[kind]), float(mean[0]), float(mean[1])) for kind, mean in found.items()}


@torch.inference_mode()
def _batch_losses(
    model: LlavaForConditionalGeneration, processor: LlavaProcessor, batch: TrainingBatch, black: bool
) -> list[float]:
    """The cross entropy of each answer of a batch, summed over its tokens. black: with black pictures."""
    pictures = batch.pixels * 0 if black else batch.pixels
    logits = answer_logits(model, batch, picture_tokens(model, pixels_of(pictures, processor)))
    each = torch.nn.functional.cross_entropy(logits, batch.answers, reduction="none")
    sums = torch.zeros(int(batch.answer.max()) + 1, device=each.device).index_add(0, batch.answer, each)
    return [float(value) for value in sums.tolist()]


def _kinds(groups: Sequence[PictureGroup], chosen: Sequence[int]) -> Iterator[str]:
    """Of all turns of a batch, in their order."""
    for number in chosen:
        yield from (turn.kind if turn.kind in KINDS else OTHER for turn in groups[number].turns)
