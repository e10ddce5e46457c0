"""Every request of the open-loop tasks to a model under test: lmms-eval's endpoint models and our own.

All tasks of the sample, and all other tasks over small releases (two records of a task). Rows of requests that are sent
one at a time are in order of arrival: task by task, as in `tasks` with the numbers of records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import data_layouts
from recording_endpoint import KEY, Endpoint, Json, described, number_of, serve, text_of
from workspace import Workspace

COST = "minutes"
OWN_PROMPTS = """en:
  vqa: "{question} Say it in one sentence. {{braces}}"
  coda_general: "What matters here?"
  mc: "{question}\\n{options}\\nWhich one of {letters}?"
zh:
  vqa: "{question}（一句话）"
"""
# case -> (model, arguments, tasks, further words)
RUNS: dict[str, tuple[str, str, str, Sequence[str]]] = {
    "swift server, sampled": (
        "ad2_swift", "server={root},num_concurrent=1,temperature=0.3,seed=9,max_new_tokens=55,system_prompt=Be brief.",
        "ad2demo_coda_region,ad2demo_mcq_planning,ad2demo_cot_rounds", (),
    ),
    "async_openai": (
        "async_openai", "model_version=golden,base_url={url},num_cpus=1", "ad2demo_coda_region", (),
    ),
    "prompts of one's own": (
        "openai", "model_version=golden,base_url={url},num_concurrent=1",
        "ad2demo_coda_general,ad2demo_perception_base,ad2demo_relation", ("--prompts", "{prompts}", "--limit", "3"),
    ),
    "all other tasks": (
        "openai", "model_version=golden,base_url={url},num_concurrent=1", "ad2_*,ad2x_*", ("--limit", "2"),
    ),
}  # fmt: skip


def record(work: Workspace) -> dict[str, Any]:
    (work.folder / "prompts.yaml").write_text(OWN_PROMPTS, "utf-8")
    _import_releases(work)
    with serve(_reply) as endpoint:
        sample = _sample(work, endpoint)
        return {"the sample": sample, **{name: _run(work, endpoint, name) for name in RUNS}}


def _sample(work: Workspace, endpoint: Endpoint) -> Json:
    """All tasks of the sample at an endpoint, with the run file that the product contains."""
    out = work.folder / "sample"
    config = work.repo / "configs" / "models" / "openai_endpoint.yaml"
    work.run(
        "lmms_eval", "--config", config, "--tasks", "ad2demo_*", "--output_path", out,
        OPENAI_API_KEY=KEY, OPENAI_API_BASE=endpoint.url, AD2_JUDGE="lexical",
    )  # fmt: skip
    return _recorded(out, endpoint, 80, in_order=False)


def _run(work: Workspace, endpoint: Endpoint, name: str) -> Json:
    model, arguments, tasks, more = RUNS[name]
    out = work.folder / re.sub(r"\W+", "_", name)
    root = endpoint.url.removesuffix("/v1")
    work.run(
        "ad2", "eval", "--model", model, "--model-args", arguments.format(url=endpoint.url, root=root), "--tasks",
        tasks, "--out", out, "--judge", "lexical", *(w.format(prompts=work.folder / "prompts.yaml") for w in more),
        OPENAI_API_KEY=KEY,
    )  # fmt: skip
    return _recorded(out, endpoint, 200 if "--limit" in more else 20, in_order=model != "async_openai")


def _recorded(out: Path, endpoint: Endpoint, texts: int, *, in_order: bool) -> Json:
    (summary,) = out.rglob("summary.json")
    tables = json.loads(summary.read_text("utf-8"))["tasks"]
    return {
        "tasks": {name: table["n"] for name, table in tables.items()},
        "order": list(tables) if in_order else [],
        "requests": described(endpoint.take_requests(), in_order=in_order, texts=texts),
    }


def _reply(body: Any) -> str:
    """A short reply that depends on the request, since each round of a chain contains the replies before it."""
    return f"<start1>fog {number_of(text_of(body), 100)}<end> Slow down. {{question}} <|im_end|>"


# Releases for the tasks that need one


def _import_releases(work: Workspace) -> None:
    made, root = data_layouts, work.folder / "releases"
    questions = made.autodrive_qa(root / "mcq")
    coda = {split: made.coda_lm(root / split, split=split, images=2) for split in ("Test", "Val", "Mini")}
    drivelm = work.data / "drivelm"
    imports: list[Sequence[str | Path]] = [
        ("ad2_bench", _bench(root / "bench")),
        ("drivelm", drivelm / "test_eval.json", "--split", "test", "--images", drivelm / "images"),
        *(("coda_lm", root, "--split", split.lower(), "--partial") for split, root in coda.items()),
        *(("autodrive_qa", questions, "--skip-bad", "--as", f"autodrive_qa{kind}")
          for kind in ("", "_naive", "_question_ambiguity")),
    ]  # fmt: skip
    for words in imports:
        work.run("ad2", "data", "import", *words)


def _bench(root: Path) -> Path:
    """AD2-Bench with every kind of mark in every part, in two languages; each part has two chains."""
    data_layouts.picture(root / "1.png", 10)
    data_layouts.picture(root / "2.png", 99)
    rows = [row for part in ("perception_base", "perception_advanced", "relation", "reasoning") for row in _part(part)]
    return data_layouts.write_lines(root / "rows.jsonl", rows)


def _part(dimension: str) -> list[Json]:
    marks = (
        {"type": "box", "coords": [[0.1, 0.2, 0.3, 0.4]]},
        {"type": "box", "coords": [[0.1, 0.2, 0.3, 0.4], [0.5, 0.5, 0.9, 0.8]]},
        {"type": "text", "coords": [], "text": "the truck on the left"},
        {"type": "point", "coords": [[0.25, 0.75]]},
    )
    letters = {letter: {"en": f"option {letter}", "zh": f"选项{letter}"} for letter in "ABCDEF"}
    rows = []
    for number, mark in enumerate(marks):
        row: Json = {
            "id": f"{dimension}{number}", "image": f"{1 + number % 2}.png", "image_size": list(data_layouts.SIZE),
            "dimension": dimension, "subtask": ("spatial", "motion", "weather", "attribute")[number],
            "coords_frame": "normalised", "prompt": mark, "form": "mc", "options": letters, "letter": "B",
            "question": {"en": f"What about {dimension} {number}?", "zh": f"怎么样{number}？"},
        }  # fmt: skip
        if number < 2:
            row["cot"] = [{"step": n, "question": {"en": f"Step {n}?", "zh": f"步骤{n}？"}, "answer": {"en": "Fog.",
                           "zh": "雾。"}, "subtask_id": n} for n in (1, 2, 3)]  # fmt: skip
        rows.append(row)
    return rows
