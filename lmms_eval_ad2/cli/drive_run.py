"""`ad2 drive run`: drive a suite of routes, or a Scenic program, and print its scores."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def register(subparsers: Any) -> None:
    p = subparsers.add_parser(
        "run",
        help="drive a suite and print its scores; the same command goes on where it stopped",
        description="Drive routes in a simulated world. Every finished episode is on disk at once: after Ctrl-C, a "
        "crash or a full disk the same command goes on with those that are missing.",
    )
    _register_what(p.add_argument_group("what is driven"))
    _register_driver(p.add_argument_group("who drives"))
    _register_running(p.add_argument_group("how it runs"))
    p.set_defaults(func=run)


def _register_what(what: Any) -> None:
    which = what.add_mutually_exclusive_group(required=True)
    which.add_argument("--suite", metavar="NAME|FILE", help="demo, embedded220, bench2drive220, or a route file")
    which.add_argument("--scenario", type=Path, metavar="FILE.scenic", help="a Scenic program of your own")
    what.add_argument("--map", type=Path, metavar="FILE.xodr", help="the map of --scenario")
    what.add_argument("--towns", type=Path, metavar="DIR", help="OpenDRIVE files <town>.xodr, instead of corridor maps")
    what.add_argument("--routes-ids", metavar="ID,ID", help="only these routes")
    what.add_argument("--limit", type=int, metavar="N", help="only the first N routes")
    what.add_argument("--shard", metavar="i/N", help="only this slice of the episodes; see ad2 drive merge")
    what.add_argument("--repetitions", type=int, default=1, metavar="N")
    what.add_argument("--seed", type=int, default=0, metavar="S")
    what.add_argument("--world", default="embedded", metavar="NAME", help="embedded, or an own one as MODULE:CALLABLE")
    what.add_argument("--no-traffic", action="store_true", help="no background vehicles and pedestrians")


def _register_driver(who: Any) -> None:
    who.add_argument("--agent", required=True, metavar="SPEC", help="expert, still, ..., lmms:NAME,... or endpoint:...")
    who.add_argument("--interpreter", metavar="SPEC", help="the slow system: rules (default), endpoint:..., lmms:...")
    who.add_argument("--interpreter2", metavar="SPEC", help="with --mode hybrid: who speaks where there is a threat")
    who.add_argument("--mode", choices=("cng", "dcs", "hybrid", "rules"), help="how the slow system answers")
    who.add_argument("--describer", metavar="SPEC", help="words for a slow system that cannot see: offline or a model")
    who.add_argument("--profile", default="bench2advlm", metavar="NAME", help="rules and limits: bench2advlm, ...")
    who.add_argument("--tasks", default="action", metavar="T,T", help="what the fast system is asked")
    who.add_argument("--fine-grained", choices=("off", "prompt", "question"), default="off")
    who.add_argument("--prompts", metavar="FILE", help="driving prompts of your own")
    who.add_argument("--camera", choices=("front", "surround"), default="front")
    who.add_argument("--size", metavar="WxH", help="of the cameras (default: the profile's)")
    who.add_argument("--decision-hz", type=float, metavar="HZ", help="ask less often than the profile does")
    who.add_argument("--latency", metavar="L", help="waits (default), SECONDS, FILE (seconds a line), or measured")
    who.add_argument("--policy", choices=("official", "strict"), default="official", help="for unreadable replies")


def _register_running(how: Any) -> None:
    how.add_argument("--out", type=Path, required=True, metavar="DIR")
    how.add_argument("--workers", type=int, default=1, metavar="W", help="worlds side by side")
    how.add_argument("--frames", action="store_true", help="keep what the cameras saw, at 2 Hz")
    how.add_argument("--video", action="store_true", help="a film of every episode")
    how.add_argument("--retry-failed", action="store_true", help="try episodes again whose world failed")
    how.add_argument("--retries", type=int, default=2, metavar="N", help="of an episode whose world failed")
    how.add_argument("--world-timeout", type=float, default=180.0, metavar="S", help="silence that counts as a hang")


def run(args: argparse.Namespace) -> int:
    """0 when every episode ran, 1 when some failed; what the user can mend is an Ad2Error."""
    from closedloop_plugin.runner.run import FAILED
    from closedloop_plugin.runner.run import run as drive
    from lmms_eval_ad2.cli.drive_order import ordered
    from lmms_eval_ad2.cli.drive_report import report

    order = ordered(args)
    records = drive(order.run, order.agent, order.interpreter)
    print(report(records, order.routes, order.run.plan.cast.profile, args.repetitions))
    if args.shard:
        print(f"slice {args.shard}; join the slices with: ad2 drive merge OUT {args.out} ...")
    failed = [r for r in records if r.end in FAILED]
    for record in failed:
        what = f"route {record.route_id} repetition {record.repetition}"
        print(f"failed: {what}: {record.end}: {record.reason}", file=sys.stderr)
    return 1 if failed or len(records) < len(order.run.tasks) else 0
