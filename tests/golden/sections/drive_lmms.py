"""The closed-loop tasks of lmms-eval with a model that always replies the same: records, tracks, metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from closed_loop_runs import episodes, files, official, routes_file, run_json
from workspace import Workspace

COST = "minutes"
MODEL = ("--model", "dummy", "--model_args", "response=Accelerate gently and go straight.", "--batch_size", "1")


def record(work: Workspace) -> dict[str, Any]:
    work.run("ad2", "drive", "routes", "add", routes_file(work))
    threats = ("threats", "generate", "--suite", "demo", "--routes-ids", "101,104", "--agent", "steer-only")
    work.run("ad2", *threats, "--fuser", "rules", "--no-check", "--size", "96x54", "--out", "threats")
    return {
        "demo": _evaluated(work, "ad2drive_demo", AD2_DRIVE_WORKERS="2"),
        "demo, profile, seed": _evaluated(
            work, "ad2drive_demo", "--limit", "2", AD2_DRIVE_PROFILE="bench2drive", AD2_DRIVE_SEED="3"
        ),
        "standard": _evaluated(work, "ad2drive_standard", "--limit", "1"),
        "threat": _evaluated(work, "ad2drive_threat", AD2_THREATS=str(work.folder / "threats")),
    }


def _evaluated(work: Workspace, task: str, *words: str, **env: str) -> dict[str, Any]:
    name = f"{task}{len(words)}"
    out, run = work.folder / f"out_{name}", work.folder / f"run_{name}"
    settings = {"AD2_DRIVE_CAMERA": "front@96x54", "AD2_DRIVE_OUT": str(run), **env}
    arguments = ("--tasks", task, "--output_path", out, "--log_samples", *words)
    work.run("lmms_eval", *MODEL, *arguments, LMMS_EVAL_DISABLE_TRACKING="1", **settings)
    folder = next(path.parent for path in run.rglob("run.json"))
    return {
        "episodes": episodes(work, folder, full=True),
        "official": official(work, folder),
        "run": run_json(work, folder),
        "files": files(run),
        "results": _results(work, out, task),
    }


def _results(work: Workspace, out: Path, task: str) -> dict[str, Any]:
    """Metrics, higher_is_better, counts, and the threats' metadata, of lmms-eval's results file."""
    (path,) = out.rglob("*_results.json")
    value = json.loads(path.read_text("utf-8"))
    metadata = value["configs"][task].get("metadata") or {}
    threats = dict(metadata.get("threats") or {})
    return {
        "results": value["results"][task],
        "higher_is_better": value["higher_is_better"][task],
        "n-samples": value["n-samples"][task],
        "threats": work.scrub(threats, drop=("version", "commit", "world")),
    }
