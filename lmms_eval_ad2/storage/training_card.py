"""What a model was trained on: routes, scenes and questions by name, so that a measurement can be compared with it.

    MODEL/ad2_training.json         next to the weights: {"schema", "model", "sets": [SET, ...], "seed", "version"}
    MODEL/ad2_training.json.gz      the same, packed; the sets of a folder with both files are those of both
    COLLECTION/training_set.json    one SET, with the key "schema"

    SET     name, sha256 (of its content), and
        routes       id and, as far as known, suite, town, map, scenario, trigger, params, points: see TrainedRoute
        scenes       "BENCHMARK:SCENE"
        questions    "BENCHMARK:ID", with those from which a question was derived
        texts        24 hex digits, of question, options and answer
        images       "SIZE:HASH" of a file: bytes, and 24 hex digits of its SHA-256
        image_names  file names that are unique across data sets

Such a file comes with weights of others, so it is untrusted: its size, the points of a route, their coordinates and
its length are bounded, and all types are checked.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.printed import one_line
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.local_weights import TRAINING_CARD, model_folders
from lmms_eval_ad2.storage.untrusted_json import check_nesting, parse, read_bytes

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA = "ad2-training/1"
SET_FILE = "training_set.json"
CARD_FILES = (TRAINING_CARD, f"{TRAINING_CARD}.gz")
MOST_BYTES = 128 << 20  # of a card, also if it is in two files
MOST_VALUES = 10_000_000
MOST_POINTS = 20_000  # of a route: a point every metre of 20 km. The time of a comparison is proportional to it.
MOST_LENGTH = 1e6  # m of a route, which is compared metre by metre
MOST_METRES = 1e7  # of a coordinate; squares of much larger ones overflow
TRAINED_ON = "trained_on"  # key of a task's data in summary.json: {"questions": N, "kinds": {KIND: n}}
STRICT_ENV = "AD2_STRICT_CONTAMINATION"  # "1": a measurement that the model was trained on is refused

_CHECKED: dict[str, Any] = {"strict": True, "allow_inf_nan": False}  # for pydantic


@dataclass(frozen=True)
class TrainedRoute:
    """A route that a model was trained on. All but the id may be unknown.

    suite: name of its route file; map: "corridor" or "town"; trigger: (x, y, yaw) of its scenario; params: of its
    scenario, where (x, y, yaw) is a pose; sha256: of its points; points: (x, y), m, map frame.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _CHECKED

    id: str
    suite: str = ""
    town: str = ""
    map: str = ""
    scenario: str = ""
    trigger: tuple[float, float, float] | None = None
    params: Mapping[str, float | str | tuple[float, ...]] = field(default_factory=dict)
    sha256: str = ""
    points: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class TrainingSet:
    """Training data of one source; see the description of the file."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _CHECKED

    name: str
    sha256: str = ""
    routes: tuple[TrainedRoute, ...] = ()
    scenes: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    image_names: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON, with the hash of the content."""
        content = asdict(self)
        del content["name"], content["sha256"]
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return {"name": self.name, "sha256": digest, **content}


@dataclass(frozen=True)
class TrainingCard:
    """What one model was trained on. `sha256`: of its files; empty if it was not read from any."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _CHECKED

    sets: tuple[TrainingSet, ...]
    model: str | None = None
    seed: int | None = None
    version: str | None = None
    sha256: str = ""

    def about(self) -> dict[str, Any]:
        """For the metadata of a result."""
        return {"model": self.model, "sha256": self.sha256, "sets": [one.name for one in self.sets]}


def read_card(path: Path) -> TrainingCard:
    """The card of a file of either kind, whose only set a training_set.json is.

    Of the two files of CARD_FILES, each means both: a packed model that was trained further was trained on the sets of
    both. All but the sets is then from the plain file, which `write_card` writes.

    Raises DataError if it cannot be read, is too large, not of the schema, has a value of a wrong type, or a route with
    more than MOST_POINTS points or coordinates beyond MOST_METRES.
    """
    files = _card_files(path.parent) if path.name in CARD_FILES else []
    contents = {_content(file): file for file in files or [path]}
    if sum(map(len, contents)) > MOST_BYTES:
        most = f"at most {MOST_BYTES:,} bytes in {' and '.join(CARD_FILES)}"
        raise DataError(path, None, "file", most, f"{sum(map(len, contents)):,}")
    cards = [_card(file, content) for content, file in contents.items()]
    if len(cards) == 1:
        return cards[0]
    digest = hashlib.sha256("".join(card.sha256 for card in cards).encode()).hexdigest()
    return replace(cards[0], sets=tuple(one for card in cards for one in card.sets), sha256=digest)


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path, MOST_BYTES)
    except (OSError, ValueError) as exc:
        raise DataError(path, None, "file", f"JSON of the schema {SCHEMA}", str(exc)) from exc


def _card(path: Path, content: bytes) -> TrainingCard:
    from pydantic import ValidationError

    try:
        value = parse(content, most_values=MOST_VALUES)
    except ValueError as exc:
        raise DataError(path, None, "file", f"JSON of the schema {SCHEMA}", str(exc)) from exc
    found = value.get("schema") if isinstance(value, dict) else type(value).__name__
    if found != SCHEMA:
        raise DataError(path, None, "schema", SCHEMA, found or "no schema", "was it written by another version?")
    digest, several = hashlib.sha256(content).hexdigest(), "sets" in value
    del value  # before the same values are built again, which halves the peak of memory
    try:
        if several:
            card: TrainingCard = _checker(TrainingCard).validate_json(content)
        else:
            card = TrainingCard((_checker(TrainingSet).validate_json(content),))
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "file"
        raise DataError(path, None, where, first["msg"], first["input"]) from exc
    for number, one in enumerate(card.sets):
        _check_routes(path, one, f"sets.{number}." if several else "")
    return replace(card, sha256=digest)


def _check_routes(path: Path, one: TrainingSet, prefix: str) -> None:
    """Raise DataError for a route with too many points or too large coordinates. prefix: of the set's fields."""
    for number, route in enumerate(one.routes):
        place = f"{prefix}routes.{number}"
        if (points := len(route.points)) > MOST_POINTS:
            most = f"at most {MOST_POINTS:,} points"
            raise DataError(path, None, f"{place}.points", most, f"{points:,}", "Write one point a metre or fewer.")
        poses = chain.from_iterable(value for value in route.params.values() if isinstance(value, tuple))
        coordinates = {"points": chain.from_iterable(route.points), "trigger": route.trigger or (), "params": poses}
        for name, values in coordinates.items():
            if (largest := max(map(abs, values), default=0.0)) > MOST_METRES:
                most = f"coordinates of at most {MOST_METRES:,.0f} m"
                raise DataError(path, None, f"{place}.{name}", most, largest)
        if (length := sum(map(math.dist, route.points, route.points[1:]))) > MOST_LENGTH:
            raise DataError(path, None, f"{place}.points", f"a route of at most {MOST_LENGTH:,.0f} m", f"{length:,.0f}")


def write_card(
    folder: Path, sets: Iterable[TrainingSet], *, model: str | None = None, seed: int | None = None,
    version: str | None = None, name: str = TRAINING_CARD,
) -> Path:  # fmt: skip
    """Write ad2_training.json of a model folder, or under another name what a training file was made from.

    An ad2_training.json.gz in the folder stays, and its sets count too: see `read_card`.
    """
    value = {"model": model, "sets": [one.to_dict() for one in sets], "seed": seed, "version": version}
    return _write(folder / name, value)


def write_set(folder: Path, training_set: TrainingSet, name: str = SET_FILE) -> Path:
    """Write training_set.json of a folder of training data."""
    return _write(folder / name, training_set.to_dict())


def cards_of(model_args: str | Mapping[str, Any]) -> list[TrainingCard]:
    """The cards in the local folders that model arguments name. Raises DataError as `read_card`."""
    return [card for folder in model_folders(model_args) if (card := model_card(folder)) is not None]


def model_card(folder: Path) -> TrainingCard | None:
    """The card of a model folder; None if it has none. Raises DataError as `read_card`."""
    return read_card(card_file(folder)) if _card_files(folder) else None


def card_file(folder: Path) -> Path:
    """The card of a model folder, which may be absent; `read_card` reads its other file too."""
    return next(iter(_card_files(folder)), folder / TRAINING_CARD)


def _card_files(folder: Path) -> list[Path]:
    """Also what cannot be read, such as a folder or a link to itself: the model is not one without a card."""
    return [file for name in CARD_FILES if os.path.lexists(file := folder / name)]


def trained_text(kinds: Mapping[str, int], total: int, what: str) -> str:
    """ "trained on 3 of these 220 routes (same_geometry 2, same_id 1)": `kinds` are the numbers by kind of leak."""
    counts = one_line(", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items())))
    return f"trained on {sum(kinds.values())} of these {total} {what}" + (f" ({counts})" if counts else "")


def check_size(path: Path, sets: Iterable[TrainingSet]) -> None:
    """Raises DataError if a card of these sets, at `path`, would be larger than `read_card` accepts."""
    about = {"model": "x" * 500, "seed": 1 << 63, "version": "x" * 50}  # as long as they will be, or longer
    _text(path, {**about, "sets": [one.to_dict() for one in sets]})


def _text(path: Path, value: Mapping[str, Any]) -> str:
    """The content of a file. Raises DataError if it is too large to be read again."""
    text = json.dumps({"schema": SCHEMA, **value}, ensure_ascii=False, separators=(",", ":")) + "\n"
    content, what = text.encode(), "Train on fewer questions, or divide the data."
    if len(content) > MOST_BYTES:
        most = f"a list of training data of at most {MOST_BYTES:,} bytes"
        raise DataError(path, None, "file", most, f"{len(content):,}", what)
    try:
        check_nesting(content, MOST_VALUES)
    except ValueError as exc:
        raise DataError(path, None, "file", f"at most {MOST_VALUES:,} values", str(exc), what) from exc
    return text


def _write(path: Path, value: Mapping[str, Any]) -> Path:
    text = _text(path, value)
    with atomic_write(path) as handle:
        handle.write(text)
    return path


@cache
def _checker(kind: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
