"""A task of a finished run with the imported data that it asked: what an export of its replies reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.data.home import Dataset
from lmms_eval_ad2.data.home.dataset import load_dataset
from lmms_eval_ad2.scoring.result_files import read_samples, read_summary
from lmms_eval_ad2.scoring.variant import TaskVariant

Tables = Mapping[str, Mapping[str, Any]]


def tables_of(run: Path, benchmark: str, title: str, names: Sequence[str], example: str) -> Tables:
    """The tables of a run's tasks of one benchmark: those of `names`, or all.

    `title` and `example` (a task or group to run) are for messages. Raises Ad2Error if a name is not that of such a
    task, if there is none, and for tasks of several splits; DataError for a run that cannot be read.
    """
    there = {name: t for name, t in read_summary(run)["tasks"].items() if t.get("benchmark") == benchmark}
    if unknown := [name for name in names if name not in there]:
        raise Ad2Error(f"--tasks: {run} has no task {unknown[0]} of {title}; it has: {', '.join(there) or 'none'}")
    wanted = {name: there[name] for name in names or there}
    if not wanted:
        raise Ad2Error(f"{run} has no task of {title}; run one: ad2 eval --tasks {example}")
    splits = {(_data(table).get("name"), _data(table).get("split")) for table in wanted.values()}
    if len(splits) > 1:
        raise Ad2Error(f"{', '.join(wanted)} are tasks of several splits: name those of one, with --tasks")
    return wanted


def _data(table: Mapping[str, Any]) -> Mapping[str, Any]:
    data = table.get("data")
    return data if isinstance(data, dict) else {}


class AnsweredTask:
    """One task of a run. Raises Ad2Error if its data are not imported, or not those that the run asked."""

    def __init__(self, run: Path, name: str, table: Mapping[str, Any]) -> None:
        self.name, self._run = name, run
        if "replies" in table:
            raise Ad2Error(f"{run}, {name}: several replies to each question; export a run without --repeats")
        self.variant = TaskVariant.of_table(table, name)
        about = _data(table)
        self.data: Dataset = load_dataset(str(about.get("name")), str(about.get("split")))
        if about.get("sha256") != self.data.sha256:
            raise Ad2Error(
                f"{run}, {name}: the imported {self.data.name}/{self.data.split} is not that of the run "
                "(another sha256): import the release again that the run asked"
            )

    def samples(self) -> Iterator[dict[str, Any]]:
        """The rows of samples/<task>.jsonl, with the strings `id`, `prompt` and `raw`; raises DataError."""
        for row in read_samples(self._run, self.name):
            for key in ("id", "prompt", "raw"):
                if not (isinstance(row, dict) and isinstance(row.get(key), str)):
                    raise self.fault(key, "a string in each row", row.get(key) if isinstance(row, dict) else row)
            yield row

    def fault(self, field: str, expected: str, found: Any) -> DataError:
        """The error for a samples file that is not as the run wrote it."""
        path = self._run / "samples" / f"{self.name}.jsonl"
        return DataError(path, None, field, expected, found, "Was the file changed? Run the evaluation again.")
