"""Figures of Bench2Drive's scripts and of `ad2 drive score` on the same files."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from verify_leaderboard_runs import REPO, SCRIPT_S, EvaluationFailed, LeaderboardRun, run_official

TOLERANCE = 1e-9  # relative: both sum the same numbers, in another order


@dataclass(frozen=True)
class FigurePair:
    """One figure by both. None: not given; `why`: the reason, then it is not compared."""

    name: str
    official: float | None
    ours: float | None
    why: str = ""

    @property
    def equal(self) -> bool:
        both = self.official is not None and self.ours is not None
        return both and math.isclose(self.official or 0.0, self.ours or 0.0, rel_tol=TOLERANCE, abs_tol=TOLERANCE)

    def line(self) -> str:
        word = "not compared" if self.why else "equal" if self.equal else "DIFFERENT"
        shown = [f"{value:.4f}" if value is not None else "-" for value in (self.official, self.ours)]
        return f"{self.name:<22} {shown[0]:>14} {shown[1]:>16}   {word}{': ' if self.why else ''}{self.why}"


def records_of(run: LeaderboardRun) -> list[dict[str, Any]]:
    """The evaluator's records."""
    data = json.loads((run.results / "eval.json").read_text("utf-8"))
    return list(data["_checkpoint"]["records"])


def compare(run: LeaderboardRun) -> list[FigurePair]:
    """All figures; runs the scripts and the command."""
    ours = our_figures(run)
    tools = run.checkout / "tools"
    run_official(run, tools / "merge_route_json.py", ["-f", str(run.results)])
    merged = run.results / "merged.json"
    rates = json.loads(merged.read_text("utf-8"))
    words = ["-f", str(merged), "-m", str(run.saved)]
    printed = run_official(run, tools / "efficiency_smoothness_benchmark.py", words)
    figures = [
        FigurePair("Driving Score", rates["driving score"], ours["driving_score"]),
        FigurePair("Success Rate", 100.0 * rates["success rate"], ours["success_rate"]),
        FigurePair("Driving Efficiency", _printed(printed, "Driving Efficiency"), ours["efficiency"]),
        FigurePair("Driving Smoothness", 100.0 * _printed(printed, "Driving Smoothness"), ours["comfortness"]),
    ]
    return figures + compare_abilities(run, ours)


def compare_abilities(run: LeaderboardRun, ours: Mapping[str, Any]) -> list[FigurePair]:
    """Abilities of the routes that were driven: the script divides by zero for others."""
    driven = {name: value for name, value in ours["abilities"].items() if value is not None}
    if "Traffic_Signs" not in driven:
        why = "the script needs a route of Traffic_Signs"
        return [FigurePair(name, None, value, why) for name, value in driven.items()]
    program = run.checkout / "tools" / "ability_benchmark.py"
    merged = run.results / "merged.json"
    run_official(run, program, ["--only-abilities", ",".join(driven), str(run.route_file), str(merged)])
    official = json.loads((run.results / "merged_ability.json").read_text("utf-8"))
    partial = "ours is partial: the junction test lacks a map"
    return [
        FigurePair(name, 100.0 * official[name], value, partial if name in ours["partial"] else "")
        for name, value in driven.items()
    ]


def our_figures(run: LeaderboardRun) -> dict[str, Any]:
    """`ad2 drive score --json` of the evaluator's file; Traffic_Signs as in its version."""
    words = [
        sys.executable, "-m", "lmms_eval_ad2.cli.main", "drive", "score", str(run.results / "eval.json"), "--routes",
        str(run.route_file), "--metric-info", str(run.saved), "--traffic-signs", "v0.0.4", "--towns", str(run.maps),
        "--json",
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(REPO)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=SCRIPT_S, check=False, env=env)
    if done.returncode:
        raise EvaluationFailed(f"ad2 drive score: exit code {done.returncode}: {done.stderr.strip()}")
    return dict(json.loads(done.stdout))


def towns_of(run: LeaderboardRun) -> dict[str, str]:
    """Route id -> town, of the routes to drive that the route file has."""
    found = ElementTree.parse(run.route_file).getroot().iter("route")
    return {route.get("id", ""): route.get("town", "") for route in found if route.get("id") in run.routes}


def _printed(text: str, name: str) -> float:
    found = re.search(rf"^{name}=([-+.\deE]+)$", text, re.M)
    if found is None:
        raise EvaluationFailed(f"the script printed no {name}")
    return float(found[1])
