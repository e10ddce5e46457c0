"""`ad2 threats search`: look for parameters of one scenario under which the driver fails."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from closedloop_plugin.runner.options import (
    DecisionOptions,
    DriverOptions,
    PoolOptions,
    ProgramOptions,
    SimulatedDecisionOptions,
    WorldOptions,
)
from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.runner.assemble import RouteSelection, RunConfig

EXAMPLES = """examples:
  ad2 threats search my.scenic --agent steer-only --budget 50 --out out/search
  ad2 threats search threats/:2050 --agent endpoint:qwen@http://localhost:8000/v1 --workers 4 --out out/qwen
  ad2 threats search my.scenic --route demo:103 --set pace=1.8 --agent expert --sampler halton --out out/even

The search varies the free parameters of the program, such as: param pace = Range(1.0, 3.0)
Each finished run is saved at once: after Ctrl-C or a crash the same command resumes, also with a larger --budget.

exit code: 0 all runs are scored, 1 some are not (counted), 2 invalid arguments, or the agent's replies cannot be read
(see --config stop_after_unread), 130 Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class SearchPlanOptions:
    """Budget, sampler and objective of the search."""

    budget: int = option("number of episodes (default 50)", default=50, metavar="N", least=1)
    sampler: Literal["gp", "halton", "random"] = option(
        "gp: Bayesian optimisation with a Gaussian process (default), halton: even, random: uniform", default="gp",
        identity="search",
    )  # fmt: skip
    objective: Literal["all", "ttc", "gap", "progress"] = option(
        "distance of a run from failure: time to collision, gap, route progress, or their mean (all, default)",
        default="all", identity="search", expert=True,
    )  # fmt: skip
    seed: int = option(
        "seed of the sampler and of the scene (default 0)", default=0, metavar="S", identity=("seed", "search")
    )
    no_expert: bool = option("do not repeat the failures with the expert", default=False, expert=True)
    out: Path = option("run folder; the same command resumes in it", metavar="DIR")


@dataclass(frozen=True, kw_only=True)
class ThreatSearchOptions(
    SearchPlanOptions, PoolOptions, ProgramOptions, WorldOptions, DriverOptions, SimulatedDecisionOptions
):
    """`ad2 threats search`."""

    scenario: str = option(
        "program, or program NAME of a folder of threats", metavar="FILE.scenic|DIR:NAME", positional=True,
        identity=("suite", "suite_sha256"),
    )  # fmt: skip


GROUPS = {
    "search": (SearchPlanOptions, PoolOptions),
    "program and world": (ProgramOptions, WorldOptions),
    "driver": (DriverOptions, DecisionOptions, SimulatedDecisionOptions),
}


def register(parts: Any) -> None:
    title = "search for parameters of a scenario with which the driver fails"
    add_command(parts, "search", run, ThreatSearchOptions, GROUPS, help=title, epilog=EXAMPLES)


def run(options: ThreatSearchOptions) -> int:
    """Return 0 if all runs are scored, 1 if some are not; raises Ad2Error for mistakes of the user."""
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.driver.agents.make import make_agent
    from closedloop_plugin.runner.assemble import DriverSetup, RunConfig, assemble, config_identity, remote
    from closedloop_plugin.runner.decisions import DecisionRules
    from closedloop_plugin.runner.driver import check_driver, driver_of
    from closedloop_plugin.runner.prepare import TRACK, check_decision_hz, decision_rules, limits_of, world_of
    from closedloop_plugin.runner.recipe import FactoryRecipe
    from closedloop_plugin.threats.search.report import findings, svg, text
    from closedloop_plugin.threats.search.samplers import check_installed
    from closedloop_plugin.threats.search.search import ThreatSearchConfig, search, with_expert
    from lmms_eval_ad2.storage.files import atomic_write
    from lmms_eval_ad2.storage.identity import check_folder

    if options.sampler == "gp":
        check_installed()  # before the scenario is compiled, which takes a minute
    rules = profile(options.profile)
    check_decision_hz(options.decision_hz, rules)
    check_driver(options)
    world, workers = world_of(options, options.workers)
    config = RunConfig(
        folder=options.out, world=world, profile=rules, rules=decision_rules(options), seed=options.seed,
        traffic=not options.no_traffic, track=TRACK, limits=limits_of(options, world, workers),
        stop_after_unread=options.stop_after_unread, quiet=False,
    )  # fmt: skip
    subject, file = _subject(options)
    check_folder(options.out, config_identity(config, subject))  # before a model is loaded, which takes minutes
    space = _space(file, config, subject)
    driver = driver_of(options, rules, options.policy)
    search_config = ThreatSearchConfig(
        assemble(config, subject, driver), space, options.sampler, options.objective, options.seed, options.budget
    )
    trials = search(search_config, *remote(driver))
    failures = sum(t.failed for t in trials)
    if failures and not options.no_expert and options.agent.strip() != "expert":
        print(f"the expert drives the {failures} failures again", file=sys.stderr)
        recipe = FactoryRecipe("closedloop_plugin.driver.agents.make:make_agent", {"spec": "expert"})
        again = replace(config, folder=options.out / "expert", rules=DecisionRules())
        expert = assemble(again, subject, DriverSetup(make_agent("expert"), None, recipe))
        trials = with_expert(expert, search_config, trials)
    found = findings(search_config, trials)
    with atomic_write(options.out / "report.json") as handle:
        json.dump(found, handle, indent=1, ensure_ascii=False)
    title = f"{found['scenario']}: {failures} failures in {found['scored']} runs, sampler {options.sampler}"
    with atomic_write(options.out / "search.svg") as handle:
        handle.write(svg(title, space, trials))
    show(text(found, options.out))
    return 1 if found["not_scored"] else 0


def _subject(options: ThreatSearchOptions) -> tuple[RouteSelection, Path]:
    """Return the program as for `ad2 drive run --scenario`, and its file; DIR:NAME is a file of that folder."""
    from closedloop_plugin.runner.routes import program_subject
    from closedloop_plugin.scenarios.suites.programs import index_of, made_alone, programs_in
    from lmms_eval_ad2.core.errors import Ad2Error

    file, alone = Path(options.scenario), False
    folder, colon, name = options.scenario.rpartition(":")
    if colon and not file.is_file() and Path(folder).is_dir():
        programs = {f.stem: f for f in programs_in(Path(folder))}
        if name not in programs:
            few = ", ".join(list(programs)[:5]) + (" ..." if len(programs) > 5 else "")
            raise Ad2Error(f"{options.scenario}: no program '{name}' in {folder}; available: {few or 'none'}")
        file, alone = programs[name], made_alone(index_of(Path(folder)))
    if file.is_dir():
        raise Ad2Error(f"{file}: a folder; name one of its programs, {file}:NAME")
    if not file.is_file():
        raise Ad2Error(f"{options.scenario}: no such program; expected FILE.scenic or DIR:NAME")
    subject = program_subject(options, file)
    return replace(subject, alone=subject.alone or alone), file


def _space(file: Path, config: RunConfig, subject: RouteSelection) -> dict[str, Any]:
    """Return the free parameters that --set does not fix; raises Ad2Error if there are none."""
    from closedloop_plugin.driver.agents.make import make_agent
    from closedloop_plugin.runner.assemble import DriverSetup, assemble
    from lmms_eval_ad2.core.errors import Ad2Error

    # The setup of an episode without the driver: mistakes in the program are reported before a model is loaded.
    setup = assemble(config, subject, DriverSetup(make_agent("still"))).tasks[0].setup
    world = config.world.of(0).make()
    try:
        space = world.space(setup)
    finally:
        world.close()
    free = {name: domain for name, domain in space.items() if name not in subject.values}
    if not free:
        fixed = f" ({', '.join(space)} fixed by --set)" if space else ""
        raise Ad2Error(
            f"{file}: no free parameters to search{fixed}; declare one, as in: param pace = Range(1.0, 3.0), and read "
            "it as globalParameters.pace"
        )
    return free
