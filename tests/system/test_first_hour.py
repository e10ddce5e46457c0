"""scripts/first_hour.sh with a tiny Qwen3-VL, a tiny LLaVA and a model that cannot be loaded; killed and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.running import PATIENCE_S, REPO, environment, kill_on_error, run
from support.tiny_models import make_tiny_llava, make_tiny_qwen3_vl

from closedloop_plugin.scenarios.suites.lookup import DEMO, VARIABLE

SCRIPT = REPO / "scripts" / "first_hour.sh"


def command_of(model: Path, out: Path) -> list[str]:
    """The smallest size: one question, one demo route, a decision every four seconds. Models may follow."""
    tiny = f"tiny=qwen3_vl,pretrained={model},min_pixels=3136,max_pixels=12544,max_new_tokens=4"
    return [
        str(SCRIPT), tiny, "--out", str(out), "--device", "cpu", "--no-baselines",
        "--tasks", "ad2demo_relation", "--limit", "1", "--decision-hz", "0.25", "--size", "80x45",
        "--stop-after-unread", "0", "--routes", "1", "--workers", "1",
    ]  # fmt: skip


def variables() -> dict[str, str]:
    search = os.pathsep.join(filter(None, sys.path))
    routes = {VARIABLE: str(DEMO)}  # as if they were Bench2Drive's
    return environment(PYTHONPATH=search, PYTHON=sys.executable, OMP_NUM_THREADS="1", **routes)


def kill_in_the_drive(command: list[str], out: Path, env: dict[str, str]) -> None:
    """Start, and kill -9 while the model is loaded for its drive."""
    begun = out / "logs" / "demo-tiny.log"
    with kill_on_error(
        subprocess.Popen(command, cwd=out.parent, env=env, stdout=subprocess.DEVNULL, start_new_session=True)
    ) as script:
        deadline = time.monotonic() + PATIENCE_S
        while not begun.exists():
            assert script.poll() is None and time.monotonic() < deadline, "it ended before its drive"
            time.sleep(0.01)
        os.kill(script.pid, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="a command outlives its killed script elsewhere")
def test_a_killed_script_resumes_and_a_failing_model_does_not_stop_the_other(tmp_path: Path) -> None:
    pytest.importorskip("decord")
    out, env = tmp_path / "o", variables()
    command = command_of(make_tiny_qwen3_vl(tmp_path / "model"), out)
    kill_in_the_drive(command, out, env)
    llava = f"llava=llava_hf,pretrained={make_tiny_llava(tmp_path / 'llava')},max_new_tokens=4"
    done = run(*command, llava, "broken=no_such_wrapper", cwd=tmp_path, code=1, cold=True, **env)
    assert "[1/10] questions tiny: finished before" in done.stdout, done.stdout
    assert "[4/10] demo tiny: resumes" in done.stdout and "[4/10] demo tiny: done" in done.stdout
    assert "not finished: demo broken: exit code 2: error: no model 'no_such_wrapper'" in done.stdout
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in (out / "stages.md").read_text().splitlines()]
    outcomes = {row[0]: row[1] for row in rows[2:-1]}
    parts = ("questions", "demo", "routes")
    expected = {f"{part} {model}": "finished" for part in parts for model in ("tiny", "llava")}
    expected |= {f"{part} broken": "failed" for part in parts}
    assert outcomes == {**expected, "report": "finished"}
    of_stage = {row[0]: row for row in rows}
    assert of_stage["demo tiny"][2].startswith("≥ ") and of_stage["demo tiny"][3] == "2"
    assert int(of_stage["questions tiny"][4].replace(",", "")) > 200, "MiB"
    for model in ("tiny", "llava"):
        for part, suite in (("demo", "demo"), ("routes", "embedded220")):
            lines = (out / "runs" / model / part / "episodes.jsonl").read_text().splitlines()
            assert [(r["suite"], r["end"]) for r in map(json.loads, lines)] == [(suite, "blocked")], lines
    page = (out / "report.html").read_text("utf-8")
    assert "qwen3_vl" in page and "llava_hf" in page and "AD2-Bench: relation" in page
