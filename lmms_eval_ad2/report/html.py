"""One self-contained page about some runs: tables, plots, and the worst samples with their images.

Nothing is fetched from anywhere: styles and plots are inline, images are JPEG in the page. What
models, data sets and judges wrote is untrusted; the template escapes all of it.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import lmms_eval_ad2
from lmms_eval_ad2.errors import Ad2Error, require
from lmms_eval_ad2.report import plots, tables
from lmms_eval_ad2.report.breakdowns import breakdown_grids
from lmms_eval_ad2.report.grid import Grid, grids
from lmms_eval_ad2.report.lines import data_notes
from lmms_eval_ad2.report.pictures import pictures
from lmms_eval_ad2.report.runs import Run, Task, sample_rows
from lmms_eval_ad2.report.worst import Worst, worst

WORST = 4
PLOTTED = frozenset({"weather", "severity"})


def write(runs: Sequence[Run], path: Path, *, published: bool = True, worst_samples: int = WORST) -> None:
    """Write the page of `runs` to `path`, whole or not at all.

    Raises MissingExtra without matplotlib or Jinja2, Ad2Error where the file cannot be written.
    """
    text = page(runs, published=published, worst_samples=worst_samples)
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, "utf-8", errors="replace")
        temporary.replace(path)
    except OSError as exc:
        temporary.unlink(missing_ok=True)
        raise Ad2Error(f"cannot write the report page {path}: {exc}") from exc


def page(runs: Sequence[Run], *, published: bool = True, worst_samples: int = WORST) -> str:
    """The page as HTML text."""
    jinja2 = require("jinja2", "the report page")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    source = resources.files(__package__).joinpath("page.html").read_text("utf-8")
    return environment.from_string(source).render(
        title=", ".join(dict.fromkeys(run.name for run in runs)),
        version=lmms_eval_ad2.__version__,
        written=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        warnings=_warnings(runs),
        runs=[_about(run) for run in runs],
        grids=[_table(g, plots.bars(g)) for g in grids(runs, with_published=published)],
        status=plots.status(runs),
        error_kinds=plots.error_kinds(runs),
        breakdowns=[_table(g, plots.bars(g) if g.key.split("/")[2] in PLOTTED else None) for g in breakdown_grids(runs)],
        tasks=[_task(run, task) for run in runs for task in run.tasks.values()],
        worst=_worst(runs, worst_samples),
        legend=tables.LEGEND_PAGE,
    )


def _warnings(runs: Sequence[Run]) -> list[str]:
    """What must be known before any figure is read."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for task in run.tasks.values():
            name = str(task.data.get("name", "?"))
            for note in data_notes(name, run.about.get("limit")):
                found.setdefault(f"{name}: {note}", []).append(run.name)
    return [f"{text} ({', '.join(dict.fromkeys(names))})" for text, names in found.items()]


def _about(run: Run) -> dict[str, Any]:
    about = run.about
    judge = about.get("judge") if isinstance(about.get("judge"), Mapping) else {}
    data = {(str(t.data.get("name")), str(t.data.get("split")), str(t.data.get("sha256"))) for t in run.tasks.values()}
    facts = {
        "model": about.get("model"),
        "arguments": about.get("model_args"),
        "judge": run.judge,
        "judge usage": judge.get("usage") if judge else None,
        "date": about.get("date"),
        "seed": about.get("seed"),
        "first records only": about.get("limit"),
        "prompts sha256": about.get("prompts_sha256"),
        "rescored from": about.get("rescored_from"),
        "versions": about.get("versions"),
        "data": "; ".join(f"{name} {split} sha256 {sha[:16]}" for name, split, sha in sorted(data)),
    }
    return {"name": run.name, "role": run.role, "facts": {k: _plain(v) for k, v in facts.items() if v not in (None, "", {})}}


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _table(grid: Grid, plot: str | None) -> dict[str, Any]:
    """A grid as the template wants it. Figures keep their counts as a tool tip."""
    rows = []
    for row in grid.rows:
        cells = []
        for cell, column in zip(row.cells, grid.columns, strict=True):
            text = tables.official(cell, row, column, grid)
            figure, _, span = text.partition(" [")
            ours = cell is not None and row.kind != "published"
            cells.append({
                "figure": figure,
                "span": f"[{span}" if span else "",
                "strict": tables.number(cell.strict) if ours and cell is not None and cell.strict is not None else "",
                "tip": tables.tip(cell) if ours and cell is not None else "",
            })  # fmt: skip
        n, bad = tables.counts(row)
        rows.append({"row": row, "cells": cells, "n": n, "bad": bad})
    return {"grid": grid, "rows": rows, "plot": plot}


def _task(run: Run, task: Task) -> dict[str, Any]:
    return {
        "run": run.name,
        "name": task.name,
        "data": f"{task.data.get('name', '?')} {task.data.get('split', '')}",
        "judge": task.judge or tables.NONE,
        "cell": task.score,
        "score": tables.NGRAM if task.open_ended else tables.interval(task.score),
        "strict": tables.number(task.score.strict),
        "reasons": ", ".join(f"{reason} {n}" for reason, n in task.reasons.items()),
    }


# --- worst samples ---


def _worst(runs: Sequence[Run], count: int) -> list[dict[str, Any]]:
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
            "answer": None if row.get("answer") is None else _plain(row["answer"]),
            "reference": _reference(row),
            "judge": _marks(row),
            "images": shown.images,
            "trouble": shown.trouble,
        })  # fmt: skip
    return samples


def _marks(row: Mapping[str, Any]) -> str:
    """What the judge gave, by rubric and part: "ad2_sacs 0: 7, ad2_sacs 1: 4"."""
    marks = []
    for entry in row.get("judge") or ():
        if isinstance(entry, Mapping):
            part = "" if entry.get("part") in (None, "0") and len(row["judge"]) == 1 else f" {entry.get('part')}"
            mark = entry.get("score") if entry.get("score") is not None else entry.get("reason")
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
