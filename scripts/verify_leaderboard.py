"""Run Bench2Drive's own evaluator with our agent on the fake CARLA, and compare its scores with ours.

    scripts/verify_leaderboard.sh BENCH2DRIVE_CHECKOUT --agents DIR --maps DIR [--routes ID,ID] [--out DIR]

The evaluator, its scenarios and its scoring scripts are those of the checkout, unchanged; agent.py and `ad2 serve` are
as in an official run; the model behind them steers to the route point that its question names. CARLA is
tests/fake_carla, with 0.9.15's GNSS. Exit code: 0 all routes were evaluated and all figures are equal, 1 not so,
2 it cannot start. --out must be a new folder; logs/ in it holds the output of every program.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from verify_leaderboard_runs import REPO, SCRIPT_S, EvaluationFailed, LeaderboardRun, evaluate, make_venv, run_official

# a T junction each in Town02 and Town01, a pedestrian, a parked car's pedestrian, a loss of control
ROUTES = "28048,28035,24211,24294,24841"
CRASHED = ("Agent couldn't be set up", "Agent crashed", "Simulation crashed", "Sensors were invalid")
OLD_MESSAGE = "Failed - "
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
        str(run.route_file), "--metric-info", str(run.saved),
        "--config", "traffic_signs=v0.0.4", "--towns", str(run.maps),
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


def read_arguments() -> LeaderboardRun:
    """The run that the command line describes; raises ValueError with the remedy."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("checkout", type=Path, help="checkout of Thinklab-SJTU/Bench2Drive (0.0.4 is known to work)")
    p.add_argument("--agents", type=Path, required=True, help="folder that contains CARLA's package `agents`")
    p.add_argument("--maps", type=Path, required=True, help="folder with <Town>.xodr of the routes' towns")
    p.add_argument("--routes", default=ROUTES, help=f"ids, separated by commas (default {ROUTES})")
    p.add_argument("--out", type=Path, help="new folder (default: verify_leaderboard_DATE)")
    p.add_argument("--venv", type=Path, help="environment of the evaluator, made if missing (default: in --out)")
    args = p.parse_args()
    out = (args.out or Path(time.strftime("verify_leaderboard_%Y%m%d_%H%M%S"))).absolute()
    run = LeaderboardRun(
        checkout=args.checkout.absolute(),
        agents=args.agents.absolute(),
        maps=args.maps.absolute(),
        out=out,
        venv=(args.venv or out / "venv").absolute(),
        routes=tuple(dict.fromkeys(args.routes.split(","))),
    )
    check_inputs(run)
    return run


def check_inputs(run: LeaderboardRun) -> None:
    """Raises ValueError if a folder is not what it should be."""
    if run.out.exists():
        raise ValueError(f"--out {run.out} exists already; name a new folder")
    evaluator = run.checkout / "leaderboard" / "leaderboard" / "leaderboard_evaluator.py"
    if not evaluator.is_file() or not run.route_file.is_file():
        raise ValueError(
            f"{run.checkout} is no checkout of Bench2Drive: it has no {evaluator.relative_to(run.checkout)}"
        )
    if not (run.agents / "agents" / "navigation" / "global_route_planner.py").is_file():
        raise ValueError(
            f"--agents {run.agents} has no agents/navigation/global_route_planner.py; it is PythonAPI/carla of CARLA"
        )
    towns = towns_of(run)
    if unknown := [route for route in run.routes if route not in towns]:
        raise ValueError(f"--routes: {run.route_file.name} has no route {', '.join(unknown)}")
    if missing := sorted({town for town in towns.values() if not (run.maps / f"{town}.xodr").is_file()}):
        raise ValueError(f"--maps {run.maps} has no {missing[0]}.xodr, which the routes need")


def main() -> int:
    try:
        run = read_arguments()
    except ValueError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the programs end with this one
    run.out.mkdir(parents=True)
    started = time.monotonic()
    try:
        make_venv(run)
        print(f"evaluating {len(run.routes)} routes; logs: {run.out / 'logs'}", flush=True)
        evaluate(run)
        records, figures = records_of(run), compare(run)
    except EvaluationFailed as exc:
        print(f"failed: {exc}", file=sys.stderr)
        return 1
    return report(run, records, figures, time.monotonic() - started)


def report(run: LeaderboardRun, records: list[dict[str, object]], figures: list[FigurePair], seconds: float) -> int:
    """Print records and figures; the exit code."""
    for record in records:
        scores = record["scores"]
        assert isinstance(scores, dict)
        named = f"{record['route_id']} {record['town_name']} {record['scenario_name']}"
        print(f"{named}: {record['status']}, route {scores['score_route']}, score {scores['score_composed']:.2f}")
    print(f"\n{'':<22} {'Bench2Drive':>14} {'ad2 drive score':>16}")
    print("\n".join(figure.line() for figure in figures))
    driven = {str(record["route_id"]).split("_")[1] for record in records}
    crashed = [r["route_id"] for r in records if str(r["status"]).removeprefix(OLD_MESSAGE) in CRASHED]
    missing = sorted(set(run.routes) - driven)
    different = [figure.name for figure in figures if not figure.equal and not figure.why]
    for what, found in (("crashed", crashed), ("without a record", missing), ("different figures", different)):
        if found:
            print(f"FAIL: {what}: {', '.join(map(str, found))}")
    if crashed or missing or different:
        return 1
    print(f"PASS: {len(records)} routes, {len(figures)} figures, {seconds / 60:.1f} minutes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
