"""scripts/verify_leaderboard.sh: refused inputs, and a whole run where a checkout of Bench2Drive is given.

    AD2_BENCH2DRIVE=checkout AD2_CARLA_PYTHONAPI=PythonAPI/carla [AD2_LEADERBOARD_VENV=folder] pytest ...

The second folder contains CARLA's package `agents`; the third is reused if it exists.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.running import PATIENCE_S, REPO

SCRIPT = REPO / "scripts" / "verify_leaderboard.sh"
EVALUATOR = Path("leaderboard", "leaderboard", "leaderboard_evaluator.py")
ROUTES = Path("leaderboard", "data", "bench2drive220.xml")
FIGURE = re.compile(r"^(\w[\w ]+?)  +([\d.]+) +([\d.]+)   (.+)$", re.M)


def verify(*words: str | Path, seconds: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHON": sys.executable}
    command = [str(SCRIPT), *map(str, words)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds, check=False)


def folder_of(variable: str) -> Path:
    if not (given := os.environ.get(variable)):
        pytest.skip(f"{variable} is not set: Bench2Drive and CARLA's Python API may not be distributed")
    return Path(given)


def test_official_tools_and_ours_agree_on_a_run_of_the_official_evaluator(data_dir: Path, tmp_path: Path) -> None:
    checkout, agents = folder_of("AD2_BENCH2DRIVE"), folder_of("AD2_CARLA_PYTHONAPI")
    out, venv = tmp_path / "out", Path(os.environ.get("AD2_LEADERBOARD_VENV") or tmp_path / "venv")
    places = ("--agents", agents, "--maps", data_dir / "opendrive", "--out", out, "--venv", venv)
    done = verify(checkout, *places, seconds=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = {name: (float(a), float(b), word) for name, a, b, word in FIGURE.findall(done.stdout)}
    rates = {"Driving Score", "Success Rate", "Driving Efficiency", "Driving Smoothness"}
    abilities = {"Emergency_Brake", "Traffic_Signs"}
    assert {name for name, (_, _, word) in figures.items() if word == "equal"} == rates | abilities
    assert all(a == b for a, b, word in figures.values() if word == "equal")
    records = json.loads((out / "results" / "eval.json").read_text("utf-8"))["_checkpoint"]["records"]
    assert len(records) == 5 and sum(r["scores"]["score_route"] == 100 for r in records) >= 2
    for record in records:
        saved = out / "save" / record["save_name"]
        told = json.loads((saved / "run.json").read_text("utf-8"))
        assert told["finished"] and told["counts"]["decisions"] > 50 and "failures" not in told["counts"]
        assert len(json.loads((saved / "metric_info.json").read_text("utf-8"))) > 200


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The two files by which a checkout is recognised, with one route."""
    root = tmp_path / "b2d"
    for file, text in ((EVALUATOR, ""), (ROUTES, '<routes><route id="5" town="Town99"/></routes>')):
        (root / file).parent.mkdir(parents=True)
        (root / file).write_text(text)
    (root / "agents" / "navigation").mkdir(parents=True)
    (root / "agents" / "navigation" / "global_route_planner.py").touch()
    return root


def test_folders_that_are_something_else_are_refused(checkout: Path, tmp_path: Path) -> None:
    given = ("--agents", checkout, "--maps", tmp_path, "--out", tmp_path / "out")
    cases = [
        ((tmp_path, *given), "is no checkout of Bench2Drive: it has no leaderboard/leaderboard/leaderboard_evaluator"),
        ((checkout, "--agents", tmp_path, *given[2:]), "it is PythonAPI/carla of CARLA"),
        ((checkout, *given, "--routes", "5,6"), "bench2drive220.xml has no route 6"),
        ((checkout, *given, "--routes", "5"), "has no Town99.xodr, which the routes need"),
        ((checkout, *given[:4], "--out", tmp_path), "exists already; name a new folder"),
    ]
    for words, message in cases:
        done = verify(*words)
        assert (done.returncode, done.stdout) == (2, "") and message in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()
