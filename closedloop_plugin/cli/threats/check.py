"""`ad2 threats check`: check that scenarios compile, run, act and can be survived; print a table with reasons."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.runner.options import EngineOptions, WorldOptions
from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.threats.check import ScenarioProgram
    from closedloop_plugin.threats.transcript import ScenarioVerdict

EXAMPLES = """examples:
  ad2 threats check threats/ --workers 4            all scenarios of a folder
  ad2 threats check my.scenic                       a program that names its route: param route = "demo:101"
  ad2 threats check my.scenic --route demo:103      the same program on another route
  ad2 threats check town.scenic --map Town05.xodr   a program without a route, on a map

columns:
  compiles   a scene can be sampled
  runs       the episode ended regularly
  acts       the program called stage.event("act") with one of its objects within 30 m of the ego; for a generated
             threat: with its adversary moving as specified
  survived   draws in which it acted and the expert had no collision or other infraction, of the draws tried: the first
             one is the played draw, which `ad2 drive run` gives every agent. A scenario without any is unfair
  others     the same for other draws, driven after it, with the 95 % interval of the share; `share` must be survived

The drives are saved in DIR/check (--out), and the same command resumes. A changed program is driven again. The verdicts
are in DIR/check.json; left_out in DIR/suite.json, if it exists, is updated.

exit code: 0 all scenarios pass, 1 some do not (with reasons), 2 invalid arguments"""


@dataclass(frozen=True, kw_only=True)
class ThreatCheckOptions(WorldOptions, EngineOptions):
    """`ad2 threats check`."""

    paths: tuple[Path, ...] = option("folder of programs, or programs", metavar="DIR|FILE.scenic", positional=True)
    route: str | None = option("route of FILE (default: the one it names)", default=None, metavar="SUITE:ID")
    map: Path | None = option("map of a FILE without a route", default=None, metavar="F.xodr")
    towns: Path | None = option("OpenDRIVE files <town>.xodr, instead of corridor maps", default=None, metavar="DIR")
    agent: str = option("reference driver, a built-in agent (default expert)", default="expert", metavar="SPEC")
    tries: int = option(
        "maximum draws per scenario until one is survived (default 4)", default=4, metavar="N", least=1, expert=True
    )
    others: int = option(
        "other draws per scenario, after the survived one (default 3)", default=3, metavar="K", least=0, expert=True
    )
    share: str = option(
        "share of the other draws that must be survived (default 2/3)", default="2/3", metavar="P", expert=True
    )
    alone: bool = option(
        "programs replace the standard scenarios of their routes (default: as the suite was generated, else on top)",
        default=False,
        expert=True,
    )
    seed: int | None = option("seed of the draws (default: the suite's, else 0)", default=None, metavar="S")
    profile: str | None = option(
        "rules and limits (default: the suite's, else bench2advlm)", default=None, metavar="NAME"
    )
    workers: int | None = option("number of parallel worlds (default 1)", default=None, metavar="W", least=1)
    out: Path | None = option("folder of the drives (default: DIR/check)", default=None, metavar="RUN")
    retry_failed: bool = option("repeat drives whose world failed", default=False)
    json: bool = option("print only the verdicts, as JSON", default=False)


def register(parts: Any) -> None:
    add_command(
        parts,
        "check",
        run,
        ThreatCheckOptions,
        help="compile and drive scenarios: check that they act and can be survived",
        description="Drive each scenario with a reference driver and print the faults of those that do not pass.",
        epilog=EXAMPLES,
    )


def run(options: ThreatCheckOptions) -> int:
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.runner.prepare import engine_of, world_of
    from closedloop_plugin.runner.routes import towns_of
    from closedloop_plugin.scenarios.suites.lookup import routes_of
    from closedloop_plugin.scenarios.suites.programs import index_of, made_alone
    from closedloop_plugin.threats.check import check, programs_of, share_of
    from closedloop_plugin.threats.verdicts import update_left_out, write_verdicts
    from lmms_eval_ad2.storage.lock import lock_folder

    folder = _checked(options)
    programs = programs_of(folder, routes_of) if folder else _of_files(options)
    index = index_of(folder) if folder else {}
    generated_with = _generation_settings(folder, index)
    seed = generated_with.get("seed", 0) if options.seed is None else options.seed
    rules = profile(options.profile or str(generated_with.get("profile", "bench2advlm")))
    alone = options.alone or made_alone(index)
    out = options.out or (folder / "check" if folder else _home(options))
    routes = [p.route for p in programs if p.route]
    towns = towns_of(options.towns, routes, routes)
    world, workers = world_of(options, options.workers)
    engine = engine_of(options, world, workers)
    # The lock of `generate`, which writes the verdicts and suite.json too.
    with lock_folder(folder) if index else nullcontext():  # type: ignore[arg-type]
        verdicts = check(
            programs, out, world=world, judge=options.agent, tries=options.tries, others=options.others,
            share=share_of(options.share), alone=alone, workers=workers, engine=engine, seed=seed, profile=rules,
            towns=towns, quiet=options.json, map=options.map, retry_failed=options.retry_failed,
        )  # fmt: skip
        write_verdicts(folder or out, verdicts, out, [p.file for p in programs])
        if folder:
            update_left_out(folder, verdicts)
    if options.json:
        show(json.dumps({name: v.model_dump() for name, v in verdicts.items()}, indent=1))
    else:
        show(_report(programs, verdicts, out))
    return 0 if all(v.passed for v in verdicts.values()) else 1


# -- arguments -------------------------------------------------------------------------------------------------------


def _checked(options: ThreatCheckOptions) -> Path | None:
    """Return the folder, or None for files; raises Ad2Error for options that exclude each other."""
    from lmms_eval_ad2.core.errors import Ad2Error

    for path in (*options.paths, *([options.map] if options.map else [])):
        if not path.exists():
            raise Ad2Error(f"{path}: no such file" + ("" if path.suffix else " or folder"))
    folders = [path for path in options.paths if path.is_dir()]
    if folders and not os.access(folders[0], os.W_OK):  # before the drives
        raise Ad2Error(f"{folders[0]}: check.json cannot be written there; correct its permissions, or check a copy")
    for path in options.paths:
        if path.suffix != ".scenic" and path not in folders:
            raise Ad2Error(f"{path}: not a program; expected *.scenic, or a folder of them")
    if folders and len(options.paths) > 1:
        raise Ad2Error(f"{folders[0]}: expected one folder, or several programs")
    if options.route and options.map:
        raise Ad2Error("--route has its own map; omit --map")
    if folders and (options.route or options.map):
        raise Ad2Error("--route and --map are for single programs; the programs of a folder name their routes")
    return folders[0] if folders else None


def _generation_settings(folder: Path | None, index: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that the folder was generated with; empty for other programs."""
    from lmms_eval_ad2.core.errors import DataError

    asked = index.get("asked")
    found = dict(asked) if isinstance(asked, dict) else {}
    if folder and type(found.get("seed", 0)) is not int:
        raise DataError(folder / "suite.json", None, "asked.seed", "a whole number", found["seed"])
    return found


def _of_files(options: ThreatCheckOptions) -> list[ScenarioProgram]:
    from closedloop_plugin.scenarios.suites.lookup import route_of
    from closedloop_plugin.threats.check import ScenarioProgram
    from lmms_eval_ad2.core.errors import Ad2Error

    found: dict[str, ScenarioProgram] = {}
    for file in options.paths:
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", file.stem)[:80]
        if name in found:
            raise Ad2Error(f"{file}: another program has the same name: {found[name].file}; check them one by one")
        try:
            route = route_of(file, options.route)
        except Ad2Error as exc:
            if options.route:  # not the program's fault
                raise
            found[name] = ScenarioProgram(name, file, problem=str(exc))
            continue
        if route is not None and options.map:
            raise Ad2Error(f"--map {options.map}: {file} names its route, which has its own map; omit --map")
        found[name] = ScenarioProgram(name, file, replace(route, id=name) if route else None)
    return list(found.values())


def _home(options: ThreatCheckOptions) -> Path:
    """The folder of drives of single programs, in the data home; determined by files and options."""
    from closedloop_plugin.scenarios.suites.lookup import data_home

    key = [
        *sorted(str(p.absolute()) for p in options.paths),
        options.agent,
        options.seed,
        options.world,
        options.profile,
        *(["alone"] if options.alone else []),
    ]
    digest = hashlib.sha256("\n".join(map(str, key)).encode()).hexdigest()
    return data_home() / "checks" / f"{options.paths[0].stem[:40]}-{digest[:12]}"


def _report(programs: Sequence[ScenarioProgram], verdicts: Mapping[str, ScenarioVerdict], out: Path) -> str:
    """Table, reasons, counts."""
    from lmms_eval_ad2.report.table import Table

    headers = ["scenario", "behaviour", "compiles", "runs", "acts", "seen before", "survived", "others", "verdict"]
    rows = []
    for p in programs:
        v, seen = verdicts[p.name], "-"
        if v.seen_before_act_s is not None:  # since when the camera shows the hidden actor before it acts
            seen = f"{v.seen_before_act_s:.1f} s" if v.seen_before_act_s > 0 else "no"
        held = ["yes" if holds else "no" for holds in (v.compiles, v.runs, v.acts)]
        row = [p.name, p.spec.behaviour.value if p.spec else "-", *held, seen, f"{v.survived}/{v.tries}", _others(v)]
        rows.append([*row, "passes" if v.passed else "FAILS"])
    lines = [Table(headers, rows).plain()]
    failed = {n: v.reason for n, v in verdicts.items() if not v.passed}
    lines += ["", *(f"{name}: {reason}" for name, reason in failed.items())] if failed else []
    passed = len(verdicts) - len(failed)
    lines += ["", _over_all(verdicts)] if any(v.others for v in verdicts.values()) else []
    lines += ["", f"{passed} of {len(verdicts)} pass ({100 * passed / len(verdicts):.1f} %); drives: {out}"]
    return "\n".join(lines)


def _others(v: ScenarioVerdict) -> str:
    """Survived other draws of those driven, with the interval of the share in percent (Wilson)."""
    from lmms_eval_ad2.scoring.metrics.intervals import wilson

    if not v.others:
        return "-" if not v.others_failed else f"{v.others_failed} not scored"
    span = wilson(v.others_survived / v.others, v.others)
    text = f"{v.others_survived}/{v.others} [{100 * span.low:.0f}, {100 * span.high:.0f}] %"
    return text + (f", {v.others_failed} not scored" if v.others_failed else "")


def _over_all(verdicts: Mapping[str, ScenarioVerdict]) -> str:
    """The share of other draws that the reference driver survives, over all scenarios with a survived draw."""
    from closedloop_plugin.threats.check import survived_share

    found = survived_share(verdicts.values())
    span = f", 95 % interval {100 * found.interval[0]:.1f} to {100 * found.interval[1]:.1f}" if found.interval else ""
    failed = sum(v.others_failed for v in verdicts.values())
    lost = f"; {failed} not scored" if failed else ""
    return (
        f"other draws survived: {found.survived} of {found.draws} ({100 * found.survived / found.draws:.1f} %{span}) "
        f"of {found.scenarios} scenarios with a played draw{lost}"
    )
