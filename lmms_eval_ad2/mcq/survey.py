"""Questions of the sources, read in two passes: short entries of all questions, then the drawn questions in full.

DriveLM's 377,956 questions do not fit into memory as Records. `survey` keeps a short entry of each (100 MB for
400,000); `load` reads the sources again and keeps the requested frames, compressed, so that questions can be returned
in any order together with all records of their frame.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from sys import intern
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.mcq.base import OpenQuestion
from lmms_eval_ad2.mcq.sources import QuestionSource
from lmms_eval_ad2.mcq.taxonomy import answer_text, classify

DUPLICATE, SAME_ID, CONTRADICTORY = "duplicate", "same_id", "contradictory"
_CACHED = 8  # frames kept unpacked
Unsuited = Callable[[str, str], str | None]  # source, text of the question -> why it is not made


@dataclass(frozen=True, slots=True)
class SurveyEntry:
    """One classified question of the source named `source`.

    `at` is the index of the source, `number` the index of the record within the source, both from 0. `frame` names the
    key frame that it shares with other records, `cluster` its scene.
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
    """All usable questions in the order of the sources, and counts of the others by source and reason.

    Reasons: those of taxonomy.classify; "duplicate" (same question, answer and images as another one), "same_id",
    "contradictory" (same question and images as another one of the source, but another answer: none of them is used,
    since it is unknown which is right).
    """

    entries: tuple[SurveyEntry, ...]
    unclassified: Mapping[str, Mapping[str, int]]
    sources: tuple[Mapping[str, Any], ...] = ()

    def facts(self) -> dict[str, Any]:
        """{"sources": [{"name", "spec", "split", "sha256", "left_out", "bad", "usable", "unclassified"}, ...]}."""
        return {"sources": [dict(source) for source in self.sources]}


def survey(
    sources: Sequence[QuestionSource], *, unsuited: Unsuited = lambda source, text: None, progress: bool = True
) -> SourceSurvey:
    """Read all sources once. Raises Ad2Error if none has a usable question, DataError for a bad row.

    unsuited: DistractorMaker.unsuited; its reasons are counted with those of other records that are not usable.
    """
    entries: list[SurveyEntry] = []
    unclassified: dict[str, Counter[str]] = {source.name: Counter() for source in sources}
    seen: set[int] = set()
    facts = []
    for at, source in enumerate(sources):
        found, out = _usable(source, at, seen, unsuited, progress)
        entries += found
        unclassified[source.name].update(out)
        facts.append({**source.facts(), "usable": len(found), "unclassified": dict(sorted(out.items()))})
    if not entries:
        reasons = "; ".join(f"{name}: {dict(sorted(out.items()))}" for name, out in unclassified.items())
        raise Ad2Error(f"no source has a usable question ({reasons})")
    return SourceSurvey(
        tuple(entries), {name: dict(sorted(out.items())) for name, out in unclassified.items()}, tuple(facts)
    )


def _usable(
    source: QuestionSource, at: int, seen: set[int], unsuited: Unsuited, progress: bool
) -> tuple[list[SurveyEntry], Counter[str]]:
    """The entries of a source, and counts of the other records by reason. `seen`: hashes of ids and contents so far."""
    by_question: dict[int, SurveyEntry | None] = {}  # None: contradictory answers
    out = Counter[str]()
    with tqdm(desc=f"reading {source.spec}", unit=" questions", disable=None if progress else True) as bar:
        for number, record in enumerate(source.records()):
            bar.update()
            found = _entry(source.name, at, number, record, seen)
            if not isinstance(found, str):
                found = unsuited(source.name, record.question.get("en")) or found
            if isinstance(found, str):
                out[found] += 1
                continue
            question = _hash(*_question_key(record))
            if question in by_question:
                out[CONTRADICTORY] += 1 if by_question[question] is None else 2
                by_question[question] = None
            else:
                by_question[question] = found
    return [entry for entry in by_question.values() if entry], out


def load(
    sources: Sequence[QuestionSource], entries: Iterable[SurveyEntry], *, scenes: bool = True, progress: bool = True
) -> Iterator[OpenQuestion]:
    """The questions of `entries`, in that order; `scene` has all records of the frame, or none without `scenes`.

    `sources` must be those given to `survey`. Raises Ad2Error if a source has changed since then.
    """
    wanted = list(entries)
    packed = _packed_frames(sources, wanted, scenes, progress)

    @lru_cache(_CACHED)
    def frame(at: int, name: str) -> tuple[dict[int, Record], tuple[Record, ...]]:
        numbered = dict(_unpack(packed[at, name]))
        return numbered, tuple(numbered.values()) if scenes else ()

    for entry in wanted:
        numbered, scene = frame(entry.at, entry.frame)
        yield _question(entry, numbered.get(entry.number), scene, sources[entry.at].image_root)


def frame_of(record: Record) -> str:
    """Name shared by the records of a key frame (DriveLM, nuScenes), a segment (LingoQA), else the same images."""
    meta = record.meta
    if "scene" in meta and "frame" in meta:
        return f"{meta['scene']}/{meta['frame']}"
    found = meta.get("sample_token") or meta.get("segment_id")
    return str(found or "\n".join(record.images) or record.id)


def _entry(source: str, at: int, number: int, record: Record, seen: set[int]) -> SurveyEntry | str:
    """The entry of a record, or a reason code. `seen`: hashes of ids and of contents so far."""
    place = classify(record)
    if isinstance(place, str):
        return place
    name = _hash("id", source, record.id)
    if name in seen:
        return SAME_ID
    content = _hash(_folded(answer_text(record)), *_question_key(record))
    if content in seen:
        return DUPLICATE
    seen |= {name, content}
    frame, cluster = intern(frame_of(record)), intern(record.cluster or record.id)
    task, subtask = place
    return SurveyEntry(
        source=source, at=at, number=number, id=record.id, task=task, subtask=subtask, frame=frame, cluster=cluster
    )


def _question_key(record: Record) -> tuple[str, ...]:
    """Question, mark and images: equal for records with the same question."""
    return _folded(record.question.get("en")), str(record.mark.coords), *record.images


def _folded(text: str) -> str:
    """Case-folded, single blanks, no end mark. Fast: wording.normal would take minutes for half a million texts."""
    return " ".join(text.casefold().split()).rstrip(" .?!")


def _hash(*parts: str) -> int:
    """64-bit hash. Probability of a collision among n texts: about n^2 / 2^65, that is 3e-8 for a million."""
    text = json.dumps(parts).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


_Packed = dict[tuple[int, str], list[bytes]]


def _packed_frames(
    sources: Sequence[QuestionSource], wanted: Sequence[SurveyEntry], scenes: bool, progress: bool
) -> _Packed:
    """(index of the source, frame) -> its records as numbered JSON lines, in compressed pieces, in order."""
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
    # An unpaired surrogate in one text must not abort the reading of all others.
    return zlib.compress("\n".join(lines).encode("utf-8", "surrogatepass"), 3)


def _unpack(pieces: Iterable[bytes]) -> Iterator[tuple[int, Record]]:
    for piece in pieces:
        for line in zlib.decompress(piece).decode("utf-8", "surrogatepass").split("\n"):
            number, text = line.split(" ", 1)
            yield int(number), Record.from_json(text)


def _question(entry: SurveyEntry, record: Record | None, scene: tuple[Record, ...], root: Path) -> OpenQuestion:
    if record is None or record.id != entry.id:
        raise Ad2Error(f"question {entry.id} of {entry.source} is no longer at its place: the data changed meanwhile")
    answer = answer_text(record)
    return OpenQuestion(
        id=entry.id,
        record=record,
        source=entry.source,
        task=entry.task,
        subtask=entry.subtask,
        answer=answer,
        image_root=root,
        scene=scene,
    )
