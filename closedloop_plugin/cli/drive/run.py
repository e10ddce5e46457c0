"""`ad2 drive run`: drive a suite of routes, or a Scenic program, and print its scores."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.cli.drive.options import (
    DecisionOptions,
    DriverOptions,
    PoolOptions,
    ProgramOptions,
    SimulatedDecisionOptions,
)
from closedloop_plugin.cli.drive.world import EngineOptions, WorldOptions
from lmms_eval_ad2.core.options import ExclusiveOptions, add_command, from_values, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.core.record import EpisodeRecord

EXAMPLES = """examples:
  ad2 drive run --suite demo --agent expert --out out/expert --video
  ad2 drive run --suite embedded220 --agent endpoint:qwen@http://localhost:8000/v1 --workers 8 --out out/qwen
  ad2 drive run --suite embedded220 --agent lmms:qwen2_5_vl,pretrained=Qwen/Qwen2.5-VL-7B-Instruct \\
      --interpreter endpoint:gpt-4o-mini@https://api.openai.com/v1 --mode dcs --latency measured --out out/dcs
  ad2 drive run --scenario configs/scenarios/child_behind_van.scenic --agent expert --set pace=2 --out out/child
  ad2 drive run --scenario my.scenic --map Town05.xodr --agent expert --frames --out out/my
  ad2 drive run --suite threats/ --agent expert --out out/threats
  ad2 drive run --suite threats/ --fresh-draws 3 --agent expert --out out/others
  ad2 drive run --suite bench2drive220 --world carla --servers localhost:2000,localhost:2010 --agent expert --out out/c
before a long run:
  ad2 drive run ... --dry-run                requests, tokens and hours to come, from one request to the endpoint
then:
  ad2 drive show out/expert:101              film strip and top view of an episode
  ad2 drive score out/expert                 print the scores again, or those of several folders

agents:
  expert                 reads the state of the simulation (privileged, and labelled so)
  speaking-expert        the same planner, which answers in words or waypoints (privileged); see --tasks
  late                   the same planner, with late and limited perception: of middle strength (privileged)
  still, straight, random, speed-only, steer-only      baselines; random follows --seed
  endpoint:MODEL@URL[,timeout=60,max_tokens=256,...]   any OpenAI-compatible server
  lmms:NAME[,pretrained=...,...]                       any lmms-eval model, in this process
  MODULE:CALLABLE[,name=value,...]                     your own, see docs/agents.md; or the name of an entry point

exit code: 0 all episodes ran, 1 some failed (listed), 2 invalid arguments, or the agent's replies cannot be read (see
--stop-after-unread), 130 Ctrl-C"""


SUBJECT = ExclusiveOptions(required=True)


@dataclass(frozen=True, kw_only=True)
class DriveSelectionOptions(ProgramOptions):
    """Routes of a suite, or a program."""

    suite: str | None = option(
        "demo, embedded220, bench2drive220, a route file, or a folder of programs", default=None,
        metavar="NAME|FILE|DIR", exclusive=SUBJECT, identity=("suite", "suite_sha256"),
    )  # fmt: skip
    scenario: Path | None = option(
        "Scenic program", default=None, metavar="FILE.scenic", exclusive=SUBJECT,
        identity=("suite", "suite_sha256"),
    )  # fmt: skip
    routes_ids: str | None = option("only these routes of the suite, in this order", default=None, metavar="ID,ID")
    limit: int | None = option("only the first N routes", default=None, metavar="N", least=1)
    skip_unmapped: bool = option(
        "leave out routes that have no map, by name and out of every mean (default: they end the command before the "
        "drive)", default=False,
    )  # fmt: skip
    shard: str | None = option(
        "only shard i of N (1/N to N/N); join shards with ad2 merge", default=None, metavar="i/N"
    )
    repetitions: int = option(
        "repetitions of each route, each with its own seed", default=1, metavar="N", least=1, most=1000
    )
    fresh_draws: int | None = option(
        "N other draws of each program of a folder, instead of the one that its check saw survived", default=None,
        metavar="N", least=1, most=1000, identity="draws",
    )  # fmt: skip
    seed: int = option(
        "seed of the run; equal seeds give equal scores (default 0)", default=0, metavar="S", identity="seed"
    )


@dataclass(frozen=True, kw_only=True)
class DriveFolderOptions:
    """The run's folder and its contents."""

    out: Path = option("run folder; the same command resumes in it", metavar="DIR")
    frames: bool = option("save camera frames at 2 Hz", default=False)
    video: bool = option("save a video of each episode", default=False)
    dry_run: bool = option(
        "print episodes, requests, time and tokens to come, and what is wrong; drives nothing, and sends each endpoint "
        "one request", default=False,
    )  # fmt: skip
    no_probe: bool = option("with --dry-run: send no request", default=False, needs="dry_run")
    retry_failed: bool = option("repeat episodes that were not driven, except by fault of their program", default=False)
    strict_contamination: bool = option(
        "refuse to drive routes that a model was trained on, as its ad2_training.json names them (default: they are "
        "counted in the results)",
        default=False,
    )


@dataclass(frozen=True, kw_only=True)
class DriveRunOptions(
    DriveSelectionOptions, WorldOptions, DriveFolderOptions, PoolOptions, EngineOptions, DriverOptions,
    SimulatedDecisionOptions,
):  # fmt: skip
    """`ad2 drive run`."""


GROUPS = {
    "routes and world": (ProgramOptions, DriveSelectionOptions, WorldOptions),
    "driver": (DriverOptions, DecisionOptions, SimulatedDecisionOptions),
    "run": (DriveFolderOptions, PoolOptions, EngineOptions),
}


def drive_options(values: Mapping[str, Any]) -> DriveRunOptions:
    """The options of a drive from a caller's values, with the checks of the command line. Raises Ad2Error."""
    return from_values(DriveRunOptions, values)


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "run",
        run,
        DriveRunOptions,
        GROUPS,
        help="drive a suite and print its scores; the same command resumes",
        description="Drive routes in a simulated world. Each finished episode is saved at once:\nafter Ctrl-C, a "
        "crash or a full disk the same command drives only the missing ones.",
        epilog=EXAMPLES,
    )


def run(options: DriveRunOptions) -> int:
    """Return 0 if all episodes ran, 1 if some failed; raises Ad2Error for mistakes of the user."""
    if options.dry_run:
        from closedloop_plugin.cli.drive.dry_run import dry_run

        return dry_run(options)
    from closedloop_plugin.cli.drive.prepared_run import prepare
    from closedloop_plugin.cli.drive.selection import other_values, without_act, without_way
    from closedloop_plugin.report.score_text import closing_text
    from closedloop_plugin.runner.run import run as drive

    prepared = prepare(options)
    for note in prepared.training:
        show(f"ad2: {note}", file=sys.stderr)
    records = drive(prepared.run, prepared.agent, prepared.interpreter)
    rules = prepared.run.worker_config.conditions.profile
    repetitions = options.fresh_draws or options.repetitions
    show(closing_text(records, prepared.routes, rules, repetitions, prepared.run.identity, options.out))
    programs = {task.route_id: task.setup.program for task in prepared.run.tasks}
    notes = (*other_values(records, prepared.drawn), *without_act(records, programs), *without_way(records))
    for note in (*prepared.notes, *prepared.training, *notes):
        show(note)
    if options.shard:
        print(f"shard {options.shard}; join the shards with: ad2 merge OUT {options.out} ...")
    elif records:
        show(_where(options.out, records))
    failed = [r for r in records if r.blamed]
    for record in failed:
        show(f"failed: {record.failure}", file=sys.stderr)
    if any(r.retryable for r in failed):
        print("once the cause is repaired, add --retry-failed to the same command to repeat them", file=sys.stderr)
    return 1 if failed or len(records) < len(prepared.run.tasks) else 0


def _where(out: Path, records: Sequence[EpisodeRecord]) -> str:
    """Where the results are, and how to look at a driven episode: the first one without success, if there is one."""
    from closedloop_plugin.core.record import PROGRAM

    driven = [r for r in records if not r.blamed]
    if not driven:
        return f"results in {out}"
    shown = next((r for r in driven if not r.unharmed), driven[0])
    episode = f"{out}:{shown.route_id}" + (f":{shown.repetition}" if shown.repetition else "")
    single = shown.scenario == PROGRAM or shown.suite.startswith("program ")  # it has no benchmark scores
    report = "" if single else f"; all figures: ad2 report {out}"
    return f"results in {out}; look at an episode: ad2 drive show {episode}{report}"
