"""Open-loop runs of the sample by the oracle and by chance: summaries, samples, reports, comparisons, rescoring.

Both models answer all ad2demo_* tasks (judge: lexical) through `ad2 eval`. Cells of tables are recorded as values,
breakdowns and samples as digests. The journal's keys contain the version and are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workspace import Workspace, digest, file_names, json_digest, read_jsonl

COST = "minutes"
MODELS = ("ad2_oracle", "ad2_chance")
RESCORED = {"pixel": ("--frame", "pixel"), "unit": ("--frame", "unit"), "thousand": ("--frame", "thousand"),
            "auto": ("--frame", "auto"), "same": ()}  # fmt: skip
DIFFERENT_EACH_TIME = ("date", "versions")


def record(work: Workspace) -> dict[str, Any]:
    runs = {}
    for model in MODELS:
        words = ("--model", model, "--tasks", "ad2demo_*", "--judge", "lexical", "--batch-size", "8")
        work.run("ad2", "eval", *words, "--out", model)
        runs[model] = run_content(work, work.folder / model)
    return {
        "runs": runs,
        "files": {model: _files(work.folder / model) for model in MODELS},
        "report": report_content(work, *MODELS),
        "tables": markdown_numbers(work.run("ad2", "report", *MODELS, "--markdown", "--breakdowns").stdout),
        "compare": compared(work, *MODELS),
        "rescored": {name: _rescored(work, name, words) for name, words in RESCORED.items()},
    }


def run_content(work: Workspace, out: Path) -> dict[str, Any]:
    """The finished run below `out`: its summary, a digest of every sample, and the content of the journal."""
    (summary,) = out.rglob("summary.json")
    data = work.scrub(json.loads(summary.read_text("utf-8")), drop=DIFFERENT_EACH_TIME)
    for table in data["tasks"].values():
        table["breakdowns"] = {kind: json_digest(cells) for kind, cells in table["breakdowns"].items()}
    answers = [row for path in sorted(summary.parent.glob("journal/*.jsonl")) for row in read_jsonl(path)]
    return {
        "summary": data,
        "samples": {path.stem: _samples(work, path) for path in sorted(summary.parent.glob("samples/*.jsonl"))},
        "journal": {"answers": len(answers), "texts": json_digest(sorted(row["text"] for row in answers)),
                    "keys": sorted({key for row in answers for key in row})},
    }  # fmt: skip


def _samples(work: Workspace, path: Path) -> list[str]:
    """The samples in their order: id, status, score, and the beginning of the whole row's digest."""
    rows = [work.scrub(row) for row in read_jsonl(path)]
    return [f"{row['id']} {row['status']} {row['score']!r} {json_digest(row)[:24]}" for row in rows]


def _files(out: Path) -> list[str]:
    """All files below `out`; names of lmms-eval's files contain the time."""
    return [re.sub(r"(\d{8}|<hash>)_\d{6}_", "<time>_", name) for name in file_names(out)]


def report_content(work: Workspace, *results: str | Path) -> dict[str, Any]:
    """`ad2 report --json`: runs, each table's head and a digest of each row, a digest of each task."""
    text = work.run("ad2", "report", *results, "--json").stdout
    assert work.run("ad2", "report", *results, "--json", "--breakdowns").stdout == text, "--breakdowns changes --json"
    data = work.scrub(json.loads(text), drop=DIFFERENT_EACH_TIME)
    data["tables"] = [_table(table) for table in data["tables"]]
    data["tasks"] = [f"{task['run']} {task['name']} {json_digest(task)[:24]}" for task in data["tasks"]]
    return dict(data)


def _table(table: Mapping[str, Any]) -> dict[str, Any]:
    rows = [f"{row['label']}: {json_digest(row)[:24]}" for row in table["rows"]]
    return {
        "key": table["key"],
        "keys": sorted(table),
        "columns": [f"{column['key']} {json_digest(column)[:24]}" for column in table["columns"]],
        "rows": rows,
    }


def markdown_numbers(text: str) -> list[str]:
    """Every Markdown table: number of rows, and a digest of all cells that contain a number."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        rows = [[c.strip() for c in line.strip("|\n").split("|")] for line in block.splitlines()]
        cells = [[c for c in row if re.search(r"\d", c)] for row in rows[2:]]
        found.append(f"{len(cells)} rows of {len(rows[0])} {json_digest(cells)[:24]}")
    return found


def compared(work: Workspace, *words: str) -> dict[str, Any]:
    """`ad2 report compare --json`; notes are only counted."""
    data = work.scrub(json.loads(work.run("ad2", "report", "compare", *words, "--json").stdout))
    for row in data["tasks"]:
        row["notes"] = len(row["notes"])
    return dict(data)


def _rescored(work: Workspace, name: str, words: tuple[str, ...]) -> dict[str, Any]:
    """Saved answers of chance, rescored: the score of each task and a digest of its samples."""
    out = work.folder / f"again_{name}"
    work.run("ad2", "rescore", "ad2_chance", "--judge", "lexical", *words, "--out", out)
    data = json.loads((out / "summary.json").read_text("utf-8"))
    run = work.scrub(data["run"], drop=DIFFERENT_EACH_TIME)
    samples = {task: work.scrub(read_jsonl(out / "samples" / f"{task}.jsonl")) for task in data["tasks"]}
    return {
        "run": digest(json.dumps(run, sort_keys=True)),
        "rescored_from": run["rescored_from"],
        "files": len(file_names(out)),
        "tasks": {task: f"{table['score']['official']!r} {table['score']['strict']!r} {table['n_unparsed']} "
                  f"{json_digest(work.scrub(table))[:24]} {json_digest(samples[task])[:24]}"
                  for task, table in data["tasks"].items()},
    }  # fmt: skip
