"""From a study and the judge's marks in run folders to the files that `ad2 judge agree` compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmms_eval_ad2.annotate.study.folder import PairwiseStudy, labels
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.judge.agreement import HumanVotes, JudgedAnswer
from lmms_eval_ad2.judge.base import HIGHEST, LOWEST
from lmms_eval_ad2.scoring.result_files import read_samples, read_summary
from lmms_eval_ad2.storage.saved_samples import saved_repeats


def judged_answers(study: PairwiseStudy, runs: Sequence[Path] = ()) -> tuple[list[JudgedAnswer], str]:
    """The judge's mark of every answer in the study, one per judgement, and the label of the judge.

    runs: run folders instead of those that the study was drawn from, e.g. rescored ones; their labels name the models.
    Raises Ad2Error if a model has no run, or if the runs have different judges.
    """
    folders = {str(read_summary(run)["run"].get("label") or run.name): run for run in runs}
    folders = folders or {label: Path(folder) for label, folder in study.runs.items()}
    judges: dict[str, str] = {}
    found: list[JudgedAnswer] = []
    for model in labels(study.pairs):
        if model not in folders:
            raise Ad2Error(f"no run of {model!r} among those given: {', '.join(folders) or 'none'}")
        summary = read_summary(folders[model])
        judge = summary["run"].get("judge") or {}
        judges[model] = str(judge.get("label"))
        wanted: dict[str, set[str]] = {}
        for pair in study.pairs:
            if model in pair.models:
                wanted.setdefault(pair.task, set()).add(pair.id)
        for task, ids in wanted.items():
            found += _of_task(folders[model], task, model, ids, saved_repeats(folders[model] / "summary.json", judge))
    if len(set(judges.values())) > 1:
        each = ", ".join(f"{model}: {judge}" for model, judge in judges.items())
        raise Ad2Error(f"the runs were rated by different judges ({each}); rate them with one: ad2 rescore RUN --judge")
    return found, next(iter(judges.values()))


def _of_task(folder: Path, task: str, model: str, ids: set[str], repeats: int) -> Iterator[JudgedAnswer]:
    for row in read_samples(folder, task):
        if row.get("id") in ids:
            for number, score in enumerate(_scores(row, folder, task, repeats), 1):
                yield JudgedAnswer(task, row["id"], model, score, str(number))


def _scores(row: Mapping[str, Any], folder: Path, task: str, repeats: int) -> list[float | None]:
    """The marks of each judgement. An unparsed answer, which no judge saw, has the lowest."""
    entries = row.get("judge") or []
    if not entries and row.get("status") == "unparsed":
        return [LOWEST] * repeats
    scores = [score for entry in entries[:1] for score in entry.get("scores", [entry.get("score")])]
    scores = scores or [None] * repeats
    if not all(s is None or (is_number(s) and LOWEST <= s <= HIGHEST) for s in scores):
        raise DataError(folder / "samples" / f"{task}.jsonl", str(row.get("id")), "judge", "marks from 1 to 10", scores)
    return scores


def rating_rows(answers: Sequence[JudgedAnswer], judge: str) -> list[dict[str, Any]]:
    """The rows of a file of ratings (docs/judge.md)."""
    return [
        {"id": a.id, "task": a.task, "model": a.model, "judge": judge, "run": a.run, "score": a.score} for a in answers
    ]


def vote_rows(votes: Sequence[HumanVotes]) -> list[dict[str, Any]]:
    """The rows of a file of human votes (docs/judge.md)."""
    return [{"id": v.id, "task": v.task, "models": list(v.models), "votes": list(v.votes)} for v in votes]
