"""Leak check: whether a training question, or its evidence, is also in an evaluation split of the data home, and
whether an evaluated question, or its evidence, is also in the sets that a model was trained on.

A leak has one kind, the most serious that applies:

    evaluation_source   derived from a question of an evaluation split (meta.source_split)
    same_item           the same question, or both derived from the same one
    same_question       text and image both occur in the evaluation
    same_image          an image of the evaluation, by name or by content
    same_scene          another image of a scene of the evaluation (may be allowed)
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import one_line
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.home import Dataset, DatasetManifest, list_datasets
from lmms_eval_ad2.data.home.dataset import load_dataset
from lmms_eval_ad2.scoring.variant import TaskVariant
from lmms_eval_ad2.storage.files import file_sha256
from lmms_eval_ad2.storage.image_files import locate
from lmms_eval_ad2.storage.training_card import TrainedRoute, TrainingSet, trained_text

# The questions of training data as a TrainingSet, and the comparison of an evaluated split with such sets.

EXAMPLES = 3  # of each kind


class TrainingSetBuilder:
    """Collects the questions, images and scenes of training data, each once, in order."""

    def __init__(self) -> None:
        self._questions: dict[str, None] = {}
        self._scenes: dict[str, None] = {}
        self._texts: dict[str, None] = {}
        self._images: dict[str, None] = {}
        self._image_names: dict[str, None] = {}
        self._seen: set[Path] = set()

    def add(self, record: Record, image_root: Path) -> None:
        self._questions |= dict.fromkeys(item_names(record))
        self._texts[text_key(record).hex()] = None
        if scene := scene_name(record):
            self._scenes[scene] = None
        for name in record.images:
            self.add_image(image_root, name)

    def add_image(self, root: Path, name: str) -> None:
        """Add an image by its content, and by its name if that is unique; a missing one only by its name."""
        path = root / name
        if path in self._seen:
            return
        self._seen.add(path)
        if unique_name(name):
            self._image_names[path.name] = None
        try:
            self._images[content_key(locate(root, name))] = None
        except OSError:
            return

    def build(self, name: str, routes: Iterable[TrainedRoute] = ()) -> TrainingSet:
        return TrainingSet(
            name=name,
            routes=tuple(routes),
            scenes=tuple(self._scenes),
            questions=tuple(self._questions),
            texts=tuple(self._texts),
            images=tuple(self._images),
            image_names=tuple(self._image_names),
        )


@dataclass(slots=True)
class TrainedShare:
    """How many of the evaluated questions have evidence in training sets: numbers by kind, and examples of each."""

    what: str  # the evaluated data: NAME/SPLIT
    n: int
    kinds: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    @property
    def leaking(self) -> int:
        return self.kinds.total()

    def to_dict(self) -> dict[str, Any]:
        """For the metadata of a result."""
        return {"data": self.what, "questions": self.n, "kinds": dict(sorted(self.kinds.items()))}

    def text(self) -> str:
        return trained_text(self.kinds, self.n, f"questions of {self.what}")


def trained_share(dataset: Dataset, trained: TrainedQuestions, parts: Sequence[str] | None = None) -> TrainedShare:
    """Compare the records of a dataset with training sets. `parts`: only records of these parts (Record.task)."""
    records = (record for record in dataset.records() if parts is None or record.task in parts)
    return compared(f"{dataset.name}/{dataset.split}", records, dataset.image_root, trained)


def compared(what: str, records: Iterable[Record], image_root: Path, trained: TrainedQuestions) -> TrainedShare:
    """As `trained_share`, for any records."""
    share = TrainedShare(what, 0)
    for record in records:
        share.n += 1
        if leak := trained.leak(record, image_root):
            share.kinds[leak.kind] += 1
            if share.kinds[leak.kind] <= EXAMPLES:
                shown = f" ({leak.what})" if leak.what else ""
                share.examples.append(one_line(f"{leak.kind}: {record.id} is in {leak.held} as {leak.held_id}{shown}"))
    return share


# Tasks to export, and the distinction between training and evaluation splits.

TRAIN = "train"
# Names of evaluation splits in the releases and in common use.
EVALUATION = frozenset(("test", "val", "valid", "validation", "dev", "devel", "mini", "eval", "evaluation", "minival"))


@dataclass(frozen=True, slots=True)
class ExportTask:
    """A task as in its YAML file. `dataset`: name in the data home; `tested`: the split that the task evaluates."""

    name: str
    dataset: str
    tested: str
    variant: TaskVariant


def is_training(split: str) -> bool:
    """True for train, train_front, train-2, ...; False for train_val."""
    return _words(split)[0] == TRAIN and not is_evaluation(split)


def is_evaluation(split: str) -> bool:
    """True for test, val, val_q_only, ...

    A split of any other name (`spring`) can be exported; otherwise the leak check treats it as held out.
    """
    return bool(EVALUATION.intersection(_words(split)))


def _words(split: str) -> list[str]:
    return re.split(r"[_.-]", split.lower())


def refuse_evaluation(tasks: Sequence[ExportTask], split: str, tested: Mapping[str, Collection[str]]) -> None:
    """Raise Ad2Error if `split` has the name of an evaluation split, or if a task evaluates on it (`tested`)."""
    for task in tasks:
        if is_evaluation(split) or split in tested.get(task.dataset, ()):
            raise Ad2Error(
                f"--split {split}: {task.dataset} is evaluated on this split; training files are made of training "
                f"splits only: ad2 data import {task.dataset} SOURCE --split train, then --split train"
            )


def held_out(exported: Collection[Dataset]) -> list[DatasetManifest]:
    """Every imported split that is neither a training split nor among the exported ones."""
    exporting = {(d.name, d.split) for d in exported}
    return [m for m in list_datasets() if not is_training(m.split) and (m.name, m.split) not in exporting]


SCENE = "same_scene"
_HEX = re.compile(r"(?:[0-9a-f]{2}){1,64}")
KINDS = ("evaluation_source", "same_item", "same_question", "same_image", SCENE)


@dataclass(frozen=True, slots=True)
class EvaluationLeak:
    """A training question with evaluated evidence, or an evaluated question with trained evidence.

    `held`: dataset and split of the evaluation, or the training set; `held_id`: its first question with this evidence;
    `what`: the image or scene.
    """

    kind: str
    held: str
    held_id: str
    what: str = ""


class QuestionIndex:
    """Index of the questions, images and scenes of one side of a comparison; about 500 bytes per question.

    `_names` are its parts (splits, training sets), `_seen` the place of each key: number of the part, id there.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._seen: dict[bytes, tuple[int, str]] = {}
        self._texts: set[bytes] = set()
        self._matches: dict[Path, tuple[int, str] | None] = {}

    def leak(self, record: Record, image_root: Path) -> EvaluationLeak | None:
        """What `record` has in common with the index, the most serious kind; None if nothing."""
        for key in item_keys(record):
            if found := self._seen.get(key):
                return self._leak("same_item", found)
        for path in record.images:
            if found := self._image_match(image_root, path):
                same = text_key(record) in self._texts
                return self._leak("same_question" if same else "same_image", found, path)
        scene = scene_key(record)
        if scene and (found := self._seen.get(scene)):
            return self._leak(SCENE, found, record.cluster)
        return None

    def _leak(self, kind: str, found: tuple[int, str], what: str = "") -> EvaluationLeak:
        return EvaluationLeak(kind, self._names[found[0]], found[1], what)

    def _image_match(self, root: Path, name: str) -> tuple[int, str] | None:
        """The place of this image in the index; file contents are read only if sizes are equal."""
        path = root / name
        if path not in self._matches:
            self._matches[path] = self._seen.get(image_key(path)) or self._same_content(root, name)
        return self._matches[path]

    def _same_content(self, root: Path, name: str) -> tuple[int, str] | None:
        """The place of an image with the same content; None also if the image is missing."""
        raise NotImplementedError


class HeldOutIndex(QuestionIndex):
    """Index of the questions, images and scenes of all evaluation splits."""

    def __init__(self, splits: Iterable[DatasetManifest]) -> None:
        super().__init__()
        self.splits = tuple(splits)
        self._sizes: dict[int, dict[Path, tuple[int, str]]] = {}
        self._indexed: set[Path] = set()
        self._content: dict[Path, str] = {}
        for manifest in self.splits:
            self._add(manifest)

    def leak(self, record: Record, image_root: Path) -> EvaluationLeak | None:
        """The reason why `record` must not be used for training, or None."""
        source_split = record.meta.get("source_split")
        if record.meta.get("source_id") and source_split and is_evaluation(str(source_split)):
            return EvaluationLeak(KINDS[0], f"{origin(record)}/{source_split}", str(record.meta["source_id"]))
        return super().leak(record, image_root)

    def _add(self, manifest: DatasetManifest) -> None:
        dataset, number = load_dataset(manifest.name, manifest.split), len(self._names)
        self._names.append(f"{manifest.name}/{manifest.split}")
        bar = tqdm(dataset.records(), total=manifest.n, desc=self._names[-1], disable=None)
        for record in bar:
            where = (number, record.id)
            self._texts.add(text_key(record))
            scene = scene_key(record)
            for key in (*item_keys(record), *((scene,) if scene else ())):
                self._seen.setdefault(key, where)
            for path in record.images:
                self._add_image(dataset.image_root, path, where)

    def _add_image(self, root: Path, name: str, where: tuple[int, str]) -> None:
        path = root / name
        if path in self._indexed:
            return
        self._indexed.add(path)
        self._seen.setdefault(image_key(path), where)
        try:
            file = locate(root, name)
            self._sizes.setdefault(file.stat().st_size, {})[file] = where
        except OSError:
            return  # the images of an evaluation split may have moved: then only names are compared

    def _same_content(self, root: Path, name: str) -> tuple[int, str] | None:
        try:
            path = locate(root, name)
            others = self._sizes.get(path.stat().st_size, {})
            return next((where for other, where in others.items() if self._hash(other) == self._hash(path)), None)
        except OSError:
            return None  # a missing image is reported by the export

    def _hash(self, path: Path) -> str:
        if path not in self._content:
            self._content[path] = file_sha256(path)
        return self._content[path]


class TrainedQuestions(QuestionIndex):
    """Index of the questions, images and scenes of training sets, to compare evaluated records with."""

    def __init__(self, sets: Iterable[TrainingSet]) -> None:
        super().__init__()
        self._content: dict[str, tuple[int, str]] = {}
        for number, one in enumerate(sets):
            self._names.append(one.name)
            keyed = [(question_key(text), text) for text in one.questions]
            keyed += [(named_scene_key(text), text) for text in one.scenes]
            keyed += [(_key("image", text), text) for text in one.image_names]
            for key, text in keyed:
                self._seen.setdefault(key, (number, text))
            self._texts.update(bytes.fromhex(text) for text in one.texts if _HEX.fullmatch(text))
            for text in one.images:
                self._content.setdefault(text, (number, text))
        self._sizes = {text.partition(":")[0] for text in self._content}

    @property
    def empty(self) -> bool:
        """Whether the sets name no question, image or scene."""
        return not (self._seen or self._content)

    def _same_content(self, root: Path, name: str) -> tuple[int, str] | None:
        try:
            path = locate(root, name)
            return self._content.get(content_key(path)) if str(path.stat().st_size) in self._sizes else None
        except OSError:
            return None  # only names are compared


# Keys by which a question, its source, text, images and scene are compared. Short names ("0001.jpg", scene "3") occur
# in several folders and benchmarks with different meanings; long ones (nuScenes' tokens and time stamps) are unique.
UNIQUE_LENGTH = 20  # characters from which the name of a file or scene is unique across folders and benchmarks


def item_names(record: Record) -> Iterator[str]:
    """ "BENCHMARK:ID" of the question and, if it was derived from another (AutoDrive-QA), of its source."""
    yield f"{record.benchmark}:{record.id}"
    if source_id := record.meta.get("source_id"):
        yield f"{origin(record)}:{source_id}"


def item_keys(record: Record) -> Iterator[bytes]:
    return map(question_key, item_names(record))


def question_key(name: str) -> bytes:
    """Key of a question "BENCHMARK:ID"."""
    benchmark, _, id_ = name.partition(":")
    return _key("item", benchmark, id_)


def origin(record: Record) -> str:
    """The benchmark from which the evidence comes."""
    return str(record.meta.get("source") or record.benchmark)


def text_key(record: Record) -> bytes:
    """Key of question, options and answer; ignores case and spacing."""
    options = sorted(o.text.get("en") for o in record.options)
    parts = (record.question.en, record.question.zh, record.answer.en, record.answer.zh, *options)
    return _key("words", *(" ".join(part.casefold().split()) for part in parts))


def image_key(path: Path) -> bytes:
    """Key of an image: its file name, or its path if the name is short."""
    return _key("image", PurePosixPath(path).name if unique_name(path) else str(path.resolve()))


def unique_name(path: Path | str) -> bool:
    return len(PurePosixPath(path).stem) >= UNIQUE_LENGTH


def content_key(path: Path) -> str:
    """ "SIZE:HASH" of a file, as in a training set."""
    return f"{path.stat().st_size}:{file_sha256(path)[:24]}"


def scene_name(record: Record) -> str | None:
    """ "BENCHMARK:SCENE" of the record's cluster; None if the cluster is its own image."""
    scene = record.cluster.removeprefix(f"{origin(record)}:")
    return None if not scene or scene in record.images else f"{origin(record)}:{scene}"


def scene_key(record: Record) -> bytes | None:
    """Key of the record's cluster; None if the cluster is its own image."""
    name = scene_name(record)
    return None if name is None else named_scene_key(name)


def named_scene_key(name: str) -> bytes:
    """Key of a scene "BENCHMARK:SCENE"."""
    benchmark, _, scene = name.partition(":")
    return _key("scene", scene) if len(scene) >= UNIQUE_LENGTH else _key("scene", benchmark, scene)


def _key(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=12).digest()
