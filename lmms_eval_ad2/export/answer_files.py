"""Export of a run's replies as CODA-LM's official answer files (format: data/releases/coda_answers.py).

The rows are in the order of the imported split, which also gives `question_id`; replies are written as they are. A
record without a reply (not asked, or the request failed) has no row, or a row with an empty answer if wanted. Each file
is written atomically.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.data.home import Dataset
from lmms_eval_ad2.data.home.dataset import load_dataset
from lmms_eval_ad2.data.releases.coda_answers import FILES, CodaAnswerRow, numbers_by_image
from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.parsing import failure_reason
from lmms_eval_ad2.prompts import task_prompt
from lmms_eval_ad2.prompts.prompt_set import PromptSet
from lmms_eval_ad2.records import Record
from lmms_eval_ad2.scoring.result_files import read_samples, read_summary
from lmms_eval_ad2.scoring.variant import TaskVariant
from lmms_eval_ad2.storage.files import atomic_write

BENCHMARK = "coda_lm"


@dataclass(slots=True)
class WrittenAnswers:
    """An exported file. Records without a reply: `not_asked` by the run, and `failed` requests. `rows`: written."""

    path: Path
    task: str
    data: str
    records: int = 0
    rows: int = 0
    not_asked: int = 0
    failed: int = 0


def export_answers(run: Path, out: Path, *, tasks: Sequence[str] = (), fill: bool = False) -> list[WrittenAnswers]:
    """Write the answer files of a run's CODA-LM tasks into the folder `out`.

    tasks: of the run, by name (empty: all of CODA-LM). fill: write an empty answer for a record without a reply.
    Raises Ad2Error for tasks that the files cannot hold, for data that are not imported or not those of the run, and if
    `out` has an answer file that would not be replaced; DataError for a run that cannot be read.
    """
    chosen = _chosen(read_summary(run)["tasks"], tasks, run)
    stale = [name for part, name in FILES.items() if part not in chosen and (out / name).exists()]
    if stale:
        raise Ad2Error(f"{out} has {', '.join(stale)} of another export; choose another --out, or remove it")
    written = []
    for part, (name, table) in sorted(chosen.items(), key=lambda item: list(FILES).index(item[0])):
        task = AnsweredTask(run, name, table)
        file = WrittenAnswers(out / FILES[part], name, f"{task.data.name}/{task.data.split}")
        with atomic_write(file.path) as handle:
            for row in task.rows(file, fill):
                print(json.dumps(asdict(row), ensure_ascii=False), file=handle)
        written.append(file)
    return written


def _chosen(
    tables: Mapping[str, Mapping[str, Any]], names: Sequence[str], run: Path
) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Part -> the name and table of its task."""
    coda = {name: table for name, table in tables.items() if table.get("benchmark") == BENCHMARK}
    if unknown := [name for name in names if name not in coda]:
        raise Ad2Error(f"--tasks: {run} has no task {unknown[0]} of CODA-LM; it has: {', '.join(coda) or 'none'}")
    wanted = {name: coda[name] for name in names or coda}
    if not wanted:
        raise Ad2Error(f"{run} has no task of CODA-LM; run one: ad2 eval --tasks bench_coda_lm")
    chosen: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for name, table in wanted.items():
        other, _ = chosen.setdefault(str(table.get("part")), (name, table))
        if other != name:
            raise Ad2Error(f"{other} and {name} answer the same part: name one task per part, with --tasks")
    splits = {(_data(table).get("name"), _data(table).get("split")) for table in wanted.values()}
    if len(splits) > 1:
        raise Ad2Error(f"{', '.join(wanted)} are tasks of several splits: name those of one, with --tasks")
    if wrong := chosen.keys() - FILES:
        raise Ad2Error(f"{run}: part '{min(wrong)}' has no answer file; parts with one: {', '.join(FILES)}")
    return chosen


def _data(table: Mapping[str, Any]) -> Mapping[str, Any]:
    data = table.get("data")
    return data if isinstance(data, dict) else {}


class AnsweredTask:
    """One task of a run with the imported data that it asked."""

    def __init__(self, run: Path, name: str, table: Mapping[str, Any]) -> None:
        self.name, self._run = name, run
        self.variant = TaskVariant.of_table(table, name)
        about = _data(table)
        self.data: Dataset = load_dataset(str(about.get("name")), str(about.get("split")))
        if about.get("sha256") != self.data.sha256:
            raise Ad2Error(
                f"{run}, {name}: the imported {self.data.name}/{self.data.split} is not that of the run "
                "(another sha256): import the release again that the run asked"
            )

    def rows(self, file: WrittenAnswers, fill: bool) -> Iterator[CodaAnswerRow]:
        """The rows of the task's file; counts them in `file`. Samples are read along with the records."""
        images = list(numbers_by_image(self._records()))
        prompts = PromptSet.load()
        samples = self._samples()
        sample = next(samples, None)
        for number, record in enumerate(self._records()):
            file.records += 1
            question, answer = None, None
            if sample is None or sample["id"] != record.id:
                file.not_asked += 1
            else:
                question, answer = sample["prompt"], sample["raw"]
                if failure_reason(answer):
                    file.failed, answer = file.failed + 1, None
                sample = next(samples, None)
            if answer is not None or fill:
                file.rows += 1
                question = task_prompt.prompt_text(record, self.variant, prompts) if question is None else question
                yield CodaAnswerRow(number, images[number], question, answer or "")
        if sample is not None:
            raise self._fault("id", f"the records of {self.data.name}/{self.data.split} in their order", sample["id"])

    def _records(self) -> Iterator[Record]:
        return (record for record in self.data.records() if record.task == self.variant.part)

    def _samples(self) -> Iterator[dict[str, str]]:
        for row in read_samples(self._run, self.name):
            for key in ("id", "prompt", "raw"):
                if not (isinstance(row, dict) and isinstance(row.get(key), str)):
                    raise self._fault(key, "a string in each row", row.get(key) if isinstance(row, dict) else row)
            yield row

    def _fault(self, field: str, expected: str, found: Any) -> DataError:
        path = self._run / "samples" / f"{self.name}.jsonl"
        return DataError(path, None, field, expected, found, "Was the file changed? Run the evaluation again.")
