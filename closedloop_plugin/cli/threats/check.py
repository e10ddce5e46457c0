"""`ad2 threats check`: does each scenario compile, run and act, and can it be survived? A table with reasons."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.cli.drive.world import WorldOptions
from lmms_eval_ad2.options import add_command, option

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


@dataclass(frozen=True, kw_only=True)
class ThreatCheckOptions(WorldOptions):
    """`ad2 threats check`."""

    paths: tuple[Path, ...] = option("a folder of programs, or programs", metavar="DIR|FILE.scenic", positional=True)
    route: str | None = option(
        "for FILE: the route it is played on, instead of the one it names", default=None, metavar="SUITE:ID"
    )
    map: Path | None = option("for FILE without a route: the map it is played on", default=None, metavar="F.xodr")
    towns: Path | None = option("OpenDRIVE files <town>.xodr, instead of corridor maps", default=None, metavar="DIR")
    agent: str = option("the reference driver: a built-in one (default expert)", default="expert", metavar="SPEC")
    tries: int = option("draws of a scenario at most (default 4)", default=4, metavar="N", least=1)
    seed: int | None = option("of the draws (default: the suite's, else 0)", default=None, metavar="S")
    profile: str | None = option("rules (default: the suite's, else bench2advlm)", default=None, metavar="NAME")
    workers: int | None = option("worlds side by side (default 1)", default=None, metavar="W", least=1)
    out: Path | None = option("where the drives are kept (default: DIR/check)", default=None, metavar="RUN")
    retry_failed: bool = option("try those again whose world failed", default=False)
    carla_model: bool = option("compile each under Scenic's CARLA model too (no server)", default=False)
    json: bool = option("print the verdicts as JSON, and nothing else", default=False)


def register(parts: Any) -> None:
    add_command(
        parts,
        "check",
        run,
        ThreatCheckOptions,
        help="compile and drive scenarios: do they act, can they be survived?",
        description="Drive every scenario with a reference driver; print what is wrong with each that is unsound.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run(options: ThreatCheckOptions) -> int:
    from closedloop_plugin.cli.drive.selection import towns_of
    from closedloop_plugin.cli.drive.world import world_of
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.suites.programs import index_of
    from closedloop_plugin.threats.check import check
    from closedloop_plugin.threats.verdict_files import update_left_out, write_verdicts
    from lmms_eval_ad2.errors import require
    from lmms_eval_ad2.storage.lock import lock_folder

    folder = _checked(options)
    if options.carla_model:
        require("carla", "its Scenic model")
    programs = _of_folder(folder, options) if folder else _of_files(options)
    index = index_of(folder) if folder else {}
    asked = _asked(folder, index)
    seed = asked.get("seed", 0) if options.seed is None else options.seed
    rules = profile(options.profile or str(asked.get("profile", "bench2advlm")))
    out = options.out or (folder / "check" if folder else _home(options))
    routes = [p.route for p in programs if p.route]
    towns = towns_of(options.towns, routes, routes)
    world, workers = world_of(options, options.workers)
    # The lock of `generate`: it, too, writes the verdicts and suite.json.
    with lock_folder(folder) if index else nullcontext():  # type: ignore[arg-type]
        verdicts = check(
            programs, out, world=world, judge=options.agent, tries=options.tries, workers=workers,
            seed=seed, profile=rules, towns=towns, quiet=options.json, map=options.map,
            retry_failed=options.retry_failed,
        )  # fmt: skip
        write_verdicts(folder or out, verdicts, out, [p.file for p in programs])
        if folder:
            update_left_out(folder, verdicts)
    under_carla = _under_carla(programs, towns, options.map, seed, options.json) if options.carla_model else None
    print(_json(verdicts, under_carla) if options.json else _report(programs, verdicts, under_carla, out))
    good = all(v.passed for v in verdicts.values()) and not any((under_carla or {}).values())
    return 0 if good else 1


# -- what is asked ---------------------------------------------------------------------------------------------------


def _checked(options: ThreatCheckOptions) -> Path | None:
    """The folder, or None for files; Ad2Error says what does not go together."""
    from lmms_eval_ad2.errors import Ad2Error

    for path in (*options.paths, *([options.map] if options.map else [])):
        if not path.exists():
            raise Ad2Error(f"{path}: no such file" + ("" if path.suffix else " or folder"))
    folders = [path for path in options.paths if path.is_dir()]
    if folders and not os.access(folders[0], os.W_OK):  # now, not after everything was driven
        raise Ad2Error(f"{folders[0]}: check.json cannot be written there; mend its permissions, or check a copy")
    for path in options.paths:
        if path.suffix != ".scenic" and path not in folders:
            raise Ad2Error(f"{path}: not a program; expected *.scenic, or a folder of them")
    if folders and len(options.paths) > 1:
        raise Ad2Error(f"{folders[0]}: a folder is checked alone; expected one folder, or programs")
    if options.route and options.map:
        raise Ad2Error("--route brings a map of its own; leave --map out")
    if folders and (options.route or options.map):
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


def _of_folder(folder: Path, options: ThreatCheckOptions) -> list[ScenarioProgram]:
    from closedloop_plugin.suites.lookup import routes_of
    from closedloop_plugin.threats.check import programs_of

    return programs_of(folder, routes_of)


def _of_files(options: ThreatCheckOptions) -> list[ScenarioProgram]:
    from closedloop_plugin.suites.lookup import route_of
    from closedloop_plugin.threats.check import ScenarioProgram
    from lmms_eval_ad2.errors import Ad2Error

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
            raise Ad2Error(f"--map {options.map}: {file} names its route, which has a map of its own; leave --map out")
        found[name] = ScenarioProgram(name, file, replace(route, id=name) if route else None)
    return list(found.values())


def _home(options: ThreatCheckOptions) -> Path:
    """Drives of single programs: in the data home, the same place for the same files."""
    from closedloop_plugin.suites.lookup import data_home

    what = [
        *sorted(str(p.absolute()) for p in options.paths),
        options.agent,
        options.seed,
        options.world,
        options.profile,
    ]
    digest = hashlib.sha256("\n".join(map(str, what)).encode()).hexdigest()
    return data_home() / "checks" / f"{options.paths[0].stem[:40]}-{digest[:12]}"


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
    from lmms_eval_ad2.report.text_table import TextTable

    headers = ["scenario", "behaviour", "compiles", "runs", "acts", "survived", "verdict"]
    if under_carla is not None:
        headers.append("CARLA model")
    rows = []
    for p in programs:
        v = verdicts[p.name]
        row = [p.name, p.spec.behaviour.value if p.spec else "-", *map(_mark, (v.compiles, v.runs, v.acts))]
        row += [f"{v.survived}/{v.tries}", "passes" if v.passed else "FAILS"]
        rows.append(row if under_carla is None else [*row, "no" if under_carla[p.name] else "compiles"])
    lines = [TextTable(headers, rows).plain()]
    failed = {n: v.reason for n, v in verdicts.items() if not v.passed}
    lines += ["", *(f"{name}: {reason}" for name, reason in failed.items())] if failed else []
    lines += [f"{name} under CARLA's model: {why}" for name, why in (under_carla or {}).items() if why]
    passed = len(verdicts) - len(failed)
    lines += ["", f"{passed} of {len(verdicts)} pass ({100 * passed / len(verdicts):.1f} %); drives: {out}"]
    return "\n".join(lines)


def _mark(holds: bool) -> str:
    return "yes" if holds else "no"
