"""`ad2 threats search`: look for parameters of one scenario under which the driver fails."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.cli.drive.run import register_driver
from closedloop_plugin.cli.drive.world import register_world

if TYPE_CHECKING:
    from closedloop_plugin.runner.assemble import RouteSelection, RunConfig
    from closedloop_plugin.threats.search.search import ThreatSearchConfig
    from closedloop_plugin.threats.search.trial import SearchTrial

EXAMPLES = """examples:
  ad2 threats search my.scenic --agent steer-only --budget 50 --out out/search
  ad2 threats search threats/:2050 --agent endpoint:qwen@http://localhost:8000/v1 --sampler bo --workers 4 --out out/bo
  ad2 threats search my.scenic --route demo:103 --set pace=1.8 --agent expert --sampler halton --out out/even

What is searched are the free parameters of the program: param pace = Range(1.0, 3.0)
Every finished run is on disk at once: after Ctrl-C or a crash the same command goes on. A larger --budget goes on, too.

exit code: 0 every run is scored, 1 some could not be (counted), 2 nothing could be run as asked, 130 Ctrl-C"""


def register(parts: Any) -> None:
    p = parts.add_parser(
        "search",
        help="look for parameters of a scenario under which the driver fails",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("scenario", metavar="FILE.scenic|DIR:NAME", help="a program, or one of a folder of threats")
    _register_search(p.add_argument_group("how it is searched"))
    _register_where(p.add_argument_group("where it is played"))
    register_driver(p.add_argument_group("who drives"))
    p.set_defaults(func=run, frames=False, video=False, routes_ids=None, limit=None, repetitions=1, shard=None)


def _register_search(how: Any) -> None:
    how.add_argument("--budget", type=int, default=50, metavar="N", help="episodes to drive (default 50)")
    how.add_argument(
        "--sampler",
        choices=("ce", "bo", "halton", "random"),
        default="ce",
        help="ce: cross-entropy (default), bo: Bayesian optimisation, halton: even, random: uniform",
    )
    how.add_argument(
        "--objective",
        choices=("all", "ttc", "gap", "progress"),
        default="all",
        help="how near a run was to failing: time to collision, distance, route progress, or their mean (default)",
    )
    how.add_argument("--seed", type=int, default=0, metavar="S", help="of the sampler and of the scene (default 0)")
    how.add_argument("--no-expert", action="store_true", help="do not drive the failures again with the expert")
    how.add_argument("--out", type=Path, required=True, metavar="DIR", help="the same command goes on in it")
    how.add_argument("--workers", type=int, metavar="W", help="worlds side by side (default 1)")
    how.add_argument("--retries", type=int, default=2, metavar="N", help="of a run whose world fails (default 2)")
    how.add_argument("--world-timeout", type=float, metavar="S", help="silence that counts as a hang (180; CARLA 360)")


def _register_where(where: Any) -> None:
    where.add_argument("--route", metavar="SUITE:ID", help="instead of the program's own line `param route = ...`")
    where.add_argument("--set", action="append", metavar="NAME=VALUE", help="fix a parameter; may be repeated")
    where.add_argument("--map", type=Path, metavar="FILE.xodr", help="for a program without a route")
    where.add_argument(
        "--towns", type=Path, metavar="DIR", help="OpenDRIVE files <town>.xodr, instead of corridor maps"
    )
    register_world(where)
    where.add_argument("--no-traffic", action="store_true", help="no background vehicles and pedestrians")


def run(args: argparse.Namespace) -> int:
    """0 where all runs are scored, 1 where some are not; what the user can mend is an Ad2Error."""
    from closedloop_plugin.cli.drive.prepared_run import check_driver, driver_of
    from closedloop_plugin.runner.assemble import assemble, remote, standing
    from closedloop_plugin.threats.search.report import text
    from closedloop_plugin.threats.search.search import search
    from lmms_eval_ad2.storage.identity import check_folder

    _check(args)
    check_driver(args)
    wish, subject = _wish(args), _subject(args)
    check_folder(args.out, standing(wish, subject))  # before minutes go into loading a model
    space = _space(args, wish, subject)
    driver = driver_of(args, wish.profile)
    quest = _quest(args, assemble(wish, subject, driver), space)
    trials = search(quest, *remote(driver))
    if not args.no_expert:
        trials = _checked(args, wish, subject, quest, trials)
    found = _written(args.out, quest, trials)
    print(text(found, args.out))
    return 1 if found["not_scored"] else 0


def _check(args: argparse.Namespace) -> None:
    from closedloop_plugin.core.profiles import profile
    from lmms_eval_ad2.errors import Ad2Error

    for name, least in (("budget", 1), ("workers", 1), ("retries", 0), ("world_timeout", 1)):
        value = getattr(args, name)
        if value is not None and not value >= least:
            raise Ad2Error(f"--{name.replace('_', '-')} {value}: {least} or more")
    if args.decision_hz is not None and not 0 < args.decision_hz <= profile(args.profile).hz:
        raise Ad2Error(f"--decision-hz {args.decision_hz:g}: above 0, and at most the simulation's rate")


def _wish(args: argparse.Namespace) -> RunConfig:
    from closedloop_plugin.cli.drive.prepared_run import TRACK
    from closedloop_plugin.cli.drive.world import limits_of, world_of
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.runner.assemble import RunConfig
    from closedloop_plugin.runner.decisions import DecisionRules
    from closedloop_plugin.runner.latency import read_latency

    world, workers = world_of(args)
    return RunConfig(
        args.out,
        world,
        profile(args.profile),
        DecisionRules(args.policy, args.decision_hz, read_latency(args.latency)),
        args.seed,
        not args.no_traffic,
        TRACK,
        limits=limits_of(args, world, workers),
        quiet=False,
    )


def _subject(args: argparse.Namespace) -> RouteSelection:
    """The program as `ad2 drive run --scenario` takes it; DIR:NAME is a file of that folder."""
    from closedloop_plugin.cli.drive.selection import program_subject
    from closedloop_plugin.suites.programs import programs_in
    from lmms_eval_ad2.errors import Ad2Error

    file = Path(args.scenario)
    folder, colon, name = str(args.scenario).rpartition(":")
    if colon and not file.is_file() and Path(folder).is_dir():
        programs = {f.stem: f for f in programs_in(Path(folder))}
        if name not in programs:
            few = ", ".join(list(programs)[:5]) + (" ..." if len(programs) > 5 else "")
            raise Ad2Error(f"{args.scenario}: no program '{name}' in {folder}; there are: {few or 'none'}")
        file = programs[name]
    if file.is_dir():
        raise Ad2Error(f"{file}: a folder; name one of its programs, {file}:NAME")
    if not file.is_file():
        raise Ad2Error(f"{args.scenario}: no such program; expected FILE.scenic or DIR:NAME")
    args.scenario = file
    return program_subject(args)[0]


def _space(args: argparse.Namespace, wish: RunConfig, subject: RouteSelection) -> dict[str, Any]:
    """The free parameters that are not fixed with --set; Ad2Error where none is left."""
    from closedloop_plugin.agents.make import make_agent
    from closedloop_plugin.runner.assemble import DriverSetup, assemble
    from lmms_eval_ad2.errors import Ad2Error

    # The setup of an episode, without loading the driver: a mistake in the program is told before that.
    setup = assemble(wish, subject, DriverSetup(make_agent("still"))).tasks[0].setup
    world = wish.world.of(0).make()
    try:
        space = world.space(setup)
    finally:
        world.close()
    free = {name: domain for name, domain in space.items() if name not in subject.values}
    if not free:
        fixed = f" ({', '.join(space)} fixed by --set)" if space else ""
        raise Ad2Error(
            f"{args.scenario}: no free parameters to search{fixed}; a line like: param pace = Range(1.0, 3.0), read in "
            "the program as globalParameters.pace"
        )
    return free


def _quest(args: argparse.Namespace, made: Any, space: dict[str, Any]) -> ThreatSearchConfig:
    from closedloop_plugin.threats.search.search import ThreatSearchConfig

    return ThreatSearchConfig(made, space, args.sampler, args.objective, args.seed, args.budget)


def _checked(
    args: argparse.Namespace,
    wish: RunConfig,
    subject: RouteSelection,
    quest: ThreatSearchConfig,
    trials: list[SearchTrial],
) -> list[SearchTrial]:
    """The failures, each with the expert's episode on the same values."""
    from closedloop_plugin.agents.make import make_agent
    from closedloop_plugin.runner.assemble import DriverSetup, assemble
    from closedloop_plugin.runner.decisions import DecisionRules
    from closedloop_plugin.runner.recipe import FactoryRecipe
    from closedloop_plugin.threats.search.search import with_expert

    if args.agent.strip() == "expert" or not any(t.failed for t in trials):
        return trials
    print(f"the expert drives the {sum(t.failed for t in trials)} failures again", file=sys.stderr)
    expert = DriverSetup(
        make_agent("expert"), None, FactoryRecipe("closedloop_plugin.agents.make:make_agent", {"spec": "expert"})
    )
    made = assemble(replace(wish, folder=args.out / "expert", rules=DecisionRules()), subject, expert)
    return with_expert(made, quest, trials)


def _written(out: Path, quest: ThreatSearchConfig, trials: list[SearchTrial]) -> dict[str, Any]:
    """report.json and search.svg."""
    from closedloop_plugin.threats.search.plot import svg
    from closedloop_plugin.threats.search.report import findings
    from lmms_eval_ad2.storage.files import atomic_write

    found = findings(quest, trials)
    with atomic_write(out / "report.json") as handle:
        json.dump(found, handle, indent=1, ensure_ascii=False)
    title = f"{found['scenario']}: {found['failures']} failures in {found['scored']} runs, sampler {found['sampler']}"
    with atomic_write(out / "search.svg") as handle:
        handle.write(svg(title, dict(quest.space), trials))
    return found
