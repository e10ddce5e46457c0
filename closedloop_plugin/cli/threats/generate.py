"""`ad2 threats generate`: one threat scenario for each route of a suite, from the target's own answers."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.cli.drive.world import register_world

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

The target is asked at three stages (perception, prediction, planning) about each route's first frames; the fuser turns
its answers into one threat, in a closed vocabulary; our templates make the program. A driver without words (expert,
steer-only ...) is not asked but probed: what it does with a car, a pedestrian, a bend before it.

exit code: 0 every route has a scenario that passes the check, 1 some have not (named), 2 it could not start or go on"""


def register(parts: Any) -> None:
    p = parts.add_parser(
        "generate",
        help="make a threat scenario for each route of a suite; the same command goes on where it stopped",
        description="Interview the target on the first frames of every route, fuse its answers into a threat, write it "
        "as a Scenic program, and check that it plays and can be survived.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _register_what(p.add_argument_group("for which routes"))
    _register_who(p.add_argument_group("who tells and who makes"))
    _register_how(p.add_argument_group("how it runs"))
    p.set_defaults(func=run)


def _register_what(what: Any) -> None:
    what.add_argument("--suite", required=True, metavar="NAME|FILE", help="demo, embedded220, or a route file")
    what.add_argument("--routes-ids", metavar="ID,ID", help="only these routes")
    what.add_argument("--limit", type=int, metavar="N", help="only the first N routes")
    what.add_argument("--towns", type=Path, metavar="DIR", help="OpenDRIVE files <town>.xodr, instead of corridor maps")
    register_world(what)


def _register_who(who: Any) -> None:
    who.add_argument("--agent", required=True, metavar="SPEC", help="the target, as for ad2 drive run")
    who.add_argument(
        "--fuser", required=True, metavar="SPEC", help="rules (offline), endpoint:MODEL@URL, or lmms:NAME,..."
    )
    who.add_argument("--camera", choices=("front", "surround"), default="front", help="what the target sees")
    who.add_argument("--size", metavar="WxH", help="of the cameras (default: the profile's)")
    who.add_argument("--frames", type=int, default=1, metavar="N", help="first frames shown, 1 s apart (default 1)")
    who.add_argument("--prompts", type=Path, metavar="FILE", help="questions of your own, in place of threats.yaml's")
    who.add_argument("--repairs", type=int, default=3, metavar="N", help="of a reply that does not fit (default 3)")
    who.add_argument("--profile", default="bench2advlm", metavar="NAME", help="rules and cameras (default bench2advlm)")


def _register_how(how: Any) -> None:
    how.add_argument("--out", type=Path, required=True, metavar="DIR", help="the suite's folder, new or begun")
    how.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed makes the same (default 0)")
    how.add_argument("--workers", type=int, metavar="W", help="worlds side by side (default 1)")
    how.add_argument("--attempts", type=int, default=3, metavar="N", help="scenarios for one route at most (default 3)")
    how.add_argument("--tries", type=int, default=4, metavar="N", help="draws that the expert may drive (default 4)")
    how.add_argument("--no-check", action="store_true", help="do not drive them; ad2 threats check does it later")


def run(args: argparse.Namespace) -> int:
    from closedloop_plugin.prompts.texts import texts_of
    from closedloop_plugin.threats.factories import make_fuser, make_teller
    from closedloop_plugin.threats.generate import generate

    for name, least in (("frames", 1), ("workers", 1), ("attempts", 1), ("tries", 1), ("repairs", 0), ("limit", 1)):
        value = getattr(args, name)
        if value is not None and value < least:
            from lmms_eval_ad2.errors import Ad2Error

            raise Ad2Error(f"--{name} {value}: {least} or more")
    texts = texts_of(args.prompts, "threats")
    job = _job(args, texts.sha256)
    more: dict[str, Any] = {"texts": texts, "cache": None, "seed": args.seed}
    teller = make_teller(args.agent, profile=job.profile, cameras=job.cameras, **more)
    fuser = make_fuser(args.fuser, repairs=args.repairs, **more)
    made = generate(job, teller, fuser)
    print(summary(made, job))
    for route, reason in sorted({**made.failed, **made.unsound}.items()):
        print(f"{'left out' if route in made.unsound else 'no scenario'}: route {route}: {reason}", file=sys.stderr)
    return 1 if made.failed or made.unsound else 0


def _job(args: argparse.Namespace, prompts_sha256: str) -> ThreatGenerationConfig:
    from closedloop_plugin.agents.make import cameras_of
    from closedloop_plugin.cli.drive.selection import asked_for, towns_of
    from closedloop_plugin.cli.drive.world import world_of
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.core.routes import sha256
    from closedloop_plugin.suites.lookup import suite
    from closedloop_plugin.threats.generate import ThreatGenerationConfig
    from lmms_eval_ad2.errors import Ad2Error

    found = suite(args.suite, args.world)
    if found.programs:
        raise Ad2Error(f"--suite {args.suite}: threats are made for routes, and this is a folder of programs")
    routes = asked_for(found, args)
    rules = profile(args.profile)
    file = Path(args.suite)
    world, workers = world_of(args)
    return ThreatGenerationConfig(
        args.out, found, routes, world, rules,
        cameras_of(args.camera + (f"@{args.size}" if args.size else ""), rules),
        base_file=file if file.is_file() and sha256(file) == found.sha256 else None,  # not a file called "demo"
        towns=towns_of(args.towns, found.routes, routes), seed=args.seed, frames=args.frames,
        workers=workers, attempts=args.attempts, tries=args.tries, checked=not args.no_check,
        prompts_sha256=prompts_sha256,
    )  # fmt: skip


def summary(made: GeneratedThreats, job: ThreatGenerationConfig) -> str:
    """Counts that a reader of the suite must know."""
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
