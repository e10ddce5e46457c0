"""Failures found per 50 runs by the sampler gp, compared with uniform sampling.

    python benchmarks/threats.py [--out DIR] [--seeds 5] [--budget 50] [--workers 2] [--case NAME] [--samplers S,S]

One scenario, a pedestrian who steps in front of the car. The baselines fail in about a quarter of its range:

    steer-only     follows the route and ignores all traffic
    late expert    the expert with two decisions per second, each applied half a second late

For each: failures of 50 runs by sampler (mean over the seeds, 95 % interval), their ratio, and how many of the failures
the expert survives. A second start resumes. The results are counts and ratios, no times.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.driver.agents.make import make_agent
from closedloop_plugin.runner.assemble import DriverSetup, RouteSelection, RunConfig, assemble
from closedloop_plugin.runner.decisions import DecisionRules, LatencyModel
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.threats.search.search import SearchTrial, ThreatSearchConfig, search, with_expert
from lmms_eval_ad2.storage.files import file_sha256

STEPS_OUT = '''"""Somebody steps into the car's way, sooner or later, here or there, hesitates, and goes on."""
param pace = Range(0.8, 5)       # m/s
param ahead = Range(10, 40)      # m behind the trigger
param early = Range(-8, 8)       # s: how long before the car it would be in the middle of the lane
param far = Range(0.5, 6)        # m that it goes before it hesitates; the middle of the lane is at 4.2 m

model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

ego = new Car at place(0), facing stage.heading(0)

@distributionFunction
def way(where):
    return Rail(geometry.across(road, where, -4.2, 0), 0)

behavior StepOut(where, pace, early, far):
    while seconds_to(where) > 4.2 / pace + early:
        wait
    stage.event("act")
    self.rail.accel = 6
    self.rail.stop_s = far
    self.rail.speed = pace
    stepped = stage.time_s
    do Ride() until stage.time_s > stepped + far / pace + 1.5
    self.rail.stop_s = 8.0
    do Ride()

start = stage.trigger_s + globalParameters.ahead
rail = way(start)
new Walker at start_of(rail), facing facing_of(rail), with rail rail, \\
    with behavior StepOut(start, globalParameters.pace, globalParameters.early, globalParameters.far)
terminate when stage.ego_s > start + 8
'''


@dataclass(frozen=True)
class Case:
    agent: str
    rules: DecisionRules


CASES: Mapping[str, Case] = {
    "steer-only": Case("steer-only", DecisionRules()),
    "late expert": Case("expert", DecisionRules(decision_hz=2.0, latency=LatencyModel("0.5 s", (0.5,)))),
}
ROUTE = "101"  # of the demo suite
EXPERT = FactoryRecipe("closedloop_plugin.driver.agents.make:make_agent", {"spec": "expert"})


def run_search(folder: Path, case: Case, sampler: str, seed: int, budget: int, workers: int) -> list[SearchTrial]:
    """Run one search and drive its failures again with the expert."""
    program = folder / "program.scenic"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(STEPS_OUT, "utf-8")
    route = next(r for r in suite("demo").routes if r.id == ROUTE)
    selection = RouteSelection(
        "program",
        file_sha256(program),
        [route.id],
        (route,),
        programs={route.id: program.absolute()},
        alone=True,
    )
    world = FactoryRecipe("closedloop_plugin.worlds.embedded.world:EmbeddedWorld", {"folder": folder.parent / "maps"})
    # All searches have the same scene seed, so that only the samplers differ.
    config = RunConfig(
        folder / "runs", world, profile("bench2drive"), case.rules, traffic=False, limits=PoolLimits(workers)
    )
    recipe = FactoryRecipe(EXPERT.target, {"spec": case.agent})
    run = assemble(config, selection, DriverSetup(make_agent(case.agent), None, recipe))
    made = world.make()
    try:
        space = made.space(run.tasks[0].setup)
    finally:
        made.close()
    search_config = ThreatSearchConfig(run, space, sampler, seed=seed, budget=budget)
    expert = assemble(
        replace(config, folder=folder / "expert", rules=DecisionRules()),
        selection,
        DriverSetup(make_agent("expert"), None, EXPERT),
    )
    return with_expert(expert, search_config, search(search_config))


def compare(args: argparse.Namespace) -> None:
    for name, case in CASES.items():
        if args.case not in (None, name):
            continue
        found: dict[str, list[int]] = {}
        for sampler in args.samplers.split(","):
            trials = [
                run_search(
                    args.out / f"{name}-{sampler}-{seed}".replace(" ", "_"),
                    case,
                    sampler,
                    seed,
                    args.budget,
                    args.workers,
                )
                for seed in range(args.seeds)
            ]
            found[sampler] = [sum(t.failed for t in some) for some in trials]
            print(f"{name}: {sampler}: {_row(found[sampler], trials)}", flush=True)
        for sampler in [s for s in found if s != "random" and "random" in found]:
            print(f"{name}: {sampler} / random: {_ratio(found[sampler], found['random'])}", flush=True)


def _row(counts: Sequence[int], trials: Sequence[Sequence[SearchTrial]]) -> str:
    failures = [t for some in trials for t in some if t.failed]
    fair = sum(t.fair is True for t in failures)
    unscored = sum(t.rho is None for some in trials for t in some)
    alive = f"{100 * fair / len(failures):.0f} %" if failures else "–"
    low, high = _interval(counts)
    return (
        f"failures per search {statistics.mean(counts):.1f} ({low:.1f} to {high:.1f}; {list(counts)}), the expert "
        f"survives {alive} of {len(failures)}, {unscored} runs not scored"
    )


def _interval(counts: Sequence[float]) -> tuple[float, float]:
    """95 % bootstrap interval of the mean over the seeds."""
    rng = np.random.default_rng(0)
    means = rng.choice(np.array(counts, float), (4000, len(counts))).mean(axis=1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def _ratio(ours: Sequence[int], theirs: Sequence[int]) -> str:
    """Ratio of the means, with a bootstrap interval over the seeds of both."""
    if not sum(theirs):
        return f"{sum(ours)} failures against none"
    rng = np.random.default_rng(0)
    a = rng.choice(np.array(ours, float), (4000, len(ours))).mean(axis=1)
    b = np.maximum(rng.choice(np.array(theirs, float), (4000, len(theirs))).mean(axis=1), 0.1)
    low, high = np.quantile(a / b, [0.025, 0.975])
    return f"{sum(ours) / sum(theirs):.2f} ({low:.2f} to {high:.2f})"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, default=Path("runs/threats"))
    for name, default in (("--seeds", 5), ("--budget", 50), ("--workers", 2)):
        p.add_argument(name, type=int, default=default)
    p.add_argument("--case", choices=tuple(CASES))
    p.add_argument("--samplers", default="random,gp")
    compare(p.parse_args())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
