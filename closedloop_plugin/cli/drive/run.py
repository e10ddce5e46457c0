"""`ad2 drive run`: drive a suite of routes, or a Scenic program, and print its scores."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from closedloop_plugin.cli.drive.world import register_world

EXAMPLES = """examples:
  ad2 drive run --suite demo --agent expert --out out/expert --video
  ad2 drive run --suite embedded220 --agent endpoint:qwen@http://localhost:8000/v1 --workers 8 --out out/qwen
  ad2 drive run --suite embedded220 --agent lmms:qwen2_5_vl,pretrained=Qwen/Qwen2.5-VL-7B-Instruct \\
      --interpreter endpoint:gpt-4o-mini@https://api.openai.com/v1 --mode dcs --latency measured --out out/dcs
  ad2 drive run --scenario configs/scenarios/child_behind_van.scenic --agent expert --set pace=2 --out out/child
  ad2 drive run --scenario my.scenic --map Town05.xodr --agent expert --frames --out out/my
  ad2 drive run --suite threats/ --agent expert --out out/threats
  ad2 drive run --suite bench2drive220 --world carla --servers localhost:2000,localhost:2010 --agent expert --out out/c
then:
  ad2 drive show out/expert:101              a film strip and a top view of an episode
  ad2 drive score out/expert --routes FILE   the scores again, or of several folders

agents:
  expert                 sees everything (privileged, and labelled so)
  still, straight, random, speed-only, steer-only      baselines; random follows --seed
  endpoint:MODEL@URL[,timeout=60,max_tokens=256,...]   any OpenAI-compatible server
  lmms:NAME[,pretrained=...,...]                       any lmms-eval model, in this process

exit code: 0 every episode ran, 1 some failed (named), 2 nothing could be run as asked, 130 Ctrl-C"""


def register(subparsers: Any) -> None:
    p = subparsers.add_parser(
        "run",
        help="drive a suite and print its scores; the same command goes on where it stopped",
        description="Drive routes in a simulated world. Every finished episode is on disk at once:\nafter Ctrl-C, a "
        "crash or a full disk the same command goes on with those that are missing.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _register_what(p.add_argument_group("what is driven"))
    register_driver(p.add_argument_group("who drives"))
    _register_running(p.add_argument_group("how it runs"))
    p.set_defaults(func=run)


def _register_what(what: Any) -> None:
    which = what.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--suite",
        metavar="NAME|FILE|DIR",
        help="demo, embedded220, bench2drive220, a route file, or a folder of programs",
    )
    which.add_argument("--scenario", type=Path, metavar="FILE.scenic", help="a Scenic program of your own")
    what.add_argument("--route", metavar="SUITE:ID", help="where --scenario is played, instead of the route it names")
    what.add_argument(
        "--set", action="append", metavar="NAME=VALUE", help="fix a free parameter of --scenario; may be repeated"
    )
    what.add_argument(
        "--map", type=Path, metavar="FILE.xodr", help="the map of --scenario, instead of the one it names"
    )
    what.add_argument("--towns", type=Path, metavar="DIR", help="OpenDRIVE files <town>.xodr, instead of corridor maps")
    what.add_argument("--routes-ids", metavar="ID,ID", help="only these routes of the suite, in this order")
    what.add_argument("--limit", type=int, metavar="N", help="only the first N routes")
    what.add_argument("--shard", metavar="i/N", help="only this slice, from 1/N to N/N; then: ad2 drive merge")
    what.add_argument("--repetitions", type=int, default=1, metavar="N", help="of every route, each with its own seed")
    what.add_argument(
        "--seed", type=int, default=0, metavar="S", help="the same seed gives the same scores (default 0)"
    )
    register_world(what)
    what.add_argument("--no-traffic", action="store_true", help="no background vehicles and pedestrians")


class ArgumentFilter:
    """A group of arguments that leaves some out."""

    def __init__(self, group: Any, names: Any) -> None:
        self.group, self.flags = group, {f"--{name.replace('_', '-')}" for name in names}

    def add_argument(self, flag: str, **how: Any) -> None:
        if flag not in self.flags:
            self.group.add_argument(flag, **how)


def register_driver(who: Any) -> None:
    who.add_argument("--agent", required=True, metavar="SPEC", help="who drives; see below")
    who.add_argument(
        "--interpreter",
        metavar="SPEC",
        help="slow system, for an agent's words: rules (default, no model), endpoint:..., lmms:...",
    )
    who.add_argument("--interpreter2", metavar="SPEC", help="with --mode hybrid: who speaks where there is a threat")
    who.add_argument(
        "--mode",
        choices=("cng", "dcs", "hybrid", "rules"),
        help="how the slow system answers: cng gives numbers, dcs chooses from a set (default: cng; rules for rules)",
    )
    who.add_argument(
        "--describer", metavar="SPEC", help="words for a slow system that cannot see: offline, endpoint:... or lmms:..."
    )
    who.add_argument(
        "--profile",
        default="bench2advlm",
        metavar="NAME",
        help="rules and limits: bench2advlm (default), bench2drive, leaderboard-2.0, leaderboard-2.1",
    )
    who.add_argument(
        "--tasks", metavar="T,T", help="what the fast system is asked: action (default), trajectory, reasoning"
    )
    who.add_argument(
        "--fine-grained",
        choices=("off", "prompt", "question"),
        help="speed suffixes to the action: offered in the prompt, or asked for in a second question (default: off)",
    )
    who.add_argument("--prompts", metavar="FILE", help="driving prompts of your own")
    _register_view(who)


def _register_view(who: Any) -> None:
    who.add_argument("--camera", choices=("front", "surround"), help="what the agent sees: front (default), or all six")
    who.add_argument("--size", metavar="WxH", help="of the cameras (default: the profile's)")
    who.add_argument("--decision-hz", type=float, metavar="HZ", help="ask less often than the profile does")
    who.add_argument("--latency", metavar="L", help="waits (default), SECONDS, FILE (seconds a line), or measured")
    who.add_argument(
        "--policy",
        choices=("official", "strict"),
        default="official",
        help="for unreadable replies: official coasts (default), strict ends the episode",
    )


def _register_running(how: Any) -> None:
    how.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the run's folder; the same command goes on in it"
    )
    how.add_argument(
        "--workers", type=int, metavar="W", help="worlds side by side (default 1; with --servers one each)"
    )
    how.add_argument("--frames", action="store_true", help="keep what the cameras saw, at 2 Hz")
    how.add_argument("--video", action="store_true", help="a film of every episode")
    how.add_argument("--retry-failed", action="store_true", help="try episodes again whose world or agent failed")
    how.add_argument("--retries", type=int, default=2, metavar="N", help="of an episode whose world fails (default 2)")
    how.add_argument(
        "--world-timeout", type=float, metavar="S", help="silence that counts as a hang (default 180; CARLA 360)"
    )


def run(args: argparse.Namespace) -> int:
    """0 when every episode ran, 1 when some failed; what the user can mend is an Ad2Error."""
    from closedloop_plugin.cli.drive.prepared_run import ordered
    from closedloop_plugin.cli.drive.report import report
    from closedloop_plugin.runner.run import AGAIN, FAILED
    from closedloop_plugin.runner.run import run as drive

    order = ordered(args)
    records = drive(order.run, order.agent, order.interpreter)
    print(report(records, order.routes, order.run.plan.cast.profile, args.repetitions))
    for note in order.notes:
        print(note)
    if args.shard:
        print(f"slice {args.shard}; join the slices with: ad2 drive merge OUT {args.out} ...")
    failed = [r for r in records if r.end in FAILED]
    for record in failed:
        what = f"route {record.route_id} repetition {record.repetition}"
        print(f"failed: {what}: {record.end}: {record.reason}", file=sys.stderr)
    if any(r.end in AGAIN for r in failed):
        print("the same command with --retry-failed tries those again whose world or agent failed", file=sys.stderr)
    return 1 if failed or len(records) < len(order.run.tasks) else 0
