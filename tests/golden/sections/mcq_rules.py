"""`ad2 mcq build --llm rules` on the real DriveLM sample: every question, the card, the check and the split."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from workspace import Workspace, digest, file_names, json_digest, read_jsonl

COST = "minutes"
SETS = {
    "all": (), "naive": ("--distractors", "naive"),
    "drawn": ("--total", "120", "--seed", "7", "--tasks", "perception=0.4,prediction=0.3,planning=0.3"),
}  # fmt: skip
DROPPED_FROM_CARD = ("date", "version", "statement")  # top-level keys: time, our version, wording


def record(work: Workspace) -> dict[str, Any]:
    found = {name: _built(work, name, words) for name, words in SETS.items()}
    for name in ("all", "naive"):
        report = json.loads(work.run("ad2", "mcq", "check", name, "--json", "--no-progress").stdout)
        report["faults"].pop("meaning")  # wording
        found[name]["check"] = {**work.scrub(report), "warnings": len(report["warnings"])}
    found["split"] = {seed: _split(work, seed) for seed in ("0", "3")}
    return found


def _built(work: Workspace, name: str, words: tuple[str, ...]) -> dict[str, Any]:
    out = work.folder / name
    source = work.data / "drivelm"
    work.run(
        "ad2", "mcq", "build", "--source", f"drivelm={source / 'train_sample.json'}", "--images", source / "images",
        "--llm", "rules", "--out", out, "--no-progress", *words,
    )  # fmt: skip
    outside = {str(work.data): "<data>"}
    return {
        "files": [n for n in file_names(out) if not n.startswith("images/")],
        "settings": work.scrub(json.loads((out / "settings.json").read_text("utf-8")), replace=outside),
        "card": work.scrub(
            {k: v for k, v in json.loads((out / "card.json").read_text("utf-8")).items() if k not in DROPPED_FROM_CARD},
            replace=outside,
        ),
        "questions": [_line(row) for row in read_jsonl(out / "questions.jsonl")],
        "rejected": _counted(out / "rejected.jsonl"),
        # Account lines ("start") are written every few seconds: their number depends on timing.
        "journal": sum("start" not in line for line in read_jsonl(out / "journal.jsonl")),
    }


def _line(row: dict[str, Any]) -> str:
    return f"{row['id'][-12:]} {row['task']} {row['answer']} {json_digest(row)[:16]}"


def _counted(path: Path) -> dict[str, Any]:
    """Rejected questions: number by reason, and a digest of all."""
    rows = read_jsonl(path)
    reasons = sorted({row["reason"] for row in rows})
    return {
        "reasons": {reason: sum(row["reason"] == reason for row in rows) for reason in reasons},
        "rows": digest("".join(json_digest(row) for row in rows)),
    }


def _split(work: Workspace, seed: str) -> dict[str, Any]:
    out = work.folder / f"split_{seed}"
    work.run("ad2", "mcq", "split", "all/questions.jsonl", "--seed", seed, "--test", "0.3", "--out", out)
    rows = {part: read_jsonl(out / f"{part}.jsonl") for part in ("train", "test")}
    return {
        part: {
            "n": len(found),
            "scenes": sorted({row["cluster"] for row in found}),
            "rows": digest("".join(json_digest(row) for row in found)),
        }
        for part, found in rows.items()
    }
