"""The same questions of the real DriveLM sample with two sets of distractors, answered by chance and compared.

Commands: `ad2 mcq build`, `ad2 data import`, `ad2 eval`, and `ad2 report compare --distractors naive all`, which pairs
the sets by question within one run and between two.
"""

from __future__ import annotations

import json
from typing import Any

from workspace import Workspace, json_digest, read_jsonl

COST = "minutes"
SETS = {"all": "autodrive_qa", "naive": "autodrive_qa_naive"}
TASKS = "ad2_mcq_planning,ad2x_mcq_planning_naive,ad2_mcq_perception,ad2x_mcq_perception_naive"
MODELS = {"chance": "ad2_chance", "most_usual": "ad2_majority"}


def record(work: Workspace) -> dict[str, Any]:
    for kind, name in SETS.items():
        _build_and_import(work, kind, name)
    for out, model in MODELS.items():
        words = ("--tasks", TASKS, "--judge", "lexical", "--batch-size", "8")
        work.run("ad2", "eval", "--model", model, *words, "--out", out)
    first, second = MODELS
    return {
        "tasks": {out: _tasks(work, out) for out in MODELS},
        "within_one_run": _compared(work, first),
        "between_two_runs": _compared(work, first, second),
        "the_other_way": _compared(work, first, sets=("all", "naive")),
        "one_category": work.run(
            "ad2", "report", "compare", first, "--distractors", "naive", "logical_inconsistencies", code=2
        ).returncode,
    }


def _build_and_import(work: Workspace, kind: str, name: str) -> None:
    real = work.data / "drivelm"
    work.run(
        "ad2", "mcq", "build", "--source", f"drivelm={real / 'train_sample.json'}", "--images", real / "images",
        "--llm", "rules", "--distractors", kind, "--total", "60", "--out", kind, "--no-progress",
    )  # fmt: skip
    folder = work.folder / kind
    words = ("--images", folder / "images", "--split", "test", "--as", name)
    work.run("ad2", "data", "import", "autodrive_qa", folder / "questions.jsonl", *words)


def _tasks(work: Workspace, out: str) -> dict[str, Any]:
    """Score, data block and error kinds of each task, and a digest of its samples."""
    (path,) = (work.folder / out).rglob("summary.json")
    tables = work.scrub(json.loads(path.read_text("utf-8"))["tasks"], replace={str(work.data): "<data>"})
    return {
        name: {
            **{key: table[key] for key in ("n", "score", "data", "error_kinds", "offered_kinds")},
            "samples": json_digest(work.scrub(read_jsonl(path.parent / "samples" / f"{name}.jsonl"))),
        }
        for name, table in tables.items()
    }


def _compared(work: Workspace, *runs: str, sets: tuple[str, str] = ("naive", "all")) -> Any:
    done = work.run("ad2", "report", "compare", *runs, "--distractors", *sets, "--json")
    data = work.scrub(json.loads(done.stdout))
    for row in data["tasks"]:
        row["notes"] = len(row["notes"])  # wording
    return data
