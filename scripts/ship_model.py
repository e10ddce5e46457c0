"""Make the model of a finished run of scripts/learn.sh the one that comes with the package, and fill its card.

    python scripts/ship_model.py runs/learn

Copies weights, configuration, tokenizer and processor of the last round, packs the file that names its training data,
and writes the blocks `model` and `sets` of the card; scripts/learn_spread.py writes those of its figures.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
from datetime import UTC, datetime
from pathlib import Path

from exit_code import exit_code
from learn import SIGHTED, TAUGHT, LearnOptions
from marked_blocks import insert

from closedloop_plugin.learn.collection import frames_files, frames_of
from closedloop_plugin.learn.model_folder import CONFIG, LOG, WEIGHTS
from closedloop_plugin.learn.trained_agent import FOLDER
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.report.table import Table
from lmms_eval_ad2.storage.files import atomic_path, file_sha256
from lmms_eval_ad2.storage.local_weights import TRAINING_CARD
from lmms_eval_ad2.storage.training_card import TrainingCard, read_card

# Not tokenizer_config.json: it is the same for all trainings, and the package's is without what depends on the machine.
FILES = (CONFIG, WEIGHTS, "chat_template.jinja", "generation_config.json", "processor_config.json", "tokenizer.json")
DRIVERS = {
    "expert": "the expert with disturbances",
    "words": "the expert in words, of which 40 % of the turns are wrong",
    "own1": "an earlier state of the model, in 25 % of the turns the expert",
    "own2": "the next one, in 12.5 % of the turns the expert",
}


def ship(out: Path, folder: Path = FOLDER) -> None:
    """Raises Ad2Error, before anything is written, if the run is not finished or its model is not complete."""
    rounds = LearnOptions().rounds
    model = out / "models" / f"{SIGHTED}{rounds}"
    missing = [name for name in (*FILES, TRAINING_CARD, LOG) if not (model / name).is_file()]
    if missing:
        raise Ad2Error(f"{model}: not a finished model, without {missing[0]}; scripts/learn.sh --out {out} resumes")
    card, drives = read_card(model / TRAINING_CARD), [*TAUGHT, *(f"own{k + 1}" for k in range(rounds))]
    blocks = {"model": _made_by(model, card), "sets": _sets(out, card, drives)}
    insert(folder / "README.md", blocks)
    for name in FILES:
        with atomic_path(folder / name) as copy:
            shutil.copyfile(model / name, copy)
    with atomic_path(folder / f"{TRAINING_CARD}.gz") as packed:
        packed.write_bytes(gzip.compress((model / TRAINING_CARD).read_bytes(), mtime=0))


def _made_by(model: Path, card: TrainingCard) -> str:
    weights = model / WEIGHTS
    day = datetime.fromtimestamp(weights.stat().st_mtime, UTC)
    size = f"{weights.stat().st_size / 1e6:.1f} MB"
    made = f"`scripts/learn.sh --seed {card.seed}`, version {card.version}, {day:%-d %B %Y}: `models/{model.name}`"
    return f"Weights: float32, {size}, SHA-256 `{file_sha256(weights)}`.\nMade by {made}."


def _sets(out: Path, card: TrainingCard, names: list[str]) -> str:
    """The number of frames in words, and the collections with their hashes."""
    known = {one.name: one.to_dict()["sha256"] for one in card.sets}
    rows = []
    for name in names:
        frames = sum(1 for file in frames_files(out / "drives" / name) for _ in frames_of(file))
        if not frames or name not in known:
            raise Ad2Error(f"{out / 'drives' / name}: no frames, or the model was not trained on them")
        rows.append((name, DRIVERS.get(name, "the next one"), frames, known[name]))
    total = sum(frames for _, _, frames, _ in rows)
    shown = [(name, driver, f"{frames:,}", digest) for name, driver, frames, digest in rows]
    table = Table(("set", "driver", "frames", "SHA-256 of the set"), shown, "llrl").markdown()
    return f"{total:,} frames of made routes:\n\n{table}"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("run", type=Path, metavar="OUT", help="a folder of scripts/learn.sh")
    p.add_argument("--folder", type=Path, default=FOLDER, help="the shipped model (default: the package's)")
    args = p.parse_args()
    return exit_code(lambda: ship(args.run, args.folder))


if __name__ == "__main__":
    raise SystemExit(main())
