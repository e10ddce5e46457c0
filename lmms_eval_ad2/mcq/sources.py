"""Sources of open questions: a dataset of the data home, a release's file or folder, or a file of Records.

Forms of --source:

    drivelm                        the dataset of that name in the data home (its only split, or that of --split)
    drivelm:train                  its split `train`
    drivelm=v1_1_train_nus.json    a release's own file, read as by `ad2 data import drivelm`
    lingoqa:train=LingoQA          a release's folder: both training files, action/ and scenery/
    records=reviewed.jsonl         one Record per line, as exported by `ad2 annotate`
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.home import open_dataset
from lmms_eval_ad2.data.home.dataset import splits_of
from lmms_eval_ad2.data.releases import Item, OmittedRow, find_release
from lmms_eval_ad2.storage.files import file_sha256

RECORDS = "records"
NAMES = ("drivelm", "nuscenes_qa", "lingoqa", RECORDS)
# What to do instead of naming a source twice. A split of any other release is a single file.
_INSTEAD_OF_TWICE = {
    "lingoqa": "its training files go in together, as the folder that holds action/ and scenery/: lingoqa:train=FOLDER",
    RECORDS: "put the lines of both files into one",
}
LISTED = 20  # bad rows whose text is kept; all are counted
_SPEC = re.compile(r"(?P<name>[a-z_]+)(?::(?P<split>[A-Za-z0-9][\w.-]{0,63}))?(?:=(?P<path>.+))?", re.DOTALL)


@dataclass(slots=True, kw_only=True)
class QuestionSource:
    """An opened source. Image paths of its records are relative to `image_root`.

    `sha256` is that of the dataset, or of the files that are read. `left_out` (by reason), `bad` and `bad_rows`
    (the first LISTED, as text) describe the latest pass of `records`.
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
    bad_rows: list[str] = field(default_factory=list)

    def records(self) -> Iterator[Record]:
        """Read all records, always in the same order. A bad row raises its DataError, or is counted if `skip_bad`."""
        self.left_out, self.bad, self.bad_rows = Counter(), 0, []
        for item in self.read():
            if isinstance(item, Record):
                yield item
            elif isinstance(item, OmittedRow):
                self.left_out[item.reason] += 1
            else:
                self._bad(item.error)

    def _bad(self, error: DataError) -> None:
        if not self.skip_bad:
            raise error
        self.bad += 1
        if len(self.bad_rows) < LISTED:
            self.bad_rows.append(str(error))

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
        digest = _sha256(opened.files)
        return QuestionSource(
            name=name,
            spec=spec,
            split=opened.split,
            image_root=opened.image_root,
            sha256=digest,
            read=opened.records,
            skip_bad=skip_bad,
        )
    if name == RECORDS:
        raise Ad2Error("source 'records' is a file: records=FILE.jsonl (one Record a line)")
    dataset = open_dataset(name, split or _only_split(name))
    root = images or dataset.image_root
    if not root.is_dir():
        raise Ad2Error(f"--images: no such folder: {root}")
    return QuestionSource(
        name=name,
        spec=spec,
        split=dataset.split,
        image_root=root,
        sha256=dataset.sha256,
        read=dataset.records,
        skip_bad=skip_bad,
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
