"""A file of records with images, and makers without a model, for tests of rows, store and build."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS
from lmms_eval_ad2.mcq.base import AcceptedQuestion, Distractor, OpenQuestion, Outcome, RejectedQuestion, RoleExchange
from lmms_eval_ad2.mcq.build import McqBuildJob
from lmms_eval_ad2.mcq.question_plan import plan
from lmms_eval_ad2.mcq.sources import open_source, survey

PLACES = (
    ("perception", "motion state"), ("perception", "surrounding objects"), ("prediction", "signal meaning"),
    ("planning", "goal action"),
)  # fmt: skip


def a_record(number: int, **changes: Any) -> Record:
    task, subtask = PLACES[number % len(PLACES)]
    data: dict[str, Any] = {
        "id": f"q{number:03}", "benchmark": "records", "task": task, "subtask": subtask, "form": "vqa",
        "images": (f"cam/{number % 3}.jpg",), "question": BilingualText(f"What is thing {number} doing?"),
        "answer": BilingualText(f"It carries load number {number}."), "views": ("CAM_FRONT",), "image_size": (16, 9),
        "cluster": f"scene{number % 5}",
    }  # fmt: skip
    return Record(**{**data, **changes})


def a_question(number: int = 1, **changes: Any) -> OpenQuestion:
    record = a_record(number, **changes)
    answer = record.answer.get("en")
    return OpenQuestion(record.id, record, "records", record.task, record.subtask, answer, Path("/images"), (record,))


def write_records(folder: Path, count: int = 20, records: Iterable[Record] | None = None) -> Path:
    """Write records.jsonl and its images; returns the path of the file."""
    from PIL import Image

    for number in range(3):
        path = folder / "cam" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 9), (number * 40, 90, 120)).save(path)
    file = folder / "records.jsonl"
    rows = records if records is not None else map(a_record, range(count))
    file.write_text("".join(record.to_json() + "\n" for record in rows), "utf-8")
    return file


def made(question: OpenQuestion, **changes: Any) -> AcceptedQuestion:
    others = tuple(Distractor(f"It carries {what} of {question.id}.", kind, f"because {what}")
                   for what, kind in zip(("bricks", "sand", "water"), ERRORS, strict=False))  # fmt: skip
    return AcceptedQuestion(**{"question": question, "distractors": others, "correctness": 5, **changes})


@dataclass(slots=True)
class FakeMaker:
    """Accepts every question unless `outcome_of` returns another outcome. `asked`: ids of the questions so far."""

    outcome_of: Callable[[OpenQuestion], Outcome | None] = lambda question: None
    settings: Mapping[str, Any] = field(default_factory=dict)
    label: str = "fake"
    asked: list[str] = field(default_factory=list)

    def unsuited(self, source: str, text: str) -> str | None:
        return None

    def describe(self) -> dict[str, Any]:
        return {"maker": "fake", **self.settings}

    def account(self) -> dict[str, Any]:
        return {"requests": len(self.asked), "prompt_tokens": 10 * len(self.asked), "completion_tokens": 0}

    def make(self, questions: Iterable[OpenQuestion], done: Callable[[Outcome], None]) -> None:
        for question in questions:
            self.asked.append(question.id)
            outcome = self.outcome_of(question)
            done(
                outcome
                if outcome is not None
                else made(question, exchanges=(RoleExchange("select", "which?", "these"),))
            )


def rejecting(*ids: str, passing: bool = False) -> Callable[[OpenQuestion], Outcome | None]:
    """An `outcome_of` that rejects these ids."""
    reason = "http_500" if passing else "ambiguous"
    return lambda q: RejectedQuestion(q, reason, passing=passing) if q.id in ids else None


def a_job(file: Path, out: Path, maker: Any, **changes: Any) -> McqBuildJob:
    sources = (open_source(f"records={file}"),)
    surveyed = survey(sources, progress=False)
    drawn = plan(surveyed, total=changes.pop("total", None), seed=changes.get("seed", 0))
    return McqBuildJob(sources, surveyed, drawn, maker, out, **{"progress": False, **changes})


def rows_of(out: Path, name: str = "questions.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / name).read_text("utf-8").splitlines()]
