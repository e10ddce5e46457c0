"""`ad2 drive run`: drive a suite of routes, or a Scenic program, and print its scores."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.runner.options import (
    GROUPS,
    DriveRunOptions,
)
from lmms_eval_ad2.core.options import add_command
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.core.record import EpisodeRecord

EXAMPLES = """examples:
  ad2 drive run --suite demo --agent expert --out out/expert --video
  ad2 drive run --suite embedded220 --agent endpoint:qwen@http://localhost:8000/v1 --workers 8 --out out/qwen
  ad2 drive run --suite embedded220 --agent lmms:qwen2_5_vl,pretrained=Qwen/Qwen2.5-VL-7B-Instruct \\
      --interpreter endpoint:gpt-4o-mini@https://api.openai.com/v1 --mode dcs --config latency=measured --out out/dcs
  ad2 drive run --scenario configs/scenarios/child_behind_van.scenic --agent expert --set pace=2 --out out/child
  ad2 drive run --scenario my.scenic --map Town05.xodr --agent expert --frames --out out/my
  ad2 drive run --suite threats/ --agent expert --out out/threats
  ad2 drive run --suite threats/ --config fresh_draws=3 --agent expert --out out/others
  ad2 drive run --suite bench2drive220 --world carla --servers localhost:2000,localhost:2010 --agent expert --out out/c
before a long run:
  ad2 drive run ... --dry-run                requests, tokens and hours to come, from one request to the endpoint
then:
  ad2 drive show out/expert:101              film strip and top view of an episode
  ad2 drive score out/expert                 print the scores again, or those of several folders

agents:
  expert                 reads the state of the simulation (privileged, and labelled so)
  speaking-expert        the same planner, which answers in words or waypoints (privileged); see --config tasks
  late                   the same planner, with late and limited perception: of middle strength (privileged)
  still, straight, random, speed-only, steer-only      baselines; random follows --seed
  endpoint:MODEL@URL[,timeout=60,max_tokens=256,...]   any OpenAI-compatible server
  lmms:NAME[,pretrained=...,...]                       any lmms-eval model, in this process
  MODULE:CALLABLE[,name=value,...]                     your own, see docs/agents.md; or the name of an entry point

exit code: 0 all episodes ran, 1 some failed (listed), 2 invalid arguments, or the agent's replies cannot be read (see
--config stop_after_unread), 130 Ctrl-C"""


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
    from closedloop_plugin.report.score_text import closing_text
    from closedloop_plugin.runner.prepare import prepare, trained_note
    from closedloop_plugin.runner.run import other_values, without_act, without_way
    from closedloop_plugin.runner.run import run as drive

    config = prepare(options)
    routes = config.routes
    assert routes is not None
    training = trained_note(options, config)
    for note in training:
        show(f"ad2: {note}", file=sys.stderr)
    records = drive(config)
    show(closing_text(records, routes.routes, config.profile, routes.repetitions, config.identity, options.out))
    programs = {task.route_id: task.setup.program for task in config.tasks}
    notes = (*other_values(records, routes.drawn), *without_act(records, programs), *without_way(records))
    for note in (*routes.notes, *training, *notes):
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
    return 1 if failed or len(records) < len(config.tasks) else 0


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
