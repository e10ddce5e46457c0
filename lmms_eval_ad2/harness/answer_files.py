"""Scoring of CODA-LM's official answer files: a run folder whose replies come from the files instead of a model.

    OUT/judge.sqlite             replies of the judge; a killed command continues with them
    OUT/samples/<task>.jsonl     as of any run; `prompt` is the question of the row
    OUT/summary.json             written last; its block "run" has "answer_files": the counts of each file

Records, parsing, judge and tables are those of `ad2 eval`, so the figures are equal for equal answers. A record without
an answer has the reply NO_ANSWER: it is unscored, as a failed request (left out of the official mean, the lowest mark
in the strict one).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Lang, Record
from lmms_eval_ad2.data.releases.coda_answers import FILES, CodaAnswerRow, numbers_by_image, read_answers
from lmms_eval_ad2.harness import task_data
from lmms_eval_ad2.harness.judge_images import with_images
from lmms_eval_ad2.harness.run_identity import versions
from lmms_eval_ad2.harness.task_data import LoadedTask
from lmms_eval_ad2.harness.task_files import TaskFile, catalogue, records_of
from lmms_eval_ad2.judge.base import Judge
from lmms_eval_ad2.parsing import failure_reason
from lmms_eval_ad2.scoring import judge_ratings, pipeline, result_files
from lmms_eval_ad2.scoring.sample import ScoredSample, score_sample
from lmms_eval_ad2.storage.files import file_sha256, remove_leftovers
from lmms_eval_ad2.storage.lock import lock_folder

DATASET = "coda_lm"
MODEL = "answer_files"  # the name of the model in the summary
NO_ANSWER = "[AD2_NO_ANSWER]"
_EXAMPLES = 3


@dataclass(slots=True)
class AnswerFileCounts:
    """What an answer file contains, in rows or records.

    rows: all. records: of the split. answered: records with a row. unknown: rows whose image is that of no record;
    `examples`: the first of these images. repeated: further rows of a record, of which `differing` have another answer
    than the first. failed: answers that are failure texts of a run.
    """

    file: str
    task: str
    sha256: str
    rows: int = 0
    records: int = 0
    answered: int = 0
    unknown: int = 0
    examples: list[str] = field(default_factory=list)
    repeated: int = 0
    differing: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class JoinedAnswers:
    """The rows of an answer file by the number of their record in the task's data."""

    task: LoadedTask
    counts: AnswerFileCounts
    rows: Mapping[int, CodaAnswerRow]

    def samples(self) -> Iterator[ScoredSample]:
        """One sample per record of the split, in the order of the data."""
        for number in range(self.counts.records):
            record = Record.from_json(self.task.records[number].as_py())
            row = self.rows.get(number)
            raw, prompt = (row.answer, row.question) if row else (NO_ANSWER, "")
            yield score_sample(record, raw, self.task.variant, self.task.name, prompt)


def join_answers(folder: Path, split: str, lang: Lang) -> list[JoinedAnswers]:
    """Read the answer files of a folder and find the record of each row.

    Raises DataError for a malformed row, Ad2Error if there is no file, no task or no data of the split, and for a file
    of which no row names a record.
    """
    found = {part: folder / name for part, name in FILES.items() if (folder / name).is_file()}
    if not found:
        raise Ad2Error(f"{folder}: none of CODA-LM's answer files is here: {', '.join(FILES.values())}")
    return [_join(path, task_of(part, split, lang)) for part, path in found.items()]


def task_of(part: str, split: str, lang: Lang) -> TaskFile:
    """The task that asks a part of a split in CODA-LM's own way; raises Ad2Error if there is none."""
    for task in catalogue():
        if task.dataset == DATASET and task.split == split and task.settings.get("part") == part:
            variant = task.variant()
            if variant.lang == lang and not variant.coords:
                return task
    raise Ad2Error(f"no task for part '{part}' of {DATASET}/{split} in language '{lang}'; all: ad2 tasks '*coda*'")


def _join(path: Path, file: TaskFile) -> JoinedAnswers:
    task, table = task_data.read(file.name, file.dataset, file.split, file.variant())
    numbers = numbers_by_image(records_of(table))
    counts = AnswerFileCounts(path.name, file.name, file_sha256(path), records=len(numbers))
    rows: dict[int, CodaAnswerRow] = {}
    for row in read_answers(path):
        counts.rows += 1
        number = numbers.get(row.image)
        if number is None:
            counts.unknown += 1
            counts.examples += [row.image] if len(counts.examples) < _EXAMPLES else []
        elif number in rows:
            counts.repeated += 1
            counts.differing += row.answer != rows[number].answer
        else:
            rows[number] = row
            counts.failed += failure_reason(row.answer) is not None
    counts.answered = len(rows)
    if not rows:
        raise Ad2Error(
            f"{path}: none of its {counts.rows} rows has an image of {file.dataset}/{file.split}, such as "
            f"{next(iter(numbers))!r}" + (f" (found {counts.examples[0]!r})" if counts.examples else "")
            + "; give the split of the answers: --split"
        )  # fmt: skip
    return JoinedAnswers(task, counts, rows)


def score_answers(
    joined: list[JoinedAnswers], out: Path, judge: Callable[[], Judge], label: str
) -> dict[str, dict[str, Any]]:
    """Judge the answers and write the run folder `out`; returns the tables by task.

    `judge` is called once, with `out` locked. Raises Ad2Error if `out` has results already.
    """
    with lock_folder(out):
        if (out / "summary.json").exists():
            raise Ad2Error(f"{out} has results already: choose another --out (another judge: ad2 rescore {out})")
        remove_leftovers(out, out / "samples")
        judging = judge()
        tables = {}
        for one in joined:
            samples = with_images(one.samples(), judging, one.task.image_root, one.task.variant)
            table, _ = pipeline.score_task(samples, one.task.name, one.task.variant, lambda: judging, out)
            tables[one.task.name] = {**table, "data": one.task.data}
        about = _describe(label, judge_ratings.judge_record(judging), [one.counts for one in joined])
        result_files.write_summary(out, about, tables)
    return tables


def _describe(label: str, judge: Mapping[str, Any] | None, counts: list[AnswerFileCounts]) -> dict[str, Any]:
    """The block "run" of the summary. Model, seed and prompts of the answers are not known."""
    return {
        "model": MODEL,
        "model_args": "",
        "label": label,
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "seed": None,
        "limit": None,
        "offset": 0,
        "gen_kwargs": None,
        "policy": "official",
        "profile": None,
        "prompts_sha256": None,
        "frame": None,
        "model_input": None,
        "judge": judge,
        "versions": versions(),
        "answer_files": {one.file: asdict(one) for one in counts},
    }
