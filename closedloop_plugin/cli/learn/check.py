"""`ad2 learn check`: whether training data contain what a suite of routes, a task or a dataset measures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.learn.contamination import RouteContamination
    from lmms_eval_ad2.data.export.leaks import TrainedShare
    from lmms_eval_ad2.storage.training_card import TrainingCard


@dataclass(frozen=True, kw_only=True)
class LearnCheckOptions:
    """`ad2 learn check`."""

    set: Path = option(
        "training data: a folder of collected drives, a model folder, training_set.json, ad2_training.json, or the "
        ".jsonl or .card.json of `ad2 export swift`",
        positional=True,
        metavar="SET",
    )
    suite: str = option(
        "what is measured: as --suite of `ad2 drive run`, or a task with questions, a group of tasks, or a dataset: "
        "NAME (all splits but those for training) or NAME/SPLIT",
        positional=True,
        metavar="SUITE",
    )
    maps: Literal["corridor", "town"] = option(
        "maps of the routes of SUITE: corridor, built from the route (default), or town; the same shape in another "
        "place is the same road on a corridor map only",
        default="corridor",
    )
    json: bool = option("print as JSON: all routes that leak; of questions, numbers and examples", default=False)


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "check",
        run,
        LearnCheckOptions,
        help="compare training data with a suite of routes, a task or a dataset: ids, geometry, scenes, questions",
        description="Prints each kind of leak with its number and examples. Exit code: 0 without a leak, 1 with one, "
        "2 for invalid arguments.",
    )


def run(options: LearnCheckOptions) -> int:
    from closedloop_plugin.learn.training_set import read_training

    card = read_training(options.set)
    if shares := _questions(card, options.suite):
        return _questions_result(options, shares)
    return _routes_result(options, _routes(card, options.suite, options.maps))


def _routes(card: TrainingCard, name: str, maps: str) -> RouteContamination:
    from closedloop_plugin.learn.contamination import contamination, trained_route
    from closedloop_plugin.scenarios.suites.lookup import suite

    routes = suite(name, None, argument="SUITE").routes
    if not any(one.routes for one in card.sets):
        raise Ad2Error(f"the training data name no routes, so they cannot be compared with those of {name}")
    return contamination([card], (trained_route(route, maps) for route in routes))


def _questions(card: TrainingCard, name: str) -> list[TrainedShare]:
    """The comparison with each dataset that `name` selects; empty if it is no task, group or dataset."""
    from lmms_eval_ad2.data.export.leaks import TrainedQuestions, trained_share
    from lmms_eval_ad2.data.home.dataset import load_dataset

    wanted = _datasets(name)
    if not wanted:
        return []
    trained = TrainedQuestions(card.sets)
    if trained.empty:
        raise Ad2Error(f"the training data name no questions, scenes or images: they cannot be compared with {name}")
    return [trained_share(load_dataset(data, split), trained, parts) for (data, split), parts in wanted.items()]


def _datasets(name: str) -> dict[tuple[str, str], list[str] | None]:
    """(dataset, split) -> parts that are asked, None: all of them."""
    from lmms_eval_ad2.data.export.leaks import is_training
    from lmms_eval_ad2.data.home import list_datasets
    from lmms_eval_ad2.harness.task_files import groups, task_files

    files = task_files()
    tasks = [files[one] for one in groups().get(name, (name,)) if one in files and files[one].settings]
    found: dict[tuple[str, str], list[str] | None] = {}
    for task in tasks:
        parts = found.setdefault((task.dataset, task.split), [])
        if parts is not None:
            parts.append(task.variant().part)
    data, _, split = name.partition("/")
    for manifest in list_datasets() if not tasks else ():
        if manifest.name == data and (manifest.split == split or not (split or is_training(manifest.split))):
            found[manifest.name, manifest.split] = None
    return found


def _routes_result(options: LearnCheckOptions, found: RouteContamination) -> int:
    if options.json:
        leaks = [vars(leak) for leak in found.leaks]
        print(json.dumps({"routes": found.n, "kinds": found.kinds, "leaks": leaks}, ensure_ascii=False, indent=1))
    elif found.leaks:
        show("\n  ".join([f"{options.set}: {found.text()} of {options.suite}", *found.examples()]))
    else:
        show(f"{options.set}: none of the {found.n} routes of {options.suite} is in it")
    return 1 if found.leaks else 0


def _questions_result(options: LearnCheckOptions, found: Sequence[TrainedShare]) -> int:
    if options.json:
        rows = [{**share.to_dict(), "examples": share.examples} for share in found]
        print(json.dumps(rows, ensure_ascii=False, indent=1))
        return 1 if any(share.leaking for share in found) else 0
    for share in found:
        if share.leaking:
            show("\n  ".join([f"{options.set}: {share.text()}", *share.examples]))
        else:
            show(f"{options.set}: none of the {share.n} questions of {share.what} is in it, nor an image or scene")
    return 1 if any(share.leaking for share in found) else 0
