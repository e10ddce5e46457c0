"""The training set of a collection folder, and training sets as users name them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from closedloop_plugin.core.routes import read_routes
from closedloop_plugin.learn.collection import FOLDER, QUESTIONS, ROUTES
from closedloop_plugin.learn.contamination import trained_route
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.export.leaks import TrainingSetBuilder
from lmms_eval_ad2.data.export.training import check_row_file, set_path
from lmms_eval_ad2.data.home.record_check import record_fault
from lmms_eval_ad2.storage.training_card import (
    SET_FILE,
    TrainingCard,
    TrainingSet,
    model_card,
    read_card,
    write_set,
)  # fmt: skip
from lmms_eval_ad2.storage.untrusted_json import lines, parse

LONGEST_LINE = 1 << 20  # bytes of a question
SUFFIXES = (".jpg", ".jpeg", ".png")


def collection_set(folder: Path, *, name: str | None = None, map_source: str = "") -> TrainingSet:
    """The training set of a folder of `ad2 drive collect`: its driven routes, frames and questions.

    folder: with routes.xml, frames/*/*.jpg and questions.jsonl (one Record per line, images relative to the folder),
    each of the last two only if present. Raises Ad2Error without routes, DataError for a malformed file.
    """
    if not (folder / ROUTES).is_file():
        raise Ad2Error(f"{folder}: no {ROUTES}: not a folder of collected drives")
    driven = {path.name.rpartition("_rep")[0] for path in (folder / FOLDER).glob("*_rep*")}
    routes = [route for route in read_routes(folder / ROUTES) if route.id in driven]
    builder = TrainingSetBuilder()
    if (folder / QUESTIONS).is_file():
        for record in read_questions(folder / QUESTIONS):
            builder.add(record, folder)
    for image in sorted((folder / FOLDER).glob("*/*")):
        if image.suffix.lower() in SUFFIXES:
            builder.add_image(folder, str(image.relative_to(folder)))
    return builder.build(name or folder.absolute().name, (trained_route(route, map_source) for route in routes))


def write_collection_set(folder: Path, *, name: str | None = None, map_source: str = "") -> Path:
    """Write training_set.json of a collection folder, see `collection_set`."""
    return write_set(folder, collection_set(folder, name=name, map_source=map_source))


def read_questions(file: Path) -> Iterator[Record]:
    """The records of a JSONL file. Raises DataError for a line that is no record, or has a `record_fault`."""
    again = "Make the questions again: ad2 drive label DIR"
    for number, line in lines(file, LONGEST_LINE):
        try:
            record = Record.from_dict(parse(line))
            if not (fault := record_fault(record)):
                "".join(
                    (record.id, record.benchmark, record.task, record.cluster, *record.views)
                ).encode()  # can be hashed
        except (ValueError, LookupError, TypeError, AttributeError) as exc:
            expected = "a question as one JSON object"
            raise DataError(file, number, "line", expected, line[:80], f"{exc}. {again}") from exc
        if fault:
            raise DataError(file, number, *fault, again)
        yield record


def read_training(path: Path) -> TrainingCard:
    """What a path names: a collection folder, a model folder, a file of either kind, or an export of `ad2 export swift`
    (its .jsonl or .card.json). Raises Ad2Error with what was expected.

    The set of a collection folder is computed from its files: its training_set.json was written before the folder had
    questions.
    """
    if path.is_dir():
        if (card := model_card(path)) is not None:
            return card
        collected = (path / ROUTES).is_file() and (path / FOLDER).is_dir()
        if (path / SET_FILE).is_file() and not collected:
            return read_card(path / SET_FILE)
        return TrainingCard((collection_set(path),))
    if not path.is_file():
        raise Ad2Error(f"{path}: no such file or folder")
    if path.suffix == ".jsonl" or path.name.endswith(".card.json"):
        return read_card(_of_export(path))
    return read_card(path)


def _of_export(path: Path) -> Path:
    stem = path.name.removesuffix(".card.json").removesuffix(".jsonl")
    rows = path.with_name(f"{stem}.jsonl")
    found = set_path(rows)
    if not found.is_file():
        raise Ad2Error(
            f"{path}: {found.name} is missing, which names its questions: write it with `ad2 export swift` again"
        )
    check_row_file(rows)
    return found
