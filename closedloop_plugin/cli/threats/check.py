"""`ad2 threats check`: does each scenario compile, run and act, and can it be survived? A table with reasons."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.cli.drive.world import register_world

if TYPE_CHECKING:
    from closedloop_plugin.threats.check import ScenarioProgram
    from closedloop_plugin.threats.transcript import ScenarioVerdict

EXAMPLES = """examples:
  ad2 threats check threats/ --workers 4            every scenario of a folder
  ad2 threats check my.scenic                       one of your own, with its line: param route = "demo:101"
  ad2 threats check my.scenic --route demo:103      the same elsewhere
  ad2 threats check town.scenic --map Town05.xodr   without a route, on a map

columns:
  compiles   a scene could be drawn
  runs       the episode came to an end of its own
  acts       the program said stage.event("act"), and something of it was within 30 m of the ego then; of a generated
             threat: its adversary, moving where it should
  survived   draws in which it acted and the expert came through without a collision or another infraction, of those
             driven. One is enough: without any the scenario is unfair. A draw after the first is only driven if needed

Every drive is kept in DIR/check (--out), and the same command goes on where it stopped. A program that has changed is
driven anew. The verdicts: DIR/check.json; where DIR has a suite.json, its left_out is brought up to date.

exit code: 0 every scenario passes, 1 some do not (with reasons), 2 nothing could be checked as asked"""


def register(parts: Any) -> None:
    p = parts.add_parser(
        "check",
        help="compile and drive scenarios: do they act, can they be survived?",
        description="Drive every scenario with a reference driver, and say of each that is unsound what is wrong.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("paths", nargs="+", type=Path, metavar="DIR|FILE.scenic", help="a folder of programs, or programs")
    p.add_argument("--route", metavar="SUITE:ID", help="for FILE: the route it plays on, instead of the one it names")
    p.add_argument("--map", type=Path, metavar="F.xodr", help="for FILE without a route: the map that it plays on")
    p.add_argument("--towns", type=Path, metavar="DIR", help="OpenDRIVE files <town>.xodr, instead of corridor maps")
    p.add_argument("--agent", default="expert", metavar="SPEC", help="the judge: a built-in driver (default expert)")
    p.add_argument("--tries", type=int, default=4, metavar="N", help="draws of a scenario at most (default 4)")
    p.add_argument("--seed", type=int, metavar="S", help="of the draws (default: the suite's, else 0)")
    p.add_argument("--profile", metavar="NAME", help="rules (default: the suite's, else bench2advlm)")
    register_world(p)
    p.add_argument("--workers", type=int, metavar="W", help="worlds side by side (default 1)")
    p.add_argument("--out", type=Path, metavar="RUN", help="where the drives are kept (default: DIR/check)")
    p.add_argument("--retry-failed", action="store_true", help="try those again whose world failed")
    p.add_argument("--carla-model", action="store_true", help="compile each under Scenic's CARLA model too (no server)")
    p.add_argument("--json", action="store_true", help="print the verdicts as JSON, and nothing else")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from closedloop_plugin.cli.drive.selection import towns_of
    from closedloop_plugin.cli.drive.world import world_of
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.suites.programs import index_of
    from closedloop_plugin.threats.check import check
    from closedloop_plugin.threats.verdict_files import update_left_out, write_verdicts
    from lmms_eval_ad2.errors import require
    from lmms_eval_ad2.storage.lock import lock_folder

    folder = _checked(args)
    if args.carla_model:
        require("carla", "its Scenic model")
    programs = _of_folder(folder, args) if folder else _of_files(args)
    index = index_of(folder) if folder else {}
    asked = _asked(folder, index)
    seed = asked.get("seed", 0) if args.seed is None else args.seed
    rules = profile(args.profile or str(asked.get("profile", "bench2advlm")))
    out = args.out or (folder / "check" if folder else _home(args))
    routes = [p.route for p in programs if p.route]
    towns = towns_of(args.towns, routes, routes)
    world, workers = world_of(args)
    # The lock of `generate`: it, too, writes the verdicts and suite.json.
    with lock_folder(folder) if index else nullcontext():  # type: ignore[arg-type]
        verdicts = check(
            programs, out, world=world, judge=args.agent, tries=args.tries, workers=workers,
            seed=seed, profile=rules, towns=towns, quiet=args.json, map=args.map, retry_failed=args.retry_failed,
        )  # fmt: skip
        write_verdicts(folder or out, verdicts, out, [p.file for p in programs])
        if folder:
            update_left_out(folder, verdicts)
    under_carla = _under_carla(programs, towns, args.map, seed, args.json) if args.carla_model else None
    print(_json(verdicts, under_carla) if args.json else _report(programs, verdicts, under_carla, out))
    good = all(v.passed for v in verdicts.values()) and not any((under_carla or {}).values())
    return 0 if good else 1


# -- what is asked ---------------------------------------------------------------------------------------------------


def _checked(args: argparse.Namespace) -> Path | None:
    """The folder, or None for files; Ad2Error says what does not go together."""
    from lmms_eval_ad2.errors import Ad2Error

    for name in ("tries", "workers"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise Ad2Error(f"--{name} {getattr(args, name)}: 1 or more")
    for path in (*args.paths, *([args.map] if args.map else [])):
        if not path.exists():
            raise Ad2Error(f"{path}: no such file" + ("" if path.suffix else " or folder"))
    folders = [path for path in args.paths if path.is_dir()]
    if folders and not os.access(folders[0], os.W_OK):  # now, not after everything was driven
        raise Ad2Error(f"{folders[0]}: check.json cannot be written there; mend its permissions, or check a copy")
    for path in args.paths:
        if path.suffix != ".scenic" and path not in folders:
            raise Ad2Error(f"{path}: not a program; expected *.scenic, or a folder of them")
    if folders and len(args.paths) > 1:
        raise Ad2Error(f"{folders[0]}: a folder is checked alone; expected one folder, or programs")
    if args.route and args.map:
        raise Ad2Error("--route brings a map of its own; leave --map out")
    if folders and (args.route or args.map):
        raise Ad2Error("--route and --map are for single programs; those of a folder name their routes")
    return folders[0] if folders else None


def _asked(folder: Path | None, index: Mapping[str, Any]) -> dict[str, Any]:
    """What the folder was generated with; {} for one's own programs."""
    from lmms_eval_ad2.errors import DataError

    asked = index.get("asked")
    found = dict(asked) if isinstance(asked, dict) else {}
    if folder and type(found.get("seed", 0)) is not int:
        raise DataError(folder / "suite.json", None, "asked.seed", "a whole number", found["seed"])
    return found


def _of_folder(folder: Path, args: argparse.Namespace) -> list[ScenarioProgram]:
    from closedloop_plugin.suites.lookup import routes_of
    from closedloop_plugin.threats.check import programs_of

    return programs_of(folder, routes_of)


def _of_files(args: argparse.Namespace) -> list[ScenarioProgram]:
    from closedloop_plugin.suites.lookup import route_of
    from closedloop_plugin.threats.check import ScenarioProgram
    from lmms_eval_ad2.errors import Ad2Error

    found: dict[str, ScenarioProgram] = {}
    for file in args.paths:
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", file.stem)[:80]
        if name in found:
            raise Ad2Error(f"{file}: another program has the same name: {found[name].file}; check them one by one")
        try:
            route = route_of(file, args.route)
        except Ad2Error as exc:
            if args.route:  # not the program's fault
                raise
            found[name] = ScenarioProgram(name, file, problem=str(exc))
            continue
        if route is not None and args.map:
            raise Ad2Error(f"--map {args.map}: {file} names its route, which has a map of its own; leave --map out")
        found[name] = ScenarioProgram(name, file, replace(route, id=name) if route else None)
    return list(found.values())


def _home(args: argparse.Namespace) -> Path:
    """Drives of single programs: in the data home, the same place for the same files."""
    from closedloop_plugin.suites.lookup import data_home

    what = [*sorted(str(p.absolute()) for p in args.paths), args.agent, args.seed, args.world, args.profile]
    digest = hashlib.sha256("\n".join(map(str, what)).encode()).hexdigest()
    return data_home() / "checks" / f"{args.paths[0].stem[:40]}-{digest[:12]}"


# -- under CARLA's model ---------------------------------------------------------------------------------------------


def _under_carla(
    programs: Sequence[ScenarioProgram], towns: Mapping[str, Path], own_map: Path | None, seed: int, quiet: bool
) -> dict[str, str]:
    """ "" or what is wrong, by name: compiled and sampled without a server."""
    from tqdm import tqdm

    from closedloop_plugin.suites.lookup import data_home
    from closedloop_plugin.worlds.base import InvalidScene
    from lmms_eval_ad2.errors import Ad2Error

    found = {}
    for program in tqdm(programs, desc="CARLA's model", unit="scenario", disable=quiet):
        try:
            _compile_for_carla(program, towns, own_map, seed, data_home() / "maps")
            found[program.name] = ""
        except (Ad2Error, InvalidScene) as exc:
            found[program.name] = str(exc)
    return found


def _compile_for_carla(
    program: ScenarioProgram, towns: Mapping[str, Path], own_map: Path | None, seed: int, maps: Path
) -> None:
    from closedloop_plugin.maps.build import road_for
    from closedloop_plugin.worlds.base import EpisodeSetup
    from closedloop_plugin.worlds.bridge.compiled_scene import scene_for
    from closedloop_plugin.worlds.bridge.program_setup import params_for, program_of, stage_for
    from closedloop_plugin.worlds.bridge.session import close_running
    from lmms_eval_ad2.errors import Ad2Error

    if program.problem:
        raise Ad2Error(program.problem)
    route = program.route
    setup = EpisodeSetup(route, seed, program=program.file, town=towns.get(route.town) if route else own_map)
    layout, file = program_of(setup)
    road = road_for(route, layout, town=setup.town, folder=maps) if route else None
    params = params_for(setup, road, stage_for(setup, road))
    close_running()
    scene_for(file, "closedloop_plugin.carla.world.model", params, seed)


# -- what is printed -------------------------------------------------------------------------------------------------


def _json(verdicts: Mapping[str, ScenarioVerdict], under_carla: Mapping[str, str] | None) -> str:
    more = (
        {}
        if under_carla is None
        else {n: {"carla_model": not why, "carla_reason": why} for n, why in under_carla.items()}
    )
    return json.dumps({n: {**v.model_dump(), **more.get(n, {})} for n, v in verdicts.items()}, indent=1)


def _report(
    programs: Sequence[ScenarioProgram],
    verdicts: Mapping[str, ScenarioVerdict],
    under_carla: Mapping[str, str] | None,
    out: Path,
) -> str:
    """Table, reasons, counts."""
    head = ["scenario", "behaviour", "compiles", "runs", "acts", "survived", "verdict"]
    rows = [head if under_carla is None else [*head, "CARLA model"]]
    for p in programs:
        v = verdicts[p.name]
        row = [p.name, p.spec.behaviour.value if p.spec else "-", *map(_mark, (v.compiles, v.runs, v.acts))]
        row += [f"{v.survived}/{v.tries}", "passes" if v.passed else "FAILS"]
        rows.append(row if under_carla is None else [*row, "no" if under_carla[p.name] else "compiles"])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    failed = {n: v.reason for n, v in verdicts.items() if not v.passed}
    lines += ["", *(f"{name}: {reason}" for name, reason in failed.items())] if failed else []
    lines += [f"{name} under CARLA's model: {why}" for name, why in (under_carla or {}).items() if why]
    passed = len(verdicts) - len(failed)
    lines += ["", f"{passed} of {len(verdicts)} pass ({100 * passed / len(verdicts):.1f} %); drives: {out}"]
    return "\n".join(lines)


def _mark(holds: bool) -> str:
    return "yes" if holds else "no"
