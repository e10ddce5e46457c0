"""Training of a small model on the rows of a training file, on the CPU: all weights, AdamW, cosine schedule.

First the vision encoder alone learns where the pictures show what (seen_grid.py), then the whole model answers, while
the encoder goes on with its own task. Without the first part, a model of this size stays blind: it answers from speed
and navigation, and the loss is the same with black pictures.

    OUT/                      the model folder: weights, tokenizer, processor (written first with the starting weights)
    OUT/ad2_training.json     what the model was trained on
    OUT/state.safetensors     weights, optimizer and step, atomically every few minutes; removed at the end
    OUT/settings.json         the identity of the run: another start in the folder must agree
    OUT/training.json         loss and rate over the steps
    OUT/grid_head.safetensors    part of the encoder's own task, for trainings that continue from OUT
    OUT/pictures-*.npy        the resized pictures; removed at the end

The same settings and rows give the same order of batches, so a killed run continues where its last state was saved.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.learn.encoded_rows import EncodedRows
from closedloop_plugin.learn.gradient_group import GradientGroup, gradient_group
from closedloop_plugin.learn.grid_head import make_head, save_head
from closedloop_plugin.learn.row_trainer import RowTrainer, TrainingSettings
from closedloop_plugin.learn.tiny_model import blinded, make_tiny_model
from closedloop_plugin.learn.training_file import TrainingFile
from closedloop_plugin.learn.training_state import weights_of
from lmms_eval_ad2 import __version__
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.export.training import set_path
from lmms_eval_ad2.storage.files import atomic_path, atomic_write_json
from lmms_eval_ad2.storage.identity import refuse_differences
from lmms_eval_ad2.storage.lock import lock_folder
from lmms_eval_ad2.storage.training_card import card_file, read_card, write_card
from lmms_eval_ad2.storage.untrusted_json import load

if TYPE_CHECKING:
    from transformers import LlavaForConditionalGeneration, LlavaProcessor

STATE, SETTINGS, LOG = "state.safetensors", "settings.json", "training.json"


def train(
    files: Sequence[Path], out: Path, settings: TrainingSettings, *, processes: int = 1, save_s: float = 120.0,
    say: Callable[[str], None] = print,
) -> Path:  # fmt: skip
    """Train until the last step, and return OUT; nothing is done if OUT is trained already.

    processes: that share each batch, with one thread each. save_s: seconds between states. See the head of this file.
    """
    rows = TrainingFile.read(files)  # before the folder is made, so that a wrong file leaves none
    if settings.see and all(group.seen is None for group in rows.groups):
        raise Ad2Error("the rows do not say what the pictures show ('seen'): export them again, or without --see")
    with lock_folder(out):
        if not _begun(out, _identity(rows, settings)):
            _write_start(rows, out, settings)
        if (out / LOG).exists():
            say(f"{out} is trained already")
            return out
        with gradient_group(min(processes, settings.batch), _help, (files, out, settings)) as group:
            trainer = _trainer(group, rows, out, settings)
            about = f"{len(trainer.data)} pictures, {trainer.steps} steps of {settings.batch}"
            say(f"{about}; from step {trainer.progress.step}")
            trainer.run(out / STATE, save_s, say)
        save_model(trainer.model, out)
        save_head(trainer.head, out)
        _name_training_data(files, out, settings, say)
        atomic_write_json(out / LOG, {"log": trainer.progress.log, "steps": trainer.steps})
        for file in [out / STATE, *out.glob("pictures-*.npy")]:
            file.unlink(missing_ok=True)
    return out


def _help(group: GradientGroup, files: Sequence[Path], out: Path, settings: TrainingSettings) -> None:
    """The work of a process that is not the first: the same steps, but nothing is written."""
    _trainer(group, TrainingFile.read(files), out, settings).run(out / STATE, math.inf, lambda text: None)


def _trainer(group: GradientGroup, rows: TrainingFile, out: Path, settings: TrainingSettings) -> RowTrainer:
    """With the folder's model and its last saved state."""
    import torch

    torch.set_num_threads(1)
    model, processor = load_model(out)
    data = EncodedRows(rows, processor, out / "pictures.npy", settings.driving_weight)
    head = make_head(model.model.multi_modal_projector.linear_1.in_features, settings.start)
    trainer = RowTrainer(model, head, data, settings, processor, group)
    trainer.restore(out / STATE)
    return trainer


def _name_training_data(
    files: Sequence[Path], out: Path, settings: TrainingSettings, say: Callable[[str], None]
) -> None:
    """Write ad2_training.json: what the files were made from, and what the model was trained on before."""
    sources = [*map(set_path, files), *([] if settings.start is None else [card_file(settings.start)])]
    missing = [source for source in sources if not source.is_file()]
    for source in missing:
        say(f"{source} is missing, so {out} does not name what it was trained on; export the rows again")
    if missing:
        return
    sets = {one.sha256: one for source in sources for one in read_card(source).sets}
    write_card(out, sets.values(), model=out.name, seed=settings.seed, version=__version__)


def load_model(folder: Path) -> tuple[LlavaForConditionalGeneration, LlavaProcessor]:
    """Model in float32 and processor of a folder."""
    import torch
    from transformers import AutoProcessor, LlavaForConditionalGeneration

    model = LlavaForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    return model, AutoProcessor.from_pretrained(folder)


def save_model(model: LlavaForConditionalGeneration, out: Path) -> None:
    """The weights, atomically; configuration, tokenizer and processor are in OUT since the start."""
    from safetensors.torch import save_file

    with atomic_path(out / "model.safetensors") as temporary:
        save_file(weights_of(model), temporary, metadata={"format": "pt"})


def _identity(rows: TrainingFile, settings: TrainingSettings) -> dict[str, Any]:
    return {"rows_sha256": list(rows.sha256), "version": __version__,
            **json.loads(json.dumps(asdict(settings), default=str))}  # fmt: skip


def _begun(out: Path, identity: dict[str, Any]) -> bool:
    """Whether the folder has the starting weights of this very run; raises Ad2Error if it has those of another."""
    file = out / SETTINGS
    if not file.exists():
        return False
    refuse_differences(out, load(file), identity, "a training", "settings")
    return True


def _write_start(rows: TrainingFile, out: Path, settings: TrainingSettings) -> None:
    from transformers import AutoProcessor, LlavaForConditionalGeneration

    if settings.start is None:
        make_tiny_model(rows, out, settings.seed, settings.size)
    else:
        LlavaForConditionalGeneration.from_pretrained(settings.start, dtype="auto").save_pretrained(out)
        AutoProcessor.from_pretrained(settings.start).save_pretrained(out)
    if settings.blind:
        blinded(AutoProcessor.from_pretrained(out)).save_pretrained(out)
    atomic_write_json(out / SETTINGS, _identity(rows, settings))
