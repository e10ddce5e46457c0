"""Sources of records to annotate: a dataset of the data home, a file of Records, or a folder of images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from lmms_eval_ad2.annotate.blank_records import ASKS, blank_records
from lmms_eval_ad2.annotate.folder import (
    QUESTIONS,
    TEXTS,
    AnnotationFolder,
    AnnotationMetadata,
    is_folder,
    make_folder,
    open_folder,
    relocate,
)
from lmms_eval_ad2.annotate.marked_boxes import Selection
from lmms_eval_ad2.annotate.question_check import SAMPLE, sampled
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Lang, Record
from lmms_eval_ad2.data.home import open_dataset
from lmms_eval_ad2.data.home.dataset import splits_of
from lmms_eval_ad2.data.releases import BadRow, OpenedRelease
from lmms_eval_ad2.data.releases.record_rows import open_records


@dataclass(frozen=True, slots=True)
class AnnotationSource:
    """Records and the folder of their images. Each call of `records` starts a new pass."""

    name: str
    split: str
    image_root: Path
    records: Callable[[], Iterator[Record]]


@dataclass(frozen=True, slots=True)
class AnnotationRequest:
    """The options of `ad2 annotate`. `split`, `images`, `lang`, `scale`, `sample`, `seed`: None if not given."""

    source: str
    split: str | None = None
    images: Path | None = None
    boxes: Path | None = None
    asks: Sequence[str] = ASKS
    select: Selection = "largest"
    limit: int | None = None
    lang: Lang | None = None
    scale: int | None = None
    check: bool = False
    sample: int | None = None
    seed: int | None = None


def open_source(request: AnnotationRequest) -> AnnotationSource:
    """Open the source of a request. Raises Ad2Error if it does not exist, listing the available splits."""
    path = Path(request.source).expanduser()
    if path.is_dir():
        root = path.resolve()
        return AnnotationSource(
            request.source, "", root, lambda: blank_records(root, request.asks, request.boxes, request.select)
        )
    if path.is_file():
        opened = open_records(path, request.split, request.images)
        return AnnotationSource(request.source, opened.split, opened.image_root, lambda: _good(opened))
    if path.suffix in (".jsonl", ".json") or "/" in request.source:
        raise Ad2Error(f"no such file or folder: {request.source}")
    splits = splits_of(request.source)
    if len(splits) > 1 and not request.split:
        raise Ad2Error(f"{request.source} is imported in several splits: --split {' | '.join(splits)}")
    dataset = open_dataset(request.source, request.split or (splits[0] if splits else "test"))
    root = request.images or dataset.image_root
    if not root.is_dir():
        raise Ad2Error(f"--images: no such folder: {root}")
    return AnnotationSource(request.source, dataset.split, root.resolve(), dataset.records)


def _good(opened: OpenedRelease) -> Iterator[Record]:
    """Yield the records; raise the error of the first bad row, since a partial set must not be annotated."""
    for item in opened.records():
        if isinstance(item, BadRow):
            raise item.error
        if isinstance(item, Record):
            yield item


def open_or_make(out: Path, request: AnnotationRequest) -> AnnotationFolder:
    """Open the folder at `out`, or make it if it does not exist.

    Raises Ad2Error if it was made with other options.
    """
    if is_folder(out):
        return _reopen(out, request)
    source = open_source(request)
    about = AnnotationMetadata(
        source=source.name, split=source.split, n=0, sha256="", image_root=source.image_root, lang=request.lang or "en",
        scale=request.scale if request.scale is not None else 10,
        task=QUESTIONS if request.check else TEXTS, seed=request.seed or 0,
    )  # fmt: skip

    def records() -> Iterator[Record]:
        return islice(source.records(), request.limit)

    if not request.check:
        return make_folder(out, records(), about)
    return make_folder(out, sampled(records, request.sample or SAMPLE, about.seed), about)


def _reopen(out: Path, request: AnnotationRequest) -> AnnotationFolder:
    folder = open_folder(out)
    about = folder.about
    options = {"SOURCE": (request.source, about.source), "--split": (request.split, about.split or None),
            "--lang": (request.lang, about.lang), "--scale": (request.scale, about.scale),
            "--seed": (request.seed, about.seed), "--sample": (request.sample, about.n)}  # fmt: skip
    if request.check != (about.task == QUESTIONS):
        raise Ad2Error(f"{out} was begun {'without' if request.check else 'with'} --check; use another --out")
    for option, (now, before) in options.items():
        if now is not None and now != before:
            raise Ad2Error(f"{out} was begun with {option} {before}, not {now}; use that, or another --out")
    if request.images and request.images.resolve() != about.image_root:
        if not request.images.is_dir():
            raise Ad2Error(f"--images: no such folder: {request.images}")
        relocate(folder, request.images.resolve())
    return folder
