"""What a model was trained on: routes, scenes and questions by name, so that a measurement can be compared with it.

    MODEL/ad2_training.json         next to the weights: {"schema", "model", "sets": [SET, ...], "seed", "version"};
                                    or packed, with the end .gz
    COLLECTION/training_set.json    one SET, with the key "schema"

    SET     name, sha256 (of its content), and
        routes       id and, as far as known, suite, town, map, scenario, trigger, params, points: see TrainedRoute
        scenes       "BENCHMARK:SCENE"
        questions    "BENCHMARK:ID", with those from which a question was derived
        texts        24 hex digits, of question, options and answer
        images       "SIZE:HASH" of a file: bytes, and 24 hex digits of its SHA-256
        image_names  file names that are unique across data sets

Such a file comes with weights of others, so it is untrusted: its size and the points of a route are bounded, and all
types are checked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from lmms_eval_ad2.errors import DataError
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.local_weights import TRAINING_CARD, model_folders
from lmms_eval_ad2.storage.untrusted_json import parse, read_bytes

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA = "ad2-training/1"
SET_FILE = "training_set.json"
MOST_BYTES = 128 << 20
MOST_VALUES = 10_000_000
MOST_POINTS = 20_000  # of a route: a point every metre of 20 km. The time of a comparison is proportional to it.
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
    """What one model was trained on. `sha256`: of the file; empty if it was not read from one."""

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

    Raises DataError if it cannot be read, is too large, not of the schema, has a value of a wrong type, or a route with
    more than MOST_POINTS points.
    """
    from pydantic import ValidationError

    try:
        content = read_bytes(path, MOST_BYTES)
        value = parse(content, most_values=MOST_VALUES)
    except (OSError, ValueError) as exc:
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
        _check_points(path, one, f"sets.{number}." if several else "")
    return TrainingCard(card.sets, card.model, card.seed, card.version, digest)


def _check_points(path: Path, one: TrainingSet, prefix: str) -> None:
    """Raise DataError for a route with too many points. prefix: of the set's fields in the file."""
    for number, route in enumerate(one.routes):
        if (points := len(route.points)) > MOST_POINTS:
            field, most = f"{prefix}routes.{number}.points", f"at most {MOST_POINTS:,} points"
            raise DataError(path, None, field, most, f"{points:,}", "Write one point a metre or fewer.")


def write_card(
    folder: Path, sets: Iterable[TrainingSet], *, model: str | None = None, seed: int | None = None,
    version: str | None = None, name: str = TRAINING_CARD,
) -> Path:  # fmt: skip
    """Write ad2_training.json of a model folder, or under another name what a training file was made from."""
    value = {"model": model, "sets": [one.to_dict() for one in sets], "seed": seed, "version": version}
    return _write(folder / name, value)


def write_set(folder: Path, training_set: TrainingSet, name: str = SET_FILE) -> Path:
    """Write training_set.json of a folder of training data."""
    return _write(folder / name, training_set.to_dict())


def cards_of(model_args: str | Mapping[str, Any]) -> list[TrainingCard]:
    """The cards in the local folders that model arguments name. Raises DataError for a malformed one."""
    return [read_card(file) for folder in model_folders(model_args) if (file := card_file(folder)).is_file()]


def card_file(folder: Path) -> Path:
    """The card of a model folder, which may be absent."""
    packed = folder / f"{TRAINING_CARD}.gz"
    return packed if packed.is_file() else folder / TRAINING_CARD


def trained_text(kinds: Mapping[str, int], total: int, what: str) -> str:
    """ "trained on 3 of these 220 routes (same_geometry 2, same_id 1)": `kinds` are the numbers by kind of leak."""
    counts = ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items()))
    return f"trained on {sum(kinds.values())} of these {total} {what}" + (f" ({counts})" if counts else "")


def _write(path: Path, value: Mapping[str, Any]) -> Path:
    with atomic_write(path) as handle:
        json.dump({"schema": SCHEMA, **value}, handle, ensure_ascii=False, separators=(",", ":"))
        handle.write("\n")
    return path


@cache
def _checker(kind: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
