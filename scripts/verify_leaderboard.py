"""Run Bench2Drive's own evaluator with our agent on the fake CARLA, and compare its scores with ours.

    scripts/verify_leaderboard.sh BENCH2DRIVE_CHECKOUT --agents DIR --maps DIR [--routes ID,ID] [--out DIR]

The evaluator, its scenarios and its scoring scripts are those of the checkout, unchanged; agent.py and `ad2 serve` are
as in an official run; the model behind them steers to the route point that its question names. CARLA is
tests/fake_carla, with 0.9.15's GNSS. Exit code: 0 all routes were evaluated and all figures are equal, 1 not so,
2 it cannot start. --out must be a new folder; logs/ in it holds the output of every program.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from verify_leaderboard_compare import FigurePair, compare, records_of, towns_of
from verify_leaderboard_runs import EvaluationFailed, LeaderboardRun, evaluate, make_venv

# a T junction each in Town02 and Town01, a pedestrian, a parked car's pedestrian, a loss of control
ROUTES = "28048,28035,24211,24294,24841"
CRASHED = ("Agent couldn't be set up", "Agent crashed", "Simulation crashed", "Sensors were invalid")
OLD_MESSAGE = "Failed - "


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
