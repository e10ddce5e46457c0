"""`ad2 threats generate`: make a threat scenario for each route of a suite from the target's drives and answers."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.runner.options import (
    DecisionOptions,
    DriverOptions,
    EngineOptions,
    PoolOptions,
    SimulatedDecisionOptions,
    WorldOptions,
)
from lmms_eval_ad2.core.options import add_command, fixed, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.threats.generate import GeneratedThreats, ThreatGenerationConfig

REFLECT = 2  # default rounds
EXAMPLES = """examples:
  ad2 threats generate --suite demo --agent steer-only --fuser rules --out threats/demo
  ad2 threats generate --suite demo --agent expert --config latency=0.5 --config reflect=3 --fuser rules --out late
  ad2 threats generate --suite embedded220 --agent lmms:qwen2_5_vl,pretrained=Qwen/Qwen2.5-VL-7B-Instruct \\
      --fuser endpoint:gpt-4o@https://api.openai.com/v1 --workers 4 --out threats/qwen
then:
  ad2 drive run --suite threats/qwen --agent lmms:qwen2_5_vl,... --out runs/qwen_threat
  ad2 report compare runs/qwen runs/qwen_threat
  ad2 threats gallery threats/qwen --runs runs/qwen_threat

The target first drives each route as in ad2 drive run, and is questioned about several moments of that drive
(perception, prediction, planning). The fuser converts the answers and the drive to one threat of a closed vocabulary;
templates convert the threat to a program. Of a driver without text (expert, steer-only ...) only the drive is known.
Then the target drives the scenario; if it survives, the fuser gets what happened and makes another one, at most
`--config reflect` times.

exit code: 0 each route has a scenario that passes the check, 1 some have none (listed), 2 invalid arguments"""


@dataclass(frozen=True, kw_only=True)
class ThreatRoutesOptions:
    suite: str = option("demo, embedded220, or a route file", metavar="NAME|FILE", identity=("base", "base_sha256"))
    routes_ids: str | None = option("only these routes of the suite", default=None, metavar="ID,ID")
    limit: int | None = option("only the first N routes", default=None, metavar="N", least=1)
    towns: Path | None = option(
        "OpenDRIVE files <town>.xodr, instead of corridor maps", default=None, metavar="DIR", identity="towns"
    )


@dataclass(frozen=True, kw_only=True)
class ThreatInterviewOptions:
    """The fuser, and the questions to the target."""

    fuser: str = option(
        "rules (offline), uniform (random threats, the baseline), endpoint:MODEL@URL, or lmms:NAME,...",
        metavar="SPEC", identity="fuser",
    )  # fmt: skip
    moments: int = option(
        "moments of the drive about which the target is questioned (default 3)", default=3, metavar="N", least=1,
        most=12, identity="moments", expert=True,
    )  # fmt: skip
    moment_frames: int = option(
        "frames shown at each moment, 1 s apart (default 3)", default=3, metavar="N", least=1, most=16,
        identity="frames", expert=True,
    )  # fmt: skip
    questions: Path | None = option(
        "own questions, in place of those in threats.yaml", default=None, metavar="FILE",
        identity="prompts_sha256", expert=True,
    )  # fmt: skip
    repairs: int = option(
        "maximum repairs of an invalid reply (default 3)", default=3, metavar="N", least=0, expert=True
    )


@dataclass(frozen=True, kw_only=True)
class ThreatTargetOptions(DriverOptions, SimulatedDecisionOptions):
    """The target, as in ad2 drive run."""

    prompts: str | None = option(
        "file of own driving prompts of the target", default=None, metavar="FILE",
        identity=("agent", "driver", "interpreter"), expert=True,
    )  # fmt: skip
    frames: bool = fixed(True)  # those of the moments


@dataclass(frozen=True, kw_only=True)
class ThreatFolderOptions:
    out: Path = option("suite folder; the same command resumes in it", metavar="DIR")
    seed: int = option("seed; equal seeds make equal scenarios (default 0)", default=0, metavar="S", identity="seed")
    reflect: int | None = option(
        "maximum rounds: make a scenario, let the target drive it, and where it survives, make another one with what "
        "happened (default 2; with --no-check 0; 0: the target does not drive its scenarios)", default=None,
        metavar="N", least=0, most=20, expert=True,
    )  # fmt: skip
    attempts: int = option(
        "maximum scenarios per route and round (default 6)", default=6, metavar="N", least=1, expert=True
    )
    tries: int = option(
        "maximum draws per scenario driven by the expert (default 2)", default=2, metavar="N", least=1, expert=True
    )
    others: int = option(
        "other draws per scenario driven by the expert, after one that it survives (default 3)", default=3,
        metavar="K", least=0, expert=True,
    )  # fmt: skip
    share: str = option(
        "share of the other draws that the expert must survive (default 2/3)", default="2/3", metavar="P", expert=True
    )
    alone: bool = option(
        "threats replace the standard scenarios of their routes (default: they play on top of them)", default=False,
        identity="alone", expert=True,
    )  # fmt: skip
    no_check: bool = option("skip the check; ad2 threats check can do it later", default=False)


@dataclass(frozen=True, kw_only=True)
class ThreatGenerateOptions(
    ThreatRoutesOptions, WorldOptions, ThreatInterviewOptions, ThreatFolderOptions, ThreatTargetOptions, PoolOptions,
    EngineOptions,
):  # fmt: skip
    """`ad2 threats generate`."""


GROUPS = {
    "routes": (ThreatRoutesOptions, WorldOptions),
    "target": (DriverOptions, ThreatTargetOptions, DecisionOptions, SimulatedDecisionOptions),
    "interview and fuser": (ThreatInterviewOptions,),
    "run": (ThreatFolderOptions, PoolOptions, EngineOptions),
}


def register(parts: Any) -> None:
    add_command(
        parts,
        "generate",
        run,
        ThreatGenerateOptions,
        GROUPS,
        help="make a threat scenario for each route of a suite; the same command resumes",
        description="Let the target drive each route, question it about moments of its drive, fuse answers and drive "
        "into a threat, write it as a Scenic program, check that it runs and can be survived, and let the target drive "
        "it.",
        epilog=EXAMPLES,
    )


def run(options: ThreatGenerateOptions) -> int:
    from closedloop_plugin.driver.prompts.texts import texts_of
    from closedloop_plugin.threats.factories import make_fuser, make_interviewee
    from closedloop_plugin.threats.generate import generate

    texts = texts_of(options.questions, "threats")
    job = _job(options, texts.sha256)
    more: dict[str, Any] = {"texts": texts, "cache": None, "seed": options.seed}
    interviewee = make_interviewee(options.agent, driver=job.driver, profile=job.profile, cameras=job.cameras, **more)
    fuser = make_fuser(options.fuser, repairs=options.repairs, **more)
    made = generate(job, interviewee, fuser)
    show(summary(made, job))
    for route, reason in sorted({**made.unscored, **made.failed, **made.unsound}.items()):
        what = "left out" if route in made.unsound else "no scenario" if route in made.failed else "not scored"
        show(f"{what}: route {route}: {reason}", file=sys.stderr)
    return 1 if made.failed or made.unsound or made.unscored else 0


def _job(options: ThreatGenerateOptions, prompts_sha256: str) -> ThreatGenerationConfig:
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.runner.driver import check_driver, driver_of
    from closedloop_plugin.runner.prepare import check_decision_hz, decision_rules, engine_of, limits_of, world_of
    from closedloop_plugin.runner.routes import check_mapped, drivable, select_routes, towns_of
    from closedloop_plugin.scenarios.suites.lookup import suite
    from closedloop_plugin.threats.check import share_of
    from closedloop_plugin.threats.rounds import ThreatGenerationConfig
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.storage.files import file_sha256

    found = drivable(suite(options.suite, options.world), options.world)
    if found.programs:
        raise Ad2Error(f"--suite {options.suite}: threats are made for routes, but this is a folder of programs")
    routes = select_routes(found, options.suite, routes_ids=options.routes_ids, limit=options.limit)
    towns = towns_of(options.towns, found.routes, routes)
    if options.world == "embedded":
        check_mapped(options.suite, routes, towns, skip=False)
    rules = profile(options.profile)
    check_decision_hz(options.decision_hz, rules)
    check_driver(options)
    file = Path(options.suite)
    world, workers = world_of(options, options.workers)
    engine = engine_of(options, world, workers)  # before models, whose replicas may run in its cluster
    driver = driver_of(options, rules, options.policy)
    return ThreatGenerationConfig(
        folder=options.out, suite=found, routes=routes, world=world, profile=rules, driver=driver,
        cameras=driver.cameras, rules=decision_rules(options),
        base_file=file if file.is_file() and file_sha256(file) == found.sha256 else None,  # not a file called "demo"
        towns=towns, seed=options.seed, moments=options.moments,
        frames=options.moment_frames, limits=limits_of(options, world, workers), engine=engine,
        stop_after_unread=options.stop_after_unread, reflect=_rounds(options), attempts=options.attempts,
        tries=options.tries, others=options.others, share=share_of(options.share), alone=options.alone,
        checked=not options.no_check, prompts_sha256=prompts_sha256,
    )  # fmt: skip


def _rounds(options: ThreatGenerateOptions) -> int:
    if options.reflect is None:
        return 0 if options.no_check else REFLECT
    return options.reflect


def summary(made: GeneratedThreats, job: ThreatGenerationConfig) -> str:
    """Counts of scenarios, attempts and kinds of threats."""
    scenarios = [t.last for t in made.transcripts.values() if t.last and t.last.spec]
    passed = sum(bool(a.verdict and a.verdict.passed) for a in scenarios)
    n = len(job.routes)
    lines = [f"{n} routes of {job.suite.name}: {len(scenarios)} scenarios, {len(made.failed)} without one"]
    if job.checked:
        lines.append(f"checked with the expert: {passed} pass ({100 * passed / n:.1f} % of the routes), "
                     f"{len(made.unsound)} left out")  # fmt: skip
    else:
        lines.append(f"not checked; next: ad2 threats check {job.folder}")
    again = [t for t in made.transcripts.values() if any(a.number for a in t.attempts)]
    refused = sum(a.spec is None for t in made.transcripts.values() for a in t.attempts)
    repairs = sum(e.purpose == "repair" for t in made.transcripts.values() for a in t.attempts for e in a.exchanges)
    lines.append(f"{len(again)} routes took several attempts; {refused} attempts refused, {repairs} replies repaired")
    lines += _drives(made, job)
    specs = [a.spec for a in scenarios if a.spec]
    lines.append(_counted("behaviour", (s.behaviour.value for s in specs)))
    lines.append(_counted("adversary", (s.adversary.value for s in specs)))
    lines.append(_counted("weakness probed", (s.weakness.value for s in specs)))
    if scenarios:
        lines.append(f"next: ad2 drive run --suite {job.folder} --agent ... --out ...")
    return "\n".join(lines)


def _drives(made: GeneratedThreats, job: ThreatGenerationConfig) -> list[str]:
    """Lines on the target's standard drives, on the rounds in which a threat made it fail, and on the causes."""
    from closedloop_plugin.scoring.failure_cause import counts_text
    from closedloop_plugin.threats.generate import rounds_of
    from closedloop_plugin.threats.interview import never_moved

    drives = [t.interview.drive for t in made.transcripts.values() if t.interview.drive]
    failed = sum(d.failed for d in drives)
    lines = [f"target on the standard routes: {len(drives) - failed} of {len(drives)} without failure"]
    if still := never_moved(made.transcripts):
        names = ", ".join(still[:5]) + (" ..." if len(still) > 5 else "")
        lines.append(f"it never moved on {len(still)} routes ({names}): questioned at moments by time")
    if job.reflect:
        counts = rounds_of(made)
        lines.append(f"target on its scenarios, {len(job.routes)} routes: "
                     + ", ".join(f"{name} {n}" for name, n in counts.items()))  # fmt: skip
        lines.append(f"failures on the scenarios of the suite: {counts_text(list(made.causes.values()))}")
    return lines


def _counted(title: str, values: Iterable[str]) -> str:
    return f"{title}: " + (", ".join(f"{name} {n}" for name, n in Counter(values).most_common()) or "none")
