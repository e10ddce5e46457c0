"""`ad2 learn loss`: the loss of models on rows that they were not trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.report.table import Table

if TYPE_CHECKING:
    from closedloop_plugin.learn.answer_loss import AnswerLoss

EXAMPLES = """examples:
  ad2 export swift --drives drives/held --questions 4 --config reasons=true --out held.jsonl
  ad2 learn loss models/sighted0 models/sighted1 models/blind1 --rows held.jsonl

The loss of an answer is minus the natural logarithm of the probability that the model says exactly this text. Each row
of the files counts once; `ad2 export swift` repeats frames of rare actions, unless told --config balance=0."""


@dataclass(frozen=True, kw_only=True)
class LearnLossOptions:
    """`ad2 learn loss`."""

    models: tuple[Path, ...] = option("folders of ad2 learn train", metavar="MODEL", positional=True)
    rows: tuple[Path, ...] = option("files of ad2 export swift", metavar="FILE.jsonl")
    pictures: int | None = option(
        "at most so many pictures, spread over the files (default: all)", default=None, least=1
    )
    device: str = option("where PyTorch computes: cpu (default), cuda, cuda:1, mps, ...", default="cpu")
    json: bool = option("print the losses as JSON", default=False)


def register(parts: Any) -> None:
    add_command(
        parts,
        "loss",
        run,
        LearnLossOptions,
        help="loss of models on rows that they were not trained on, with pictures and without",
        description="Prints the loss of the answers by kind of question, with the pictures and with black ones.",
        epilog=EXAMPLES,
    )


def run(options: LearnLossOptions) -> int:
    from closedloop_plugin.learn.answer_loss import answer_losses, spread_pictures
    from closedloop_plugin.learn.training_file import TrainingFile

    rows = spread_pictures(TrainingFile.read(options.rows), options.pictures)
    leaks = {model: trained_on(model, options.rows) for model in options.models}
    found = answer_losses(options.models, rows, options.device)
    if options.json:
        models = [
            {"model": str(model), **leaks[model], "losses": {kind: asdict(loss) for kind, loss in losses.items()}}
            for model, losses in found.items()
        ]
        print(json.dumps({"pictures": len(rows.groups), "models": models}, ensure_ascii=False, indent=1))
        return 0
    show(_table(found, leaks).plain())
    show(f"nats per answer, with the pictures / with black ones; {len(rows.groups):,} pictures")
    return 0


def trained_on(model: Path, files: Sequence[Path]) -> dict[str, int | None]:
    """How many routes the rows have, and how many of them the model was trained on; None: not known."""
    from closedloop_plugin.learn.contamination import contamination
    from closedloop_plugin.learn.training_set import read_training
    from lmms_eval_ad2.data.export.training import set_path
    from lmms_eval_ad2.storage.training_card import model_card

    card = model_card(model)
    known = card is not None and all(set_path(file).is_file() for file in files)
    sets = [one for file in files for one in read_training(file).sets] if known else []
    # Files of one collection name the same routes; routes of two collections may have equal ids.
    routes = {repr(route): route for one in sets for route in one.routes}
    if card is None or not routes:
        return {"routes": None, "trained_on": None}
    found = contamination([card], routes.values())
    return {"routes": found.n, "trained_on": len(found.leaks)}


def _table(found: Mapping[Path, Mapping[str, AnswerLoss]], leaks: Mapping[Path, Mapping[str, int | None]]) -> Table:
    kinds = list(dict.fromkeys(kind for losses in found.values() for kind in losses))
    rows = []
    for model, losses in found.items():
        routes, trained = leaks[model]["routes"], leaks[model]["trained_on"]
        cells = [f"{losses[kind].mean:.3f} / {losses[kind].black:.3f}" for kind in kinds]
        rows.append((model, *cells, "not known" if routes is None else f"{trained} of {routes} routes"))
    counts = next(iter(found.values()))
    heads = ["model", *(f"{kind} (n = {counts[kind].n:,})" for kind in kinds), "trained on"]
    return Table(heads, rows, "l" + "r" * (len(kinds) + 1))
