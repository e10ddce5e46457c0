"""Leak check: whether a training question, or its evidence, is also in an evaluation split of the data home.

A leak has one kind, the most serious that applies:

    evaluation_source   derived from a question of an evaluation split (meta.source_split)
    same_item           the same question, or both derived from the same one
    same_question       text and image both occur in the evaluation
    same_image          an image of the evaluation, by name or by content
    same_scene          another image of a scene of the evaluation (may be allowed)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tqdm import tqdm

from lmms_eval_ad2.data.home import DatasetManifest
from lmms_eval_ad2.data.home.dataset import load_dataset
from lmms_eval_ad2.export.splits import is_evaluation
from lmms_eval_ad2.image_files import locate
from lmms_eval_ad2.records import Record
from lmms_eval_ad2.storage.files import file_sha256

SCENE = "same_scene"
KINDS = ("evaluation_source", "same_item", "same_question", "same_image", SCENE)


@dataclass(frozen=True, slots=True)
class EvaluationLeak:
    """A training question with evaluated evidence.

    `held`: dataset and split of the evaluation; `held_id`: its first question with this evidence; `what`: the image or
    scene.
    """

    kind: str
    held: str
    held_id: str
    what: str = ""


class HeldOutIndex:
    """Index of the questions, images and scenes of all evaluation splits; about 500 bytes per question."""

    def __init__(self, splits: Iterable[DatasetManifest]) -> None:
        self.splits = tuple(splits)
        self._names: list[str] = []
        self._seen: dict[bytes, tuple[int, str]] = {}
        self._texts: set[bytes] = set()
        self._sizes: dict[int, dict[Path, tuple[int, str]]] = {}
        self._indexed: set[Path] = set()
        self._content: dict[Path, str] = {}
        self._matches: dict[Path, tuple[int, str] | None] = {}
        for manifest in self.splits:
            self._add(manifest)

    def leak(self, record: Record, image_root: Path) -> EvaluationLeak | None:
        """The reason why `record` must not be used for training, or None."""
        source_split = record.meta.get("source_split")
        if record.meta.get("source_id") and source_split and is_evaluation(str(source_split)):
            return EvaluationLeak(KINDS[0], f"{origin(record)}/{source_split}", str(record.meta["source_id"]))
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

    def _image_match(self, root: Path, name: str) -> tuple[int, str] | None:
        """The evaluation question that shows this image; file contents are read only if sizes are equal."""
        path = root / name
        if path not in self._matches:
            self._matches[path] = self._seen.get(image_key(path)) or self._same_content(root, name)
        return self._matches[path]

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


# Keys by which a question, its source, text, images and scene are compared. Short names ("0001.jpg", scene "3") occur
# in several folders and benchmarks with different meanings; long ones (nuScenes' tokens and time stamps) are unique.
UNIQUE_LENGTH = 20  # characters from which the name of a file or scene is unique across folders and benchmarks


def item_keys(record: Record) -> Iterator[bytes]:
    """The key of the question and, if it was derived from another (AutoDrive-QA), that of its source."""
    yield _key("item", record.benchmark, record.id)
    if source_id := record.meta.get("source_id"):
        yield _key("item", origin(record), str(source_id))


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
    name = PurePosixPath(path).name
    unique = len(PurePosixPath(name).stem) >= UNIQUE_LENGTH
    return _key("image", name if unique else str(path.resolve()))


def scene_key(record: Record) -> bytes | None:
    """Key of the record's cluster; None if the cluster is its own image."""
    scene = record.cluster.removeprefix(f"{origin(record)}:")
    if not scene or scene in record.images:
        return None
    return _key("scene", scene) if len(scene) >= UNIQUE_LENGTH else _key("scene", origin(record), scene)


def _key(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=12).digest()
