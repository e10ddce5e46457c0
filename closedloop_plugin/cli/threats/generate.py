"""`ad2 threats generate`: make a threat scenario for each route of a suite from the target's own answers."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from closedloop_plugin.cli.drive.world import EngineOptions, WorldOptions
from lmms_eval_ad2.options import add_command, option
from lmms_eval_ad2.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.threats.generate import GeneratedThreats, ThreatGenerationConfig

EXAMPLES = """examples:
  ad2 threats generate --suite demo --agent steer-only --fuser rules --out threats/demo
  ad2 threats generate --suite embedded220 --agent lmms:qwen2_5_vl,pretrained=Qwen/Qwen2.5-VL-7B-Instruct \\
      --fuser endpoint:gpt-4o@https://api.openai.com/v1 --workers 4 --out threats/qwen
then:
  ad2 drive run --suite threats/qwen --agent lmms:qwen2_5_vl,... --out runs/qwen_threat
  ad2 report compare runs/qwen runs/qwen_threat
  ad2 threats gallery threats/qwen --runs runs/qwen_threat

The target answers questions of three stages (perception, prediction, planning) on each route's first frames. The fuser
converts the answers to one threat of a closed vocabulary; templates convert the threat to a program. A driver without
text (expert, steer-only ...) is probed instead: its reactions to a car, a pedestrian and a bend are recorded.

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
class ThreatModelOptions:
    agent: str = option("the target, as for ad2 drive run", metavar="SPEC", identity="agent")
    fuser: str = option("rules (offline), endpoint:MODEL@URL, or lmms:NAME,...", metavar="SPEC", identity="fuser")
    camera: Literal["front", "surround"] = option(
        "cameras of the target (default front)", default="front", identity="cameras"
    )
    size: str | None = option(
        "image size of the cameras (default: the profile's)", default=None, metavar="WxH", identity="cameras"
    )
    frames: int = option(
        "number of first frames shown, 1 s apart (default 1)", default=1, metavar="N", least=1, identity="frames"
    )
    prompts: Path | None = option(
        "own questions, in place of those in threats.yaml", default=None, metavar="FILE", identity="prompts_sha256"
    )
    repairs: int = option("maximum repairs of an invalid reply (default 3)", default=3, metavar="N", least=0)
    profile: str = option(
        "rules and cameras (default bench2advlm)", default="bench2advlm", metavar="NAME", identity="profile"
    )


@dataclass(frozen=True, kw_only=True)
class ThreatFolderOptions:
    out: Path = option("suite folder; the same command resumes in it", metavar="DIR")
    seed: int = option("seed; equal seeds make equal scenarios (default 0)", default=0, metavar="S", identity="seed")
    workers: int | None = option("number of parallel worlds (default 1)", default=None, metavar="W", least=1)
    attempts: int = option("maximum scenarios per route (default 3)", default=3, metavar="N", least=1)
    tries: int = option("maximum draws per scenario driven by the expert (default 4)", default=4, metavar="N", least=1)
    others: int = option(
        "other draws per scenario driven by the expert, after one that it survives (default 3)", default=3,
        metavar="K", least=0,
    )  # fmt: skip
    share: str = option(
        "share of the other draws that the expert must survive (default 2/3)", default="2/3", metavar="P"
    )
    alone: bool = option(
        "threats replace the standard scenarios of their routes (default: they play on top of them)", default=False,
        identity="alone",
    )  # fmt: skip
    no_check: bool = option("skip the check; ad2 threats check can do it later", default=False)


@dataclass(frozen=True, kw_only=True)
class ThreatGenerateOptions(ThreatRoutesOptions, WorldOptions, ThreatModelOptions, ThreatFolderOptions, EngineOptions):
    """`ad2 threats generate`."""


GROUPS = {
    "routes": (ThreatRoutesOptions, WorldOptions),
    "target and fuser": (ThreatModelOptions,),
    "run": (ThreatFolderOptions, EngineOptions),
}


def register(parts: Any) -> None:
    add_command(
        parts,
        "generate",
        run,
        ThreatGenerateOptions,
        GROUPS,
        help="make a threat scenario for each route of a suite; the same command resumes",
        description="Question the target on the first frames of each route, fuse its answers into a threat, write it "
        "as a Scenic program, and check that it runs and can be survived.",
        epilog=EXAMPLES,
    )


def run(options: ThreatGenerateOptions) -> int:
    from closedloop_plugin.prompts.texts import texts_of
    from closedloop_plugin.threats.factories import make_fuser, make_interviewee
    from closedloop_plugin.threats.generate import generate

    texts = texts_of(options.prompts, "threats")
    job = _job(options, texts.sha256)
    more: dict[str, Any] = {"texts": texts, "cache": None, "seed": options.seed}
    interviewee = make_interviewee(options.agent, profile=job.profile, cameras=job.cameras, **more)
    fuser = make_fuser(options.fuser, repairs=options.repairs, **more)
    made = generate(job, interviewee, fuser)
    show(summary(made, job))
    for route, reason in sorted({**made.failed, **made.unsound}.items()):
        show(f"{'left out' if route in made.unsound else 'no scenario'}: route {route}: {reason}", file=sys.stderr)
    return 1 if made.failed or made.unsound else 0


def _job(options: ThreatGenerateOptions, prompts_sha256: str) -> ThreatGenerationConfig:
    from closedloop_plugin.agents.make import cameras_of
    from closedloop_plugin.cli.drive.selection import select_routes, towns_of
    from closedloop_plugin.cli.drive.world import engine_of, world_of
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.suites.lookup import suite
    from closedloop_plugin.threats.draws import share_of
    from closedloop_plugin.threats.generate import ThreatGenerationConfig
    from lmms_eval_ad2.errors import Ad2Error
    from lmms_eval_ad2.storage.files import file_sha256

    found = suite(options.suite, options.world)
    if found.programs:
        raise Ad2Error(f"--suite {options.suite}: threats are made for routes, but this is a folder of programs")
    routes = select_routes(found, options.suite, routes_ids=options.routes_ids, limit=options.limit)
    rules = profile(options.profile)
    file = Path(options.suite)
    world, workers = world_of(options, options.workers)
    return ThreatGenerationConfig(
        folder=options.out, suite=found, routes=routes, world=world, profile=rules,
        cameras=cameras_of(options.camera + (f"@{options.size}" if options.size else ""), rules),
        base_file=file if file.is_file() and file_sha256(file) == found.sha256 else None,  # not a file called "demo"
        towns=towns_of(options.towns, found.routes, routes), seed=options.seed, frames=options.frames,
        workers=workers, engine=engine_of(options, world, workers), attempts=options.attempts, tries=options.tries,
        others=options.others, share=share_of(options.share), alone=options.alone,
        checked=not options.no_check, prompts_sha256=prompts_sha256,
    )  # fmt: skip


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
    again = [t for t in made.transcripts.values() if len(t.attempts) > 1]
    refused = sum(a.spec is None for t in made.transcripts.values() for a in t.attempts)
    repairs = sum(e.purpose == "repair" for t in made.transcripts.values() for a in t.attempts for e in a.exchanges)
    lines.append(f"{len(again)} routes took several attempts; {refused} attempts refused, {repairs} replies repaired")
    specs = [a.spec for a in scenarios if a.spec]
    lines.append(_counted("behaviour", (s.behaviour.value for s in specs)))
    lines.append(_counted("adversary", (s.adversary.value for s in specs)))
    lines.append(_counted("weakness probed", (s.weakness.value for s in specs)))
    if scenarios:
        lines.append(f"next: ad2 drive run --suite {job.folder} --agent ... --out ...")
    return "\n".join(lines)


def _counted(title: str, values: Iterable[str]) -> str:
    return f"{title}: " + (", ".join(f"{name} {n}" for name, n in Counter(values).most_common()) or "none")
