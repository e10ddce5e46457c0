"""Questions about collected frames of the closed loop, answered from the world's truth (`ad2 drive label`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.releases import record_rows
from lmms_eval_ad2.data.releases.base import BenchmarkRelease, OpenedRelease, existing
from lmms_eval_ad2.data.releases.stream import open_rows
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow

BENCHMARK = "world"
QUESTIONS = "questions.jsonl"
TASKS = (
    "existence", "counting", "location", "detection", "relation", "cot", "perception", "prediction", "planning",
)  # fmt: skip
SCHEMA = f"""\
SOURCE: a collected folder with the questions that `ad2 drive label` wrote, or its file {QUESTIONS}.
Images: in the same folder (frames/...), or --images DIR.

One Record of this project per line (ad2 data list records --layout), with benchmark {BENCHMARK} and the tasks
  existence (yesno), counting (count), location (point), detection (box), relation (yesno), cot (chain);
  perception, prediction, planning (mc)
Every text is in English and Chinese. cluster: the drive; meta: route, frame, scenario type, and the truth behind the
answer.
"""


def open_release(source: Path, *, split: str | None, images: Path | None, options: Mapping[str, str]) -> OpenedRelease:
    path = existing(source, "collected folder")
    if path.is_dir():
        path = path / QUESTIONS
        if not path.is_file():
            raise Ad2Error(f"{source}: no {QUESTIONS}; write it with: ad2 drive label {source}")
    return open_rows(path, split, images, records_of)


def records_of(row: UntrustedRow) -> Iterable[Record]:
    """The record of a row; raises DataError for another benchmark or task."""
    row.choice("benchmark", (BENCHMARK,))
    row.choice("task", TASKS)
    return record_rows.read_row(row)


RELEASE = BenchmarkRelease(
    BENCHMARK, "collected frames with questions from the truth (ad2 drive label)", SCHEMA, open_release
)
