"""scripts/learn.sh at a hundredth of its size, end to end: collect, label, train, own drives, blind twin, report."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from support.running import REPO, environment, run

SCRIPT = REPO / "scripts" / "learn.sh"
WORDS = ("--scale", "0.01", "--suite", "demo", "--rounds", "1", "--workers", "1", "--processes", "1", "--no-baselines",
         "--out", "out")  # fmt: skip


def test_from_nothing_to_a_report(tmp_path: Path) -> None:
    env = environment(PYTHONPATH=os.pathsep.join(filter(None, sys.path)), PYTHON=sys.executable)
    done = run(str(SCRIPT), *WORDS, cwd=tmp_path, cold=True, **env)
    out = tmp_path / "out"
    assert "] report: done" in done.stdout, done.stdout[-3000:]
    outcomes = [line.split("|")[2].strip() for line in (out / "stages.md").read_text("utf-8").splitlines()[2:-1]]
    assert set(outcomes) == {"finished"} and len(outcomes) == 23
    for driver in ("sighted", "blind"):
        (record,) = [
            json.loads(x) for x in (out / "runs" / driver / "drive" / "episodes.jsonl").read_text().splitlines()
        ]
        assert record["end"] not in ("agent failed", "world failed", "invalid episode"), (driver, record["reason"])
    for model in ("sighted1", "blind1"):
        card = json.loads((out / "models" / model / "ad2_training.json").read_text("utf-8"))
        assert {one["name"] for one in card["sets"]} == {"expert", "words", "own1"}
        assert all(route["id"].startswith("m") for one in card["sets"] for route in one["routes"])
        assert (out / "models" / model / "model.safetensors").stat().st_size < 15e6
    losses = (out / "logs" / "loss-of-held-out-rows.log").read_text("utf-8")
    models = [line.split()[0] for line in losses.splitlines() if line.endswith(" of 1 routes")]
    assert [Path(name).name for name in models] == ["sighted0", "sighted1", "blind0", "blind1"], losses
    assert "llava_hf" in (out / "report.html").read_text("utf-8")
    again = run(str(SCRIPT), *WORDS, cwd=tmp_path, cold=True, **env)
    assert again.stdout.count("finished before") == 22  # the report runs in every call
