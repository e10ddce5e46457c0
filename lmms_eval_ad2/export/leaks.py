"""Is a question to train on, or its evidence, also in an evaluation split of the data home?

A leak has one kind, the gravest that applies:

    evaluation_source   made of a question of a split that is there to evaluate (meta.source_split)
    same_item           the same question, or both were made of the same one
    same_question       words and picture are both evaluated
    same_image          a picture of the evaluation, by name or by content
    same_scene          another picture of a scene of the evaluation (may be allowed)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tqdm import tqdm

from lmms_eval_ad2.data.home import DatasetManifest
from lmms_eval_ad2.data.home.dataset import load_dataset
from lmms_eval_ad2.data.home.parts import file_sha256
from lmms_eval_ad2.export.splits import is_evaluation
from lmms_eval_ad2.records import Record

SCENE = "same_scene"
KINDS = ("evaluation_source", "same_item", "same_question", "same_image", SCENE)


@dataclass(frozen=True, slots=True)
class EvaluationLeak:
    """`held`: dataset and split that is evaluated on; `held_id`: its question (the first one that was met)."""

    kind: str
    held: str
    held_id: str
    what: str = ""


class HeldOutIndex:
    """The questions, pictures and scenes of all evaluation splits; some 500 bytes a question."""

    def __init__(self, splits: Iterable[DatasetManifest]) -> None:
        self.splits = tuple(splits)
        self._names: list[str] = []
        self._seen: dict[bytes, tuple[int, str]] = {}
        self._words: set[bytes] = set()
        self._sizes: dict[int, dict[Path, tuple[int, str]]] = {}
        self._stated: set[Path] = set()
        self._content: dict[Path, str] = {}
        self._clear: dict[Path, tuple[int, str] | None] = {}
        for manifest in self.splits:
            self._add(manifest)

    def leak(self, record: Record, image_root: Path) -> EvaluationLeak | None:
        """Why `record` may not be trained on, or None."""
        made_of = record.meta.get("source_split")
        if record.meta.get("source_id") and made_of and is_evaluation(str(made_of)):
            return EvaluationLeak(KINDS[0], f"{origin(record)}/{made_of}", str(record.meta["source_id"]))
        for key in item_keys(record):
            if found := self._seen.get(key):
                return self._leak("same_item", found)
        for path in record.images:
            if found := self._picture(image_root / path):
                same = words_key(record) in self._words
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
            self._words.add(words_key(record))
            scene = scene_key(record)
            for key in (*item_keys(record), *((scene,) if scene else ())):
                self._seen.setdefault(key, where)
            for path in record.images:
                self._add_picture(dataset.image_root / path, where)

    def _add_picture(self, path: Path, where: tuple[int, str]) -> None:
        if path in self._stated:
            return
        self._stated.add(path)
        self._seen.setdefault(image_key(path), where)
        try:
            self._sizes.setdefault(path.stat().st_size, {})[path] = where
        except OSError:
            return  # the images of an evaluation split may lie elsewhere: names are compared all the same

    def _picture(self, path: Path) -> tuple[int, str] | None:
        """The evaluation question that shows this picture; content is read only where sizes are equal."""
        if path not in self._clear:
            self._clear[path] = self._seen.get(image_key(path)) or self._same_content(path)
        return self._clear[path]

    def _same_content(self, path: Path) -> tuple[int, str] | None:
        try:
            others = self._sizes.get(path.stat().st_size, {})
            return next((where for other, where in others.items() if self._hash(other) == self._hash(path)), None)
        except OSError:
            return None  # a missing picture is told when it is to be exported

    def _hash(self, path: Path) -> str:
        if path not in self._content:
            self._content[path] = file_sha256(path)
        return self._content[path]


# By what a question is known again: its id, the question that it was made of, its words, its pictures, its scene.
#
# Names that anybody may give ("0001.jpg", scene "3") say nothing across folders and benchmarks; long ones (nuScenes'
# tokens and time stamps) do.
TELLING = 20  # characters from which a file's or scene's name is taken to be the same thing everywhere


def item_keys(record: Record) -> Iterator[bytes]:
    """The question itself and, where it was made of another (AutoDrive-QA), that one."""
    yield _key("item", record.benchmark, record.id)
    if source_id := record.meta.get("source_id"):
        yield _key("item", origin(record), str(source_id))


def origin(record: Record) -> str:
    """The benchmark that the evidence comes from."""
    return str(record.meta.get("source") or record.benchmark)


def words_key(record: Record) -> bytes:
    """Question, options and answer, whatever case and spaces."""
    options = sorted(o.text.get("en") for o in record.options)
    parts = (record.question.en, record.question.zh, record.answer.en, record.answer.zh, *options)
    return _key("words", *(" ".join(part.casefold().split()) for part in parts))


def image_key(path: Path) -> bytes:
    """A picture by its name; by its place where the name is short."""
    name = PurePosixPath(path).name
    return _key("image", name) if len(PurePosixPath(name).stem) >= TELLING else _key("image", str(path.resolve()))


def scene_key(record: Record) -> bytes | None:
    """What the question shares its evidence with; None where that is its own picture."""
    scene = record.cluster.removeprefix(f"{origin(record)}:")
    if not scene or scene in record.images:
        return None
    return _key("scene", scene) if len(scene) >= TELLING else _key("scene", origin(record), scene)


def _key(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=12).digest()
