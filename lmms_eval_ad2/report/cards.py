"""The worst samples of each task as cards: image, question, answer, reference, score. The page escapes the text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lmms_eval_ad2.report import tables
from lmms_eval_ad2.report.pictures import pictures
from lmms_eval_ad2.report.runs import Run, Task, sample_rows
from lmms_eval_ad2.report.worst import Worst, worst


def cards(runs: Sequence[Run], count: int) -> list[dict[str, Any]]:
    """The worst samples of every task of the models; of floors and ceilings only where there is nothing else."""
    if not count:
        return []
    shown = [run for run in runs if run.role == "run"] or list(runs)
    found = []
    for run in shown:
        for task in run.tasks.values():
            if task.open_ended or not (run.folder / "samples" / f"{task.name}.jsonl").exists():
                continue
            best = worst(sample_rows(run, task.name), count)
            if best.rows:
                found.append({"run": run.name, "task": task.name, "n": best.n, "samples": _samples(task, best)})
    return found


def _samples(task: Task, best: Worst) -> list[dict[str, Any]]:
    samples = []
    for row in best.rows:
        shown = pictures(row, task)
        samples.append({
            "id": row.get("id"),
            "score": tables.number(row.get("score")),
            "status": row.get("status"),
            "reason": row.get("reason"),
            "subtask": row.get("subtask"),
            "question": _question(row),
            "options": _options(row),
            "raw": [str(x) for x in row["raw"]] if isinstance(row.get("raw"), list) else [str(row.get("raw", ""))],
            "answer": _read_as(row),
            "reference": _reference(row),
            "judge": _marks(row),
            "images": shown.images,
            "trouble": shown.trouble,
        })  # fmt: skip
    return samples


def _read_as(row: Mapping[str, Any]) -> str | None:
    """What the answer was read as; None where there is none, or where it is the text itself."""
    answer = row.get("answer")
    return None if answer is None or answer == row.get("raw") else plain(answer)


def _marks(row: Mapping[str, Any]) -> str:
    """What the judge gave, by rubric and part: "ad2_sacs 0: 7, ad2_sacs 1: 4"."""
    marks = []
    for entry in row.get("judge") or ():
        if isinstance(entry, Mapping):
            part = "" if entry.get("part") in (None, "0") and len(row["judge"]) == 1 else f" {entry.get('part')}"
            score = entry.get("score")
            mark = f"{score:.3g}" if isinstance(score, int | float) else entry.get("reason")
            marks.append(f"{entry.get('rubric')}{part}: {mark}")
    return ", ".join(marks)


def _record(row: Mapping[str, Any]) -> Mapping[str, Any]:
    record = row.get("record")
    return record if isinstance(record, Mapping) else {}


def _in(text: Any, lang: str) -> str:
    """A text of a record in the language that was asked, else in the other one."""
    if not isinstance(text, Mapping):
        return str(text or "")
    return str(text.get(lang) or text.get("en") or text.get("zh") or "")


def _question(row: Mapping[str, Any]) -> str:
    return _in(_record(row).get("question"), str(row.get("lang", "en"))) or str(row.get("prompt", ""))


def _options(row: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    lang = str(row.get("lang", "en"))
    options = _record(row).get("options") if row.get("form") == "mc" else None
    return [
        (str(o.get("letter", "")), _in(o.get("text"), lang), str(o.get("kind", "")))
        for o in (options or ()) if isinstance(o, Mapping)
    ]  # fmt: skip


def _reference(row: Mapping[str, Any]) -> str:
    record, lang = _record(row), str(row.get("lang", "en"))
    if row.get("form") == "mc":
        return str(record.get("letter", ""))
    if row.get("form") == "chain":
        steps = [s for s in record.get("steps") or () if isinstance(s, Mapping)]
        return "\n".join(f"{i}. {_in(s.get('answer'), lang)}" for i, s in enumerate(steps, 1))
    return _in(record.get("answer"), lang)


def plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
