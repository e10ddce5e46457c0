"""Training of a small model on the rows of a training file: all weights, AdamW, cosine schedule.

First the vision encoder alone learns where the pictures show what (seen_grid.py), then the whole model answers, while
the encoder goes on with its own task. Without the first part, a model of this size ignores its picture: it answers from
speed and navigation, and the loss is the same with black pictures.

    OUT/settings.json         the identity of the run, written first: another start in the folder must agree
    OUT/start/                the model with its starting weights; removed at the end
    OUT/pictures-*.npy        the resized pictures; removed at the end
    OUT/state.safetensors     weights, optimizer and step, atomically: every few minutes, when the training is
                              interrupted, and after the last step; removed at the end
    OUT/                      the trained model: configuration, tokenizer, processor, then the weights
    OUT/grid_head.safetensors    part of the encoder's own task, for trainings that continue from OUT
    OUT/ad2_training.json     what the model was trained on
    OUT/training.json         loss and rate over the steps, written last: the model is trained

The same settings and rows give the same order of batches, so a killed run continues where its last state was saved. On
the CPU it comes to the same weights.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.learn.encoded_rows import EncodedRows, picture_files, resized_pictures
from closedloop_plugin.learn.gradient_group import GradientGroup, gradient_group
from closedloop_plugin.learn.grid_head import make_head, save_head
from closedloop_plugin.learn.llava_folder import LOG, SETTINGS, check_llava, load_llava, load_processor
from closedloop_plugin.learn.model_folder import WEIGHTS, complete_model, refuse_model
from closedloop_plugin.learn.row_trainer import RowTrainer, TrainingSettings
from closedloop_plugin.learn.tiny_model import blinded, make_tiny_model
from closedloop_plugin.learn.training_file import TrainingFile
from closedloop_plugin.learn.training_state import weights_of
from lmms_eval_ad2 import __version__
from lmms_eval_ad2.core.errors import Ad2Error, require
from lmms_eval_ad2.data.export.training import check_row_file, set_path
from lmms_eval_ad2.storage.files import atomic_path, atomic_write_json, file_sha256, remove_leftovers
from lmms_eval_ad2.storage.identity import refuse_differences
from lmms_eval_ad2.storage.local_weights import TRAINING_CARD
from lmms_eval_ad2.storage.lock import lock_folder
from lmms_eval_ad2.storage.training_card import TrainingSet, card_file, check_size, model_card, read_card, write_card
from lmms_eval_ad2.storage.untrusted_json import load

if TYPE_CHECKING:
    from transformers import LlavaForConditionalGeneration

STATE, START = "state.safetensors", "start"
PICTURES = "pictures.npy"
CPU = "cpu"


@dataclass(frozen=True)
class TrainingRun:
    """What is trained, where, and by how many processes on which device of PyTorch."""

    files: tuple[Path, ...]
    out: Path
    settings: TrainingSettings
    processes: int = 1
    device: str = CPU

    def identity(self, rows: TrainingFile) -> dict[str, Any]:
        """All that determines the weights. Devices other than the CPU by their kind: it does not matter which GPU. A
        model to start from by the content of its files: it matters neither where they are, nor that they were there."""
        kind, start = self.device.partition(":")[0], self.settings.start
        started = start and {file.name: file_sha256(file) for file in sorted(start.glob("*.safetensors"))}
        return {"rows_sha256": list(rows.sha256), "version": __version__, "processes": self.processes,
                **({} if kind == CPU else {"device": kind}),
                **json.loads(json.dumps({**asdict(self.settings), "start": started}))}  # fmt: skip

    def trainer(self, group: GradientGroup, rows: TrainingFile) -> RowTrainer:
        """With the folder's model and its last saved state."""
        import torch

        device = torch.device(self.device)
        if device.type == CPU:
            torch.set_num_threads(1)
        else:
            torch.set_float32_matmul_precision("high")  # allows TF32 on the tensor cores of NVIDIA GPUs
        model, processor = load_llava(self.out / START)
        data = EncodedRows(rows, processor, self.out / PICTURES, self.settings.weights)
        _check_length(data, model)
        head = make_head(model.model.multi_modal_projector.linear_1.in_features, self.settings.start)
        torch.nn.ModuleList([model, head]).to(device)  # before the optimizer is made, which keeps the parameters
        trainer = RowTrainer(model, head, data, self.settings, processor, group)
        trainer.restore(self.out / STATE)
        return trainer


def train(
    files: Sequence[Path], out: Path, settings: TrainingSettings, *, processes: int = 1, device: str = CPU,
    save_s: float = 120.0, say: Callable[[str], None] = print,
) -> Path:  # fmt: skip
    """Train until the last step, and return OUT; nothing is done if OUT is trained already.

    processes: that share each batch, with one thread each. device: of PyTorch, as "cpu", "cuda", "cuda:1" or "mps"; all
    but the CPU take one process. save_s: seconds between states. See the head of this file.

    Raises Ad2Error, before anything is written, for wrong rows or training data, a device that is not there, a missing
    model to start from, and an OUT that holds another model. What fails later, but before a state is saved, leaves OUT
    to other settings. The state is saved before KeyboardInterrupt is raised.
    """
    if settings.start is not None:
        check_llava(settings.start, "--start")
    check_device(device, processes)
    run = TrainingRun(tuple(files), out, settings, min(processes, settings.batch), device)
    rows = _rows(run)
    _refuse_other(run, rows)  # also before the folder is locked, which writes into it
    sets = None if (out / LOG).exists() else _training_sets(run, say)
    with lock_folder(out):
        _refuse_other(run, rows)
        remove_leftovers(out)
        if (out / LOG).exists():
            say(f"{out} is trained already")
        else:
            try:
                _train(run, rows, sets, save_s, say)
            except BaseException:
                if not (out / STATE).exists():
                    shutil.rmtree(out / START, ignore_errors=True)
                    (out / SETTINGS).unlink(missing_ok=True)
                raise
        for file in [out / STATE, *out.glob("pictures-*.npy")]:
            file.unlink(missing_ok=True)
        shutil.rmtree(out / START, ignore_errors=True)
    return out


def _train(
    run: TrainingRun, rows: TrainingFile, sets: Sequence[TrainingSet] | None, save_s: float,
    say: Callable[[str], None],
) -> None:  # fmt: skip
    """sets: what the model will be trained on; None: not known."""
    _begin(run, rows)
    with gradient_group(run.processes, _help, (run,)) as group:
        trainer = run.trainer(group, rows)
        about = f"{len(trainer.data)} pictures, {trainer.steps} steps of {run.settings.batch}"
        say(f"{about}; from step {trainer.progress.step}")
        trainer.run(run.out / STATE, save_s, say)
    for file in (run.out / START).iterdir():
        if file.name != WEIGHTS:
            shutil.copy(file, run.out)
    if sets is not None:  # before the weights, which would be loaded without it
        write_card(run.out, sets, model=run.out.name, seed=run.settings.seed, version=__version__)
    save_model(trainer.model, run.out)
    save_head(trainer.head, run.out)
    atomic_write_json(run.out / LOG, {"log": trainer.progress.log, "steps": trainer.steps})


def _help(group: GradientGroup, run: TrainingRun) -> None:
    """The work of a process that is not the first: the same steps, but nothing is written or shown."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    run.trainer(group, TrainingFile.read(run.files)).run(None, math.inf, lambda text: None)


def _begin(run: TrainingRun, rows: TrainingFile) -> None:
    """The settings, the starting weights and the resized pictures, as far as they are not there."""
    settings, start = run.out / SETTINGS, run.out / START
    if not (settings.exists() and (start / WEIGHTS).exists()):
        atomic_write_json(settings, run.identity(rows))
        _write_start(run, rows)
    # Once, before there are several processes that need it.
    resized_pictures(picture_files(rows), load_processor(start), run.out / PICTURES)


def _check_length(data: EncodedRows, model: LlavaForConditionalGeneration) -> None:
    most = int(model.config.get_text_config().max_position_embeddings)
    if data.longest > most:
        raise Ad2Error(f"a question with its picture and answer has {data.longest:,} tokens; the model takes {most:,}")


def check_device(name: str, processes: int) -> None:
    """Raises Ad2Error if PyTorch cannot compute there, or not with several processes; MissingExtra without PyTorch."""
    torch = require("torch")
    try:
        kind = torch.device(name).type
        if kind == CPU or processes == 1:
            float(torch.zeros(1, device=name))  # also refuses "meta", which has no values
            return
    except (RuntimeError, AssertionError, ImportError) as exc:
        why = str(exc).partition("\n")[0][:200]
        raise Ad2Error(f"--device {name}: PyTorch cannot use it here ({why}); --device {CPU} always works") from None
    raise Ad2Error(f"--device {name} --processes {processes}: several processes share a training on the {CPU} only")


def _rows(run: TrainingRun) -> TrainingFile:
    """Raises Ad2Error if these rows cannot be trained on."""
    rows = TrainingFile.read(run.files)
    for file in run.files:
        check_row_file(file)
    if run.settings.see and all(group.seen is None for group in rows.groups):
        raise Ad2Error("the rows do not say what the pictures show ('seen'): export them again, or without --see")
    return rows


def _training_sets(run: TrainingRun, say: Callable[[str], None]) -> list[TrainingSet] | None:
    """What the files were made from, and what the model was trained on before; None if a part of it is not known.

    Each set once, by the hash of its content: the hash that a card states may be missing or wrong.
    """
    files, start = [*map(set_path, run.files)], run.settings.start
    before = None if start is None else model_card(start)
    missing = [file for file in files if not file.is_file()]
    if start is not None and before is None:
        missing.append(card_file(start))
    for file in missing:
        say(f"{file} is missing, so {run.out} will not name what it was trained on; export the rows again")
    if missing:
        return None
    cards = [*map(read_card, files), *([before] if before else [])]
    sets = list({one.to_dict()["sha256"]: one for card in cards for one in card.sets}.values())
    check_size(run.out / TRAINING_CARD, sets)
    return sets


def save_model(model: LlavaForConditionalGeneration, out: Path) -> None:
    """The weights, atomically."""
    from safetensors.torch import save_file

    with atomic_path(out / WEIGHTS) as temporary:
        save_file(weights_of(model), temporary, metadata={"format": "pt"})


def _refuse_other(run: TrainingRun, rows: TrainingFile) -> None:
    """Raises Ad2Error if the folder holds another training, or a model that no training of this program wrote."""
    file, identity = run.out / SETTINGS, run.identity(rows)
    if not file.exists():
        refuse_model(run.out)
        return
    # A training that was begun before the number of processes was stored continues with any.
    refuse_differences(run.out, {"processes": run.processes, **load(file)}, identity, "a training", "settings")


def _write_start(run: TrainingRun, rows: TrainingFile) -> None:
    """The model with its starting weights, after the settings, so that no folder has weights of an unknown run."""
    settings, start = run.settings, run.settings.start
    with complete_model(run.out / START) as folder:
        if start is None:
            make_tiny_model(rows, folder, settings.seed, settings.size)
        else:
            model, processor = load_llava(start, dtype="auto")
            model.save_pretrained(folder, max_shard_size="1TB")  # WEIGHTS is one file
            processor.save_pretrained(folder)
        if settings.blind:
            blinded(load_processor(folder)).save_pretrained(folder)
