"""`ad2 learn train`: train a small model on a training file, on the CPU or a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from closedloop_plugin.cli.learn.model_size import MOST_SEED, ModelSizeOptions, size_of, size_words
from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

EXAMPLES = """examples:
  ad2 export swift --drives collected --out rows.jsonl
  ad2 learn train --rows rows.jsonl --out model --processes 2
  ad2 drive run --suite embedded220 --agent lmms:llava_hf,pretrained=model,device=cpu,device_map=cpu \\
      --size 160x90 --config decision_hz=2 --out runs/model
  ad2 learn train --rows rows.jsonl --out larger --config hidden=512 --config layers=8 --device cuda

The same command resumes an interrupted or killed training. On the CPU, the same rows, options and number of processes
give the same weights."""


@dataclass(frozen=True, kw_only=True)
class LearnTrainOptions(ModelSizeOptions):
    """`ad2 learn train`."""

    rows: tuple[Path, ...] = option("files of ad2 export swift", metavar="FILE.jsonl")
    out: Path = option("model folder to write", metavar="DIR")
    start: Path | None = option(
        "model folder to continue from (default: random weights of the size below)", default=None, metavar="DIR"
    )
    seed: int = option("seed of weights and order (default 0)", default=0, least=0, most=MOST_SEED)
    blind: bool = option("train a blind twin: it sees black pictures only, also when it drives", default=False)
    epochs: float = option("passes over the pictures (default 8)", default=8.0, least=0, most=1e6)
    steps: int | None = option(
        "number of steps, instead of --epochs; 0: random weights, for ms-swift", default=None, least=0
    )
    see: int = option(
        "steps before these, in which the vision encoder learns where the pictures show what (default 0)", default=0,
        least=0, expert=True,
    )  # fmt: skip
    batch: int = option("pictures per step (default 32)", default=32, least=1, expert=True)
    per_picture: int = option(
        "questions about a picture in a step, at most (default 3)", default=3, least=1, expert=True
    )
    driving_weight: float = option(
        "weight of the driving questions; others weigh 1 (default 1)", default=1.0, least=0.01, most=1000, expert=True
    )
    choice_weight: float = option(
        "weight of multiple choice and of comparisons of two things, among rows of --drives (default 1)",
        default=1.0, least=0.01, most=1000, expert=True,
    )  # fmt: skip
    dropout: float = option(
        "share of the values of a picture's tokens that are set to 0 at random when it is asked about (default 0)",
        default=0.0, least=0, most=0.9, expert=True,
    )  # fmt: skip
    rate: float = option("highest learning rate (default 0.001)", default=1e-3, least=0, most=10, expert=True)
    processes: int = option("processes that share each batch, one core each (default 1)", default=1, least=1)
    device: str = option(
        "where PyTorch computes: cpu (default), cuda, cuda:1, mps, ...; one process only, unless cpu", default="cpu",
        metavar="DEVICE",
    )  # fmt: skip
    save_s: float = option("seconds between saved states (default 120)", default=120.0, least=0, expert=True)


def register(parts: Any) -> None:
    add_command(
        parts,
        "train",
        run,
        LearnTrainOptions,
        help="train a small model on a training file, from random weights, on the CPU or a GPU",
        epilog=EXAMPLES,
    )


def run(options: LearnTrainOptions) -> int:
    from closedloop_plugin.learn.row_trainer import TrainingSettings
    from closedloop_plugin.learn.train import train
    from closedloop_plugin.learn.trained_agent import drive_command
    from lmms_eval_ad2.core.errors import Ad2Error

    if options.start and (sizes := size_words(options)):
        raise Ad2Error(f"--start: the model has its size; {' '.join(sizes)} would have no effect; omit it")
    if options.steps == 0:
        return _untrained(options)
    settings = TrainingSettings(
        seed=options.seed, epochs=options.epochs, steps=options.steps, batch=options.batch,
        per_picture=options.per_picture, driving_weight=options.driving_weight, choice_weight=options.choice_weight,
        dropout=options.dropout, see=options.see, rate=options.rate, start=options.start, blind=options.blind,
        size=size_of(options),
    )  # fmt: skip
    out = train(
        options.rows, options.out, settings, processes=options.processes, device=options.device, save_s=options.save_s,
        say=_show_now,
    )  # fmt: skip
    show(f"{out}: trained; to drive with it: {drive_command(out, options.device)}")
    return 0


def _untrained(options: LearnTrainOptions) -> int:
    """A model with random weights and a tokenizer of the files' sentences."""
    from closedloop_plugin.learn.model_folder import new_model
    from closedloop_plugin.learn.tiny_model import make_tiny_model
    from closedloop_plugin.learn.trained_agent import drive_command
    from closedloop_plugin.learn.training_file import TrainingFile
    from lmms_eval_ad2.core.errors import Ad2Error

    if options.start or options.blind:
        raise Ad2Error("--steps 0 trains nothing: --start and --blind would have no effect; omit them")
    rows, size = TrainingFile.read(options.rows), size_of(options)  # before the folder is made
    with new_model(options.out) as folder:
        make_tiny_model(rows, folder, options.seed, size)
    show(f"{options.out}: a model with random weights; to drive with it: {drive_command(options.out)}")
    return 0


def _show_now(text: str) -> None:
    show(text, flush=True)
