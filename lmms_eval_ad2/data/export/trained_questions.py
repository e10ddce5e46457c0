"""The questions of training data as a TrainingSet, and the comparison of an evaluated split with such sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.printed import one_line
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.export.leaks import (
    TrainedQuestions,
    content_key,
    item_names,
    scene_name,
    text_key,
    unique_name,
)
from lmms_eval_ad2.data.home import Dataset
from lmms_eval_ad2.storage.image_files import locate
from lmms_eval_ad2.storage.training_card import TrainedRoute, TrainingSet, trained_text

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
    return compared(f"{dataset.name}/{dataset.split}", _chosen(dataset, parts), dataset.image_root, trained)


def _chosen(dataset: Dataset, parts: Sequence[str] | None) -> Iterator[Record]:
    return (record for record in dataset.records() if parts is None or record.task in parts)


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
