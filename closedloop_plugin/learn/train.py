"""Training of a small model on the rows of a training file: all weights, AdamW, cosine schedule.

First the vision encoder alone learns where the pictures show what (seen_grid.py), then the whole model answers, while
the encoder continues with its own task. Without the first part, a model of this size ignores its picture: it answers
from speed and navigation, and the loss is the same with black pictures.

    OUT/settings.json         the identity of the run, written first: another start in the folder must agree
    OUT/start/                the model with its starting weights; removed at the end
    OUT/pictures-*.npy        the resized pictures; removed at the end
    OUT/state/checkpoint-N/   a checkpoint of Trainer, with the file "complete": every few minutes, when the training is
                              interrupted, and after the last step; removed at the end
    OUT/                      the trained model: configuration, tokenizer, processor, then the weights
    OUT/grid_head.safetensors    part of the encoder's own task, for trainings that continue from OUT
    OUT/ad2_training.json     what the model was trained on
    OUT/training.json         loss and rate over the steps, written last: the model is trained

The same settings and rows give the same order of batches, so a killed run continues where its last checkpoint was
written. On the CPU it comes to the same weights.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from transformers.utils.logging import disable_progress_bar

from closedloop_plugin.learn.encoded_rows import EncodedRows, picture_files, resized_pictures
from closedloop_plugin.learn.forward_pass import HEAD, make_head
from closedloop_plugin.learn.model_folder import (
    CPU,
    LOG,
    SETTINGS,
    WEIGHTS,
    check_device,
    check_llava,
    complete_model,
    load_llava,
    load_processor,
    refuse_model,
)
from closedloop_plugin.learn.row_trainer import (
    TaughtModel,
    TrainingSettings,
    TrainingSteps,
    in_processes,
    last_checkpoint,
    run_steps,
)
from closedloop_plugin.learn.tiny_model import blinded, make_tiny_model
from closedloop_plugin.learn.training_file import TrainingFile
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.version import __version__
from lmms_eval_ad2.data.export.training import check_row_file, set_path
from lmms_eval_ad2.storage.files import atomic_write_json, file_sha256, remove_leftovers
from lmms_eval_ad2.storage.identity import refuse_differences
from lmms_eval_ad2.storage.local_weights import TRAINING_CARD
from lmms_eval_ad2.storage.lock import lock_folder
from lmms_eval_ad2.storage.training_card import TrainingSet, card_file, check_size, model_card, read_card, write_card
from lmms_eval_ad2.storage.untrusted_json import load

STATE, START = "state", "start"
PICTURES = "pictures.npy"


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


def train(
    files: Sequence[Path], out: Path, settings: TrainingSettings, *, processes: int = 1, device: str = CPU,
    save_s: float = 120.0, say: Callable[[str], None] = print,
) -> Path:  # fmt: skip
    """Train until the last step, and return OUT; nothing is done if OUT is trained already.

    processes: that share each batch, with one thread each. device: of PyTorch, as "cpu", "cuda", "cuda:1" or "mps"; all
    but the CPU take one process. save_s: seconds between checkpoints. say: of several processes, the first one calls a
    copy of it. See the head of this file.

    Raises Ad2Error, before anything is written, for wrong rows or training data, a device that is not there, a missing
    model to start from, and an OUT that holds another model. What fails later, but before a checkpoint is written,
    leaves OUT to other settings. A checkpoint is written before KeyboardInterrupt is raised.
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
                _begin(run, rows)
                in_processes(run.processes, _steps, run, save_s, say, *([rows] if run.processes == 1 else []))
                _finish(run, sets)
            except BaseException:
                if last_checkpoint(out / STATE) is None:
                    _remove(out / START, out / STATE, out / SETTINGS)
                raise
        _remove(out / START, out / STATE, *out.glob("pictures-*.npy"))
    return out


def _remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _begin(run: TrainingRun, rows: TrainingFile) -> None:
    """The settings, the starting weights and the resized pictures, as far as they are not there."""
    settings, start = run.out / SETTINGS, run.out / START
    if not (settings.exists() and (start / WEIGHTS).exists()):
        atomic_write_json(settings, run.identity(rows))
        _write_start(run, rows)
    # Once, before there are several processes that need it.
    resized_pictures(picture_files(rows), load_processor(start), run.out / PICTURES)


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


def _steps(run: TrainingRun, save_s: float, say: Callable[[str], None], rows: TrainingFile | None = None) -> None:
    """All steps that are left, in one of the processes. rows: None: they are read again."""
    disable_progress_bar()
    llava, processor = load_llava(run.out / START)
    data = EncodedRows(rows or TrainingFile.read(run.files), processor, run.out / PICTURES, run.settings.weights)
    most = int(llava.config.get_text_config().max_position_embeddings)
    if data.longest > most:
        raise Ad2Error(f"a question with its picture and answer has {data.longest:,} tokens; the model takes {most:,}")
    head = make_head(llava.model.multi_modal_projector.linear_1.in_features, run.settings.start)
    model = TaughtModel(llava, head, run.settings.dropout)
    steps = TrainingSteps(data, run.settings, processor, run.processes)
    run_steps(model, steps, run.out / STATE, run.device, save_s, say)


def _finish(run: TrainingRun, sets: Sequence[TrainingSet] | None) -> None:
    """The model of the last checkpoint. sets: what it was trained on; None: not known."""
    last = last_checkpoint(run.out / STATE)
    assert last is not None  # of the last step
    weights = load_file(last / WEIGHTS)
    parts: dict[str, dict[str, Any]] = {"llava": {}, "head": {}}
    for name, weight in weights.items():
        part, _, inner = name.partition(".")
        parts[part][inner] = weight
    with complete_model(run.out) as folder:
        for file in (run.out / START).iterdir():
            if file.name != WEIGHTS:
                shutil.copy(file, folder)
        if sets is not None:
            write_card(folder, sets, model=run.out.name, seed=run.settings.seed, version=__version__)
        save_file(parts["llava"], folder / WEIGHTS, metadata={"format": "pt"})
        save_file(parts["head"], folder / HEAD)
    state = load(last / "trainer_state.json")
    log = [[entry["step"], entry["loss"]] for entry in state["log_history"] if "loss" in entry]
    atomic_write_json(run.out / LOG, {"log": log, "steps": state["global_step"]})


def _rows(run: TrainingRun) -> TrainingFile:
    """Raises Ad2Error if these rows cannot be trained on."""
    rows = TrainingFile.read(run.files)
    for file in run.files:
        check_row_file(file)
    if run.settings.see and all(group.seen is None for group in rows.groups):
        raise Ad2Error(
            "the rows do not say what the pictures show ('seen'): export them again, or without --config see"
        )
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


def _refuse_other(run: TrainingRun, rows: TrainingFile) -> None:
    """Raises Ad2Error if the folder holds another training, or a model that no training of this program wrote."""
    file, identity = run.out / SETTINGS, run.identity(rows)
    if not file.exists():
        refuse_model(run.out)
        return
    # A training that was begun before the number of processes was stored continues with any.
    refuse_differences(run.out, {"processes": run.processes, **load(file)}, identity, "a training", "settings")
