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

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import YES_NO, Record
from lmms_eval_ad2.data.home import Dataset
from lmms_eval_ad2.data.home.dataset import load_dataset
from lmms_eval_ad2.data.releases.coda_answers import FILES, CodaAnswerRow, numbers_by_image
from lmms_eval_ad2.parsing import failure_reason
from lmms_eval_ad2.prompts import task_prompt
from lmms_eval_ad2.prompts.prompt_set import PromptSet
from lmms_eval_ad2.scoring.result_files import read_samples, read_summary
from lmms_eval_ad2.scoring.variant import TaskVariant
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.untrusted_json import load

# Export of a run's replies as an answer file of the DriveLM challenge (OpenDriveLab/DriveLM, `challenge/`).
#
#     [{"id": "<scene>_<frame>_<index>", "question": "...", "answer": "..."}, ...]            output.json
#     {"method", "team", "authors", "email", "institution", "country", "results": [...]}      submission.json
#
# Rows are in the order of the imported split; `question` is the released text. The challenge's `gt_answer` is not
# written: its evaluation reads the references from its own file.

DRIVELM = "drivelm"
OUTPUT, SUBMISSION = "output.json", "submission.json"
TEAM_FIELDS = ("method", "team", "authors", "email", "institution", "country")
_LARGEST_TEAM = 1 << 16  # bytes


@dataclass(slots=True)
class WrittenDriveLm:
    """An exported file: counts of questions and rows.

    questions: of the split. rows: written. not_asked, failed: without a reply. parsed, unparsed: closed questions whose
    choice was written, and those whose reply was written unchanged because no choice could be parsed.
    """

    path: Path
    tasks: tuple[str, ...]
    data: str
    questions: int = 0
    rows: int = 0
    not_asked: int = 0
    failed: int = 0
    parsed: int = 0
    unparsed: int = 0


def export_drivelm(
    run: Path, out: Path, *, tasks: Sequence[str] = (), fill: bool = False, parsed: bool = False,
    team: Path | None = None,
) -> WrittenDriveLm:  # fmt: skip
    """Write the replies of a run's DriveLM tasks to the file `out`, or into the folder `out` under the official name.

    tasks: of the run, by name (empty: all of DriveLM). fill: write an empty answer for a question without a reply.
    parsed: write the choice of a closed question in the challenge's spelling ("B", "Yes.") instead of the reply.
    team: file of the TEAM_FIELDS; the rows become the `results` of a submission.
    Raises Ad2Error for tasks that the file cannot hold, and for data that are not those of the run; DataError for a
    run or a team file that cannot be read.
    """
    about = None if team is None else read_team(team)
    path = out if out.suffix == ".json" else out / (OUTPUT if about is None else SUBMISSION)
    tables = tables_of(run, DRIVELM, "DriveLM", tasks, "bench_drivelm")
    answered = [AnsweredTask(run, name, table) for name, table in tables.items()]
    data = answered[0].data
    file = WrittenDriveLm(path, tuple(tables), f"{data.name}/{data.split}")
    rows = _drivelm_rows(data, _replies(answered), file, fill, parsed)
    with atomic_write(path) as handle:
        handle.write(json.dumps(rows if about is None else {**about, "results": rows}, ensure_ascii=False, indent=1))
    return file


def read_team(path: Path) -> dict[str, Any]:
    """The fields of a submission beside its results, from a JSON file; raises DataError."""
    try:
        data = load(path, most=_LARGEST_TEAM)
    except (OSError, ValueError) as exc:
        raise DataError(path, None, "file", "a readable JSON file", str(exc)) from exc
    if not isinstance(data, dict) or set(data) != set(TEAM_FIELDS):
        raise DataError(path, None, "file", f"the fields {', '.join(TEAM_FIELDS)}", data)
    for name in TEAM_FIELDS:
        values = data[name] if name == "authors" else [data[name]]
        if not (isinstance(values, list) and values and all(isinstance(v, str) and v.strip() for v in values)):
            raise DataError(path, None, name, "a list of names" if name == "authors" else "a text", data[name])
    return {name: data[name] for name in TEAM_FIELDS}


@dataclass(frozen=True, slots=True)
class _Reply:
    """A reply with the form in which its question was asked, and the answer that was parsed from it."""

    raw: str
    form: Any
    answer: Any
    task: AnsweredTask


def _replies(tasks: Sequence[AnsweredTask]) -> dict[str, _Reply]:
    """The reply to each question by its id. Raises Ad2Error for tasks that answer one question twice."""
    found: dict[str, _Reply] = {}
    for task in tasks:
        if task.variant.circular:
            raise Ad2Error(f"{task.name} asks each question once per rotation: name other tasks, with --tasks")
        for row in task.samples():
            first = found.setdefault(row["id"], _Reply(row["raw"], row.get("form"), row.get("answer"), task))
            if first.task is not task:
                raise Ad2Error(
                    f"{first.task.name} and {task.name} both answer question {row['id']}: name one, with --tasks"
                )
    return found


def _drivelm_rows(
    data: Dataset, replies: dict[str, _Reply], file: WrittenDriveLm, fill: bool, parsed: bool
) -> list[dict[str, str]]:
    """The rows of the file; counts them in `file`."""
    rows = []
    last = next(reversed(replies.values()), None)
    for record in data.records():
        file.questions += 1
        reply = replies.pop(record.id, None)
        answer = None
        if reply is None:
            file.not_asked += 1
        elif failure_reason(reply.raw):
            file.failed += 1
        else:
            answer = _choice(record, reply, file) if parsed else reply.raw
        if answer is not None or fill:
            file.rows += 1
            released = record.meta.get("question_raw")  # the text of a question with options
            question = released if isinstance(released, str) else record.question.en
            rows.append({"id": record.id, "question": question, "answer": answer or ""})
    if replies and last is not None:
        raise last.task.fault("id", f"the id of a question of {file.data}", next(iter(replies)))
    return rows


def _choice(record: Record, reply: _Reply, file: WrittenDriveLm) -> str:
    """The choice in the challenge's spelling; the reply itself for an open question, or if no choice was parsed."""
    if reply.form not in ("mc", "yesno"):
        return reply.raw
    offered = YES_NO if reply.form == "yesno" else tuple(option.letter for option in record.options)
    if reply.answer not in offered:
        file.unparsed += 1
        return reply.raw
    file.parsed += 1
    return f"{reply.answer.capitalize()}." if reply.form == "yesno" else str(reply.answer)


# A task of a finished run with the imported data that it asked: what an export of its replies reads.

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
    chosen = _by_part(tables_of(run, BENCHMARK, "CODA-LM", tasks, "bench_coda_lm"), run)
    stale = [name for part, name in FILES.items() if part not in chosen and (out / name).exists()]
    if stale:
        raise Ad2Error(f"{out} has {', '.join(stale)} of another export; choose another --out, or remove it")
    written = []
    for part, (name, table) in sorted(chosen.items(), key=lambda item: list(FILES).index(item[0])):
        task = AnsweredTask(run, name, table)
        file = WrittenAnswers(out / FILES[part], name, f"{task.data.name}/{task.data.split}")
        with atomic_write(file.path) as handle:
            for row in _rows(task, file, fill):
                print(json.dumps(asdict(row), ensure_ascii=False), file=handle)
        written.append(file)
    return written


def _by_part(tables: Tables, run: Path) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Part -> the name and table of its task."""
    chosen: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for name, table in tables.items():
        other, _ = chosen.setdefault(str(table.get("part")), (name, table))
        if other != name:
            raise Ad2Error(f"{other} and {name} answer the same part: name one task per part, with --tasks")
    if wrong := chosen.keys() - FILES:
        raise Ad2Error(f"{run}: part '{min(wrong)}' has no answer file; parts with one: {', '.join(FILES)}")
    return chosen


def _rows(task: AnsweredTask, file: WrittenAnswers, fill: bool) -> Iterator[CodaAnswerRow]:
    """The rows of the task's file; counts them in `file`. Samples are read along with the records."""
    images = list(numbers_by_image(_records(task)))
    prompts = PromptSet.load()
    samples = task.samples()
    sample = next(samples, None)
    for number, record in enumerate(_records(task)):
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
            question = task_prompt.prompt_text(record, task.variant, prompts) if question is None else question
            yield CodaAnswerRow(number, images[number], question, answer or "")
    if sample is not None:
        raise task.fault("id", f"the records of {task.data.name}/{task.data.split} in their order", sample["id"])


def _records(task: AnsweredTask) -> Iterator[Record]:
    return (record for record in task.data.records() if record.task == task.variant.part)
