"""Export of a run's replies as an answer file of the DriveLM challenge (OpenDriveLab/DriveLM, `challenge/`).

    [{"id": "<scene>_<frame>_<index>", "question": "...", "answer": "..."}, ...]            output.json
    {"method", "team", "authors", "email", "institution", "country", "results": [...]}      submission.json

Rows are in the order of the imported split; `question` is the released text. The challenge's `gt_answer` is not
written: its evaluation reads the references from its own file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import YES_NO, Record
from lmms_eval_ad2.data.export.answered_task import AnsweredTask, tables_of
from lmms_eval_ad2.data.home import Dataset
from lmms_eval_ad2.parsing import failure_reason
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.untrusted_json import load

BENCHMARK = "drivelm"
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
    tables = tables_of(run, BENCHMARK, "DriveLM", tasks, "bench_drivelm")
    answered = [AnsweredTask(run, name, table) for name, table in tables.items()]
    data = answered[0].data
    file = WrittenDriveLm(path, tuple(tables), f"{data.name}/{data.split}")
    rows = _rows(data, _replies(answered), file, fill, parsed)
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


def _rows(
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
            rows.append({"id": record.id, "question": _question(record), "answer": answer or ""})
    if replies and last is not None:
        raise last.task.fault("id", f"the id of a question of {file.data}", next(iter(replies)))
    return rows


def _question(record: Record) -> str:
    raw = record.meta.get("question_raw")  # the released text of a question with options
    return raw if isinstance(raw, str) else record.question.en


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
