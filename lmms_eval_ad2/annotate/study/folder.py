"""The folder of a study of preferences: study.json, pairs.jsonl, and votes.jsonl (votes.py).

pairs.jsonl has one line per pair of answers: task, id of the record, names and answers of two models, and the record.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.storage.files import atomic_write, atomic_write_json, file_sha256
from lmms_eval_ad2.storage.untrusted_json import lines, load, parse

SCHEMA = "ad2-study/1"
ABOUT, PAIRS = "study.json", "pairs.jsonl"


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """Two models' answers to one record. `key` identifies the pair in the votes."""

    task: str
    id: str
    models: tuple[str, str]
    answers: tuple[str, str]
    question: str
    record: Record

    @property
    def key(self) -> str:
        return json.dumps([self.task, self.id, *self.models], ensure_ascii=False)

    def to_json(self) -> str:
        own = {name: getattr(self, name) for name in self.__slots__ if name != "record"}
        return json.dumps({**own, "record": json.loads(self.record.to_json())}, ensure_ascii=False)

    @classmethod
    def from_json(cls, data: Any) -> AnswerPair:
        """Raises ValueError, TypeError or KeyError for another object."""
        texts = [data["task"], data["id"], data["question"], *data["models"], *data["answers"]]
        if not all(isinstance(text, str) for text in texts) or len(texts) != 7:
            raise ValueError("expected texts, two models and two answers")
        return cls(
            task=data["task"], id=data["id"], models=tuple(data["models"]), answers=tuple(data["answers"]),
            question=data["question"], record=Record.from_dict(data["record"]),
        )  # fmt: skip


@dataclass(frozen=True)
class PairwiseStudy:
    """An opened study. runs: label -> run folder; image_roots: task -> folder of its images; drawn: task -> counts."""

    path: Path
    seed: int
    runs: Mapping[str, str]
    image_roots: Mapping[str, str]
    drawn: Mapping[str, Any]
    pairs: tuple[AnswerPair, ...] = field(default=(), repr=False)

    def save(self) -> None:
        """Write the folder. Raises Ad2Error if it is a study already."""
        if (self.path / ABOUT).exists():
            raise Ad2Error(f"{self.path} is a study already; choose another --out")
        with atomic_write(self.path / PAIRS) as handle:
            handle.writelines(pair.to_json() + "\n" for pair in self.pairs)
        about = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in ("path", "pairs")}
        about |= {"schema": SCHEMA, "sha256": file_sha256(self.path / PAIRS)}
        atomic_write_json(self.path / ABOUT, about)

    @classmethod
    def open(cls, path: Path) -> PairwiseStudy:
        """Read a study. Raises Ad2Error or DataError if `path` is none, or its pairs have changed."""
        file = path / ABOUT
        if not file.is_file():
            raise Ad2Error(f"{path} is no study (no {ABOUT}); make one: ad2 judge sample RUN RUN --out {path}")
        try:
            about = load(file)
        except (OSError, ValueError) as exc:
            raise DataError(file, None, "file", "JSON written by ad2 judge sample", str(exc)) from exc
        if not isinstance(about, dict) or about.get("schema") != SCHEMA:
            raise DataError(file, None, "schema", SCHEMA, about.get("schema") if isinstance(about, dict) else about)
        for name in ("runs", "image_roots", "drawn"):
            if not isinstance(about.get(name), dict):
                raise DataError(file, None, name, "an object", about.get(name))
        if type(about.get("seed")) is not int:
            raise DataError(file, None, "seed", "a whole number", about.get("seed"))
        if not (path / PAIRS).is_file() or file_sha256(path / PAIRS) != about.get("sha256"):
            raise Ad2Error(f"{path / PAIRS} is not the file that this study was made with; restore it")
        pairs = tuple(_pairs(path / PAIRS))
        return cls(path, about["seed"], about["runs"], about["image_roots"], about["drawn"], pairs)


def _pairs(path: Path) -> Iterator[AnswerPair]:
    for number, line in lines(path):
        try:
            yield AnswerPair.from_json(parse(line))
        except (ValueError, TypeError, KeyError, AttributeError) as exc:
            raise DataError(path, number, "line", "a pair of answers", line[:80], str(exc)) from exc


def labels(pairs: Iterable[AnswerPair]) -> list[str]:
    """The models of the pairs, in the order of first occurrence."""
    return list(dict.fromkeys(model for pair in pairs for model in pair.models))
