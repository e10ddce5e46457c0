"""What the sources hold, in two passes: light entries of all questions first, the drawn questions whole afterwards.

DriveLM's 377,956 questions do not fit into memory as Records. `survey` keeps a few words of each (a hundred megabytes
for 400,000); `load` reads the sources once more and keeps the frames that are asked for, compressed, so that questions
come in any order with all the records of their frame.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from sys import intern
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.mcq.base import OpenQuestion
from lmms_eval_ad2.mcq.sources import QuestionSource
from lmms_eval_ad2.mcq.taxonomy import answer_text, classify
from lmms_eval_ad2.records import Record

DUPLICATE, SAME_ID, CONTRADICTORY = "duplicate", "same_id", "contradictory"
_CACHED = 8  # frames kept unpacked


@dataclass(frozen=True, slots=True)
class SurveyEntry:
    """One classified question of the source called `source`.

    `at` is the source's place among the sources, `number` the question's place among the source's records, both from 0.
    `frame` names the records that it is seen with, `cluster` its scene.
    """

    source: str
    at: int
    number: int
    id: str
    task: str
    subtask: str
    frame: str
    cluster: str


@dataclass(frozen=True, slots=True)
class SourceSurvey:
    """All questions that can be used, in the order of the sources; the others counted by source and reason.

    Reasons: those of taxonomy.classify; "duplicate" (question, answer and images of another one), "same_id",
    "contradictory" (question and images of another one of the source, with another answer: nobody can tell which of
    them is right, so none is asked).
    """

    entries: tuple[SurveyEntry, ...]
    unclassified: Mapping[str, Mapping[str, int]]
    sources: tuple[Mapping[str, Any], ...] = ()

    def facts(self) -> dict[str, Any]:
        """{"sources": [{"name", "spec", "split", "sha256", "left_out", "bad", "usable", "unclassified"}, ...]}."""
        return {"sources": [dict(source) for source in self.sources]}


def survey(sources: Sequence[QuestionSource], *, progress: bool = True) -> SourceSurvey:
    """Read all sources once. Raises Ad2Error where none has a usable question, DataError for a bad row."""
    entries: list[SurveyEntry] = []
    unclassified: dict[str, Counter[str]] = {source.name: Counter() for source in sources}
    seen: set[int] = set()
    told = []
    for at, source in enumerate(sources):
        found, out = _usable(source, at, seen, progress)
        entries += found
        unclassified[source.name].update(out)
        told.append({**source.facts(), "usable": len(found), "unclassified": dict(sorted(out.items()))})
    if not entries:
        reasons = "; ".join(f"{name}: {dict(sorted(out.items()))}" for name, out in unclassified.items())
        raise Ad2Error(f"no source has a question that can be used ({reasons})")
    return SourceSurvey(
        tuple(entries), {name: dict(sorted(out.items())) for name, out in unclassified.items()}, tuple(told)
    )


def _usable(source: QuestionSource, at: int, seen: set[int], progress: bool) -> tuple[list[SurveyEntry], Counter[str]]:
    """The source's entries, and the others counted by reason. `seen`: short hashes of ids and contents so far."""
    asked: dict[int, SurveyEntry | None] = {}  # None: answered in two ways
    out = Counter[str]()
    with tqdm(desc=f"reading {source.spec}", unit=" questions", disable=None if progress else True) as bar:
        for number, record in enumerate(source.records()):
            bar.update()
            found = _entry(source.name, at, number, record, seen)
            if isinstance(found, str):
                out[found] += 1
                continue
            question = _short(*_asks(record))
            if question in asked:
                out[CONTRADICTORY] += 1 if asked[question] is None else 2
                asked[question] = None
            else:
                asked[question] = found
    return [entry for entry in asked.values() if entry], out


def load(
    sources: Sequence[QuestionSource], entries: Iterable[SurveyEntry], *, scenes: bool = True, progress: bool = True
) -> Iterator[OpenQuestion]:
    """The questions of `entries`, in that order; `scene` holds all records of the frame, or nothing without `scenes`.

    `sources` as given to `survey`. Raises Ad2Error where a source is no longer what was surveyed.
    """
    wanted = list(entries)
    packed = _read_again(sources, wanted, scenes, progress)

    @lru_cache(_CACHED)
    def frame(at: int, name: str) -> tuple[dict[int, Record], tuple[Record, ...]]:
        numbered = dict(_unpack(packed[at, name]))
        return numbered, tuple(numbered.values()) if scenes else ()

    for entry in wanted:
        numbered, scene = frame(entry.at, entry.frame)
        yield _question(entry, numbered.get(entry.number), scene, sources[entry.at].image_root)


def frame_of(record: Record) -> str:
    """What names the records seen together: a key frame (DriveLM, nuScenes), a segment (LingoQA), else the images."""
    meta = record.meta
    if "scene" in meta and "frame" in meta:
        return f"{meta['scene']}/{meta['frame']}"
    found = meta.get("sample_token") or meta.get("segment_id")
    return str(found or "\n".join(record.images) or record.id)


def _entry(source: str, at: int, number: int, record: Record, seen: set[int]) -> SurveyEntry | str:
    """The record's entry, or why it has none. `seen`: short hashes of ids and of contents so far."""
    place = classify(record)
    if isinstance(place, str):
        return place
    name = _short("id", source, record.id)
    if name in seen:
        return SAME_ID
    content = _short(_folded(answer_text(record)), *_asks(record))
    if content in seen:
        return DUPLICATE
    seen |= {name, content}
    frame, cluster = intern(frame_of(record)), intern(record.cluster or record.id)
    return SurveyEntry(source, at, number, record.id, *place, frame, cluster)


def _asks(record: Record) -> tuple[str, ...]:
    """What is asked about what."""
    return _folded(record.question.get("en")), str(record.mark.coords), *record.images


def _folded(text: str) -> str:
    """Without capitals, double spaces and end marks: wording.normal would take minutes for half a million texts."""
    return " ".join(text.casefold().split()).rstrip(" .?!")


def _short(*parts: str) -> int:
    """Eight bytes that stand for the texts: two of a million texts are the same with a chance of 1 in 10 million."""
    text = json.dumps(parts).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


_Packed = dict[tuple[int, str], list[bytes]]


def _read_again(
    sources: Sequence[QuestionSource], wanted: Sequence[SurveyEntry], scenes: bool, progress: bool
) -> _Packed:
    """(place of the source, frame) -> its records, numbered JSON lines, compressed in pieces as they came."""
    packed: _Packed = {(entry.at, entry.frame): [] for entry in wanted}
    numbers = set() if scenes else {(entry.at, entry.number) for entry in wanted}
    for at in sorted({entry.at for entry in wanted}):
        piece: list[str] = []
        current: str | None = None
        with tqdm(desc=f"loading {sources[at].spec}", unit=" questions", disable=None if progress else True) as bar:
            for number, record in enumerate(sources[at].records()):
                bar.update()
                name = frame_of(record)
                if (at, name) not in packed or not (scenes or (at, number) in numbers):
                    continue
                if name != current and piece:
                    packed[at, str(current)].append(_pack(piece))
                    piece = []
                current = name
                piece.append(f"{number} {record.to_json()}")
        if piece:
            packed[at, str(current)].append(_pack(piece))
    return packed


def _pack(lines: Sequence[str]) -> bytes:
    # Half a surrogate pair in a hostile text must not stop the reading of all others.
    return zlib.compress("\n".join(lines).encode("utf-8", "surrogatepass"), 3)


def _unpack(pieces: Iterable[bytes]) -> Iterator[tuple[int, Record]]:
    for piece in pieces:
        for line in zlib.decompress(piece).decode("utf-8", "surrogatepass").split("\n"):
            number, text = line.split(" ", 1)
            yield int(number), Record.from_json(text)


def _question(entry: SurveyEntry, record: Record | None, scene: tuple[Record, ...], root: Path) -> OpenQuestion:
    if record is None or record.id != entry.id:
        raise Ad2Error(f"question {entry.id} of {entry.source} is no longer where it was: the data changed meanwhile")
    answer = answer_text(record)
    return OpenQuestion(entry.id, record, entry.source, entry.task, entry.subtask, answer, root, scene)
