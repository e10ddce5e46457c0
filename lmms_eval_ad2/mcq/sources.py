"""Sources of open questions, and their questions, read in two passes.

Forms of --source:

    drivelm                        the dataset of that name in the data home (its only split, or that of --split)
    drivelm:train                  its split `train`
    drivelm=v1_1_train_nus.json    a release's own file, read as by `ad2 data import drivelm`
    lingoqa:train=LingoQA          a release's folder: both training files, action/ and scenery/
    records=reviewed.jsonl         one Record per line, as exported by `ad2 annotate`

DriveLM's 377,956 questions do not fit into memory as Records. `survey` keeps a short entry of each (100 MB for
400,000); `load` reads the sources again and keeps the requested frames, compressed, so that questions can be returned
in any order together with all records of their frame.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from sys import intern
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.home import open_dataset
from lmms_eval_ad2.data.home.dataset import splits_of
from lmms_eval_ad2.data.releases import Item, OmittedRow, find_release
from lmms_eval_ad2.mcq.base import OpenQuestion
from lmms_eval_ad2.mcq.taxonomy import answer_text, classify
from lmms_eval_ad2.storage.files import file_sha256

RECORDS = "records"
NAMES = ("drivelm", "nuscenes_qa", "lingoqa", RECORDS)
# What to do instead of naming a source twice. A split of any other release is a single file.
_INSTEAD_OF_TWICE = {
    "lingoqa": "its training files go in together, as the folder that holds action/ and scenery/: lingoqa:train=FOLDER",
    RECORDS: "put the lines of both files into one",
}
_SPEC = re.compile(r"(?P<name>[a-z_]+)(?::(?P<split>[A-Za-z0-9][\w.-]{0,63}))?(?:=(?P<path>.+))?", re.DOTALL)


@dataclass(slots=True, kw_only=True)
class QuestionSource:
    """An opened source. Image paths of its records are relative to `image_root`.

    `sha256` is that of the dataset, or of the files that are read. `left_out` (by reason) and `bad` are counts of the
    latest pass of `records`.
    """

    name: str
    spec: str
    split: str
    image_root: Path
    sha256: str
    read: Callable[[], Iterator[Item]]
    skip_bad: bool = False
    left_out: Counter[str] = field(default_factory=Counter)
    bad: int = 0

    def records(self) -> Iterator[Record]:
        """Read all records, always in the same order. A bad row raises its DataError, or is counted if `skip_bad`."""
        self.left_out, self.bad = Counter(), 0
        for item in self.read():
            if isinstance(item, Record):
                yield item
            elif isinstance(item, OmittedRow):
                self.left_out[item.reason] += 1
            elif self.skip_bad:
                self.bad += 1
            else:
                raise item.error

    def facts(self) -> dict[str, Any]:
        """Entry for card.json. Only the last part of a path is included: nothing about the user's machine."""
        name, sign, path = self.spec.partition("=")
        last = sign and f"={Path(path).absolute().name}"  # absolute: "." has no last part
        return {
            "name": self.name, "spec": f"{name}{last}", "split": self.split, "sha256": self.sha256,
            "left_out": dict(sorted(self.left_out.items())), "bad": self.bad,
        }  # fmt: skip


def check_names(names: Sequence[str]) -> None:
    """Raise Ad2Error if `names` contains a source twice, with what to do instead."""
    for name, times in Counter(names).items():
        if times > 1:
            instead = _INSTEAD_OF_TWICE.get(name, "build a set for each split")
            raise Ad2Error(f"--source {name}: named more than once; a set takes one split of a source: {instead}")


def open_source(
    spec: str, *, split: str | None = None, images: Path | None = None, skip_bad: bool = False
) -> QuestionSource:
    """Open the source `spec` (forms: this module's docstring). `split` applies if the spec names none.

    Raises Ad2Error for an unknown name, and for missing data, with the command that imports them.
    """
    found = _SPEC.fullmatch(spec.strip())
    if not found or found["name"] not in NAMES:
        raise Ad2Error(f"no source '{spec}': use NAME, NAME:SPLIT or NAME=PATH with a name of {', '.join(NAMES)}")
    name, split = found["name"], found["split"] or split
    if found["path"]:
        opened = find_release(name).open(Path(found["path"]).expanduser(), split=split, images=images, options={})
        digest, split, root, read = _sha256(opened.files), opened.split, opened.image_root, opened.records
    elif name == RECORDS:
        raise Ad2Error("source 'records' is a file: records=FILE.jsonl (one Record a line)")
    else:
        dataset = open_dataset(name, split or _only_split(name))
        digest, split, root, read = dataset.sha256, dataset.split, images or dataset.image_root, dataset.records
        if not root.is_dir():
            raise Ad2Error(f"--images: no such folder: {root}")
    return QuestionSource(
        name=name, spec=spec, split=split, image_root=root, sha256=digest, read=read, skip_bad=skip_bad
    )


def _only_split(name: str) -> str:
    """The only imported split of `name`, "train" if none is imported. Raises Ad2Error if there are several."""
    splits = splits_of(name)
    if len(splits) > 1:
        raise Ad2Error(f"{name} is imported in several splits: name one, such as {name}:{splits[0]} ({splits})")
    return splits[0] if splits else "train"


def _sha256(files: list[Path]) -> str:
    """The sha256 of one file, or of the names and hashes of several files."""
    try:
        hashes = [file_sha256(path) for path in files]
    except OSError as exc:
        raise Ad2Error(f"cannot read {exc.filename}: {exc.strerror}") from exc
    if len(files) == 1:
        return hashes[0]
    listing = "".join(f"{path.name}\0{digest}\n" for path, digest in zip(files, hashes, strict=True))
    return hashlib.sha256(listing.encode()).hexdigest()


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
    """All usable questions in the order of the sources, and the facts of each source: QuestionSource.facts, "usable"
    (number of questions) and "unclassified" (counts of the others by reason).

    Reasons: those of taxonomy.classify; "duplicate" (same question, answer and images as another one), "same_id",
    "contradictory" (same question and images as another one of the source, but another answer: none of them is used,
    since it is unknown which is right).
    """

    entries: tuple[SurveyEntry, ...]
    sources: tuple[Mapping[str, Any], ...]


def survey(
    sources: Sequence[QuestionSource], *, unsuited: Unsuited = lambda source, text: None, progress: bool = True
) -> SourceSurvey:
    """Read all sources once. Raises Ad2Error if none has a usable question, DataError for a bad row.

    unsuited: DistractorMaker.unsuited; its reasons are counted with those of other records that are not usable.
    """
    entries: list[SurveyEntry] = []
    seen: set[int] = set()
    facts = []
    for at, source in enumerate(sources):
        found, out = _usable(source, at, seen, unsuited, progress)
        entries += found
        facts.append({**source.facts(), "usable": len(found), "unclassified": dict(sorted(out.items()))})
    if not entries:
        reasons = "; ".join(f"{one['name']}: {one['unclassified']}" for one in facts)
        raise Ad2Error(f"no source has a usable question ({reasons})")
    return SourceSurvey(tuple(entries), tuple(facts))


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
    sources: Sequence[QuestionSource], entries: Iterable[SurveyEntry], *, progress: bool = True
) -> Iterator[OpenQuestion]:
    """The questions of `entries`, in that order; `scene` has all records of the frame.

    `sources` must be those given to `survey`. Raises Ad2Error if a source has changed since then.
    """
    wanted = list(entries)
    packed = _packed_frames(sources, wanted, progress)

    @lru_cache(_CACHED)
    def frame(at: int, name: str) -> tuple[dict[int, Record], tuple[Record, ...]]:
        numbered = {}
        for piece in packed[at, name]:
            for line in zlib.decompress(piece).decode("utf-8", "surrogatepass").split("\n"):
                number, text = line.split(" ", 1)
                numbered[int(number)] = Record.from_json(text)
        return numbered, tuple(numbered.values())

    for entry in wanted:
        numbered, scene = frame(entry.at, entry.frame)
        record = numbered.get(entry.number)
        if record is None or record.id != entry.id:
            raise Ad2Error(
                f"question {entry.id} of {entry.source} is no longer at its place: the data changed meanwhile"
            )
        yield OpenQuestion(
            id=entry.id, record=record, source=entry.source, task=entry.task, subtask=entry.subtask,
            answer=answer_text(record), image_root=sources[entry.at].image_root, scene=scene,
        )  # fmt: skip


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


def _packed_frames(
    sources: Sequence[QuestionSource], wanted: Sequence[SurveyEntry], progress: bool
) -> dict[tuple[int, str], list[bytes]]:
    """(index of the source, frame) -> its records as numbered JSON lines, in compressed pieces, in order."""
    packed: dict[tuple[int, str], list[bytes]] = {(entry.at, entry.frame): [] for entry in wanted}
    for at in sorted({entry.at for entry in wanted}):
        numbered = enumerate(sources[at].records())
        bar = tqdm(numbered, desc=f"loading {sources[at].spec}", unit=" questions", disable=None if progress else True)
        for name, group in groupby(bar, key=lambda pair: frame_of(pair[1])):
            if (at, name) in packed:
                lines = "\n".join(f"{number} {record.to_json()}" for number, record in group)
                # An unpaired surrogate in one text must not abort the reading of all others.
                packed[at, name].append(zlib.compress(lines.encode("utf-8", "surrogatepass"), 3))
    return packed
