"""Routes of a drive: those of a suite, of a folder of programs, or one program; and which of them can be driven.

A fault of a route, a map or a program is never a driver's 0: such a route is refused before the drive, or left out by
name and out of every mean.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.routes import Route, select
from closedloop_plugin.maps.build import plan_for
from closedloop_plugin.maps.towns.lanes import LaneNetwork, read_town
from closedloop_plugin.maps.towns.route_trace import trace
from closedloop_plugin.runner.assemble import RouteSelection
from closedloop_plugin.runner.options import DriveRunOptions, ProgramOptions
from closedloop_plugin.scenarios.staging import staging, undrivable
from closedloop_plugin.scenarios.suites.lookup import Suite, route_of, suite
from closedloop_plugin.scenarios.suites.played_draws import PlayedDraw
from closedloop_plugin.scenarios.suites.programs import route_named, sha_of
from closedloop_plugin.worlds.recipes import WORLDS
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.report.table import few
from lmms_eval_ad2.storage.files import file_sha256
from lmms_eval_ad2.storage.identity import code_label

LONG_M = 500.0  # a route that is longer is seldom driven in the 125 s of bench2advlm


OWN_WORLDS = ("embedded", "carla")  # others may play their own scenarios


def suite_subject(options: DriveRunOptions, name: str) -> RouteSelection:
    """Return the routes of the suite `name`."""
    found = drivable(suite(name, options.world), options.world)
    routes = select_routes(found, name, routes_ids=options.routes_ids, limit=options.limit)
    towns = towns_of(options.towns, found.routes, routes)
    if options.world == "embedded":
        found = without(found, check_mapped(name, routes, towns, options.skip_unmapped))
        routes = tuple(route for route in routes if route.id not in found.left_out)
    for given, option in ((options.alone, "--config alone"), (options.fresh_draws, "--config fresh_draws")):
        if given and not found.programs:
            raise Ad2Error(f"{option}: {name} has routes of the catalogue, not programs; omit it")
    alone = options.alone or found.alone
    draws = {} if options.fresh_draws else {n: d for n, d in found.draws.items() if d.alone == alone}
    notes = (
        *left_out_note(found),
        *_long_note(options, routes),
        *_draw_notes(options, found, [r.id for r in routes], draws),
    )
    return RouteSelection(
        name=found.name,
        sha256=found.sha256,
        all_ids=found.ids,
        routes=routes,
        programs=found.programs,
        towns=towns,
        repetitions=options.fresh_draws or options.repetitions,
        shard=options.shard,
        alone=alone,
        draws={route: draw.seed for route, draw in (found.draws if options.fresh_draws else draws).items()},
        fresh=bool(options.fresh_draws),
        left_out=found.left_out,
        not_played=not_played(routes, towns, options.world),
        notes=notes,
        drawn={route: draw.drawn for route, draw in draws.items()},
    )


def _long_note(options: DriveRunOptions, routes: Sequence[Route]) -> tuple[str, ...]:
    """One line on long routes under a profile that ends them early."""
    limit_s = profile(options.profile).max_ticks / profile(options.profile).hz
    long = [route.id for route in routes if route.length > LONG_M]
    if not long or limit_s > 1000:
        return ()
    return (
        f"{len(long)} routes are longer than {LONG_M:g} m, and {options.profile} ends each after {limit_s:g} s: "
        "--profile longest6 or leaderboard-2.0 has no such limit",
    )


def _draw_notes(
    options: DriveRunOptions, found: Suite, ids: Sequence[str], draws: Mapping[str, PlayedDraw]
) -> tuple[str, ...]:
    """Lines on which draws of the programs are played, and whether they are those of the check."""
    if not found.programs:
        return ()
    if options.fresh_draws:
        return (f"fresh draws: {options.fresh_draws} of each scenario, not those of its check",)
    unchecked = [i for i in ids if i not in draws]
    played = [draws[i] for i in ids if i in draws]
    notes = []
    if played:
        notes.append(f"played: the draw that the check saw survived, in {len(played)} of {len(ids)} scenarios")
    if unchecked:
        named = ", ".join(unchecked[:5]) + (f" and {len(unchecked) - 5} more" if len(unchecked) > 5 else "")
        how = "alone" if options.alone or found.alone else "on top of the standard scenario"
        notes.append(f"not checked, or changed since, {how}: {named}; drawn with --seed {options.seed}")
    names = {target: name for name, target in WORLDS.items()}  # of the worlds in the identity of a check
    profiles = sorted({draw.profile for draw in played} - {options.profile})
    worlds = sorted({names.get(draw.world, draw.world) for draw in played} - {options.world})
    versions = sorted({draw.version for draw in played} - {code_label()})
    settings = (
        ("profile", profiles, options.profile), ("world", worlds, options.world), ("version", versions, code_label())
    )  # fmt: skip
    for what, there, here in settings:
        if there:
            notes.append(
                f"checked with another {what}: {', '.join(there)}, not {here}; survival there proves none here"
            )
    if options.no_traffic and played:
        notes.append("checked with background traffic, driven without")
    return tuple(notes)


def select_routes(found: Suite, name: str, *, routes_ids: str | None, limit: int | None) -> tuple[Route, ...]:
    """Return the routes of a suite that --routes-ids and --limit select; `name`: the user's name of the suite."""
    routes = found.routes
    if routes_ids is not None:
        ids = list(dict.fromkeys(i.strip() for i in routes_ids.split(",") if i.strip()))
        if not ids:
            raise Ad2Error(f"--routes-ids {routes_ids!r}: expected ids separated by commas, such as {found.ids[0]}")
        left = next((i for i in ids if i in found.left_out), None)
        if left is not None:
            raise Ad2Error(f"--routes-ids {left}: left out of {name}: {found.left_out[left]}")
        routes = tuple(select(routes, ids))
    return routes[:limit]


def left_out_note(found: Suite, most: int = 5) -> tuple[str, ...]:
    """One line on the routes of a file or programs of a folder that are not driven; empty if there are none."""
    if not found.left_out:
        return ()
    named = [f"{name} ({reason})" for name, reason in list(found.left_out.items())[:most]]
    what, where = ("scenarios", ", see suite.json") if found.programs else ("routes", "")
    more = f" and {len(found.left_out) - most} more{where}" if len(found.left_out) > most else ""
    total = len(found.left_out) + len(found.routes)
    return (f"left out, {len(found.left_out)} of {total} {what}: {', '.join(named)}{more}",)


def program_subject(options: ProgramOptions, file: Path) -> RouteSelection:
    """Return a user's program, on a route of a suite or on its own map (then without a route)."""
    for option, path in (("--scenario", file), ("--map", options.map)):
        if path is not None and not path.is_file():
            raise Ad2Error(f"{option} {path}: no such file")
    route = route_of(file, options.route)
    without = ("routes_ids", "limit") if route else ("towns", "routes_ids", "limit")
    beside = [f"--{name.replace('_', '-')}" for name in without if getattr(options, name)]
    if beside:
        raise Ad2Error(f"{', '.join(beside)}: only for --suite; a program is one episode")
    # The prefix distinguishes a program from a benchmark suite of the same name.
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", file.stem)[:80]
    subject = RouteSelection(
        name=f"program {name}",
        sha256=sha_of(file, route) if route else file_sha256(file),
        all_ids=[name],
        values=values_of(options.set),
        repetitions=options.repetitions,
        shard=options.shard,
        alone=options.alone,
    )
    if route is None:
        if options.alone:
            raise Ad2Error("--config alone=true: the program has no route, and so no standard scenario; omit it")
        own_map = options.map.absolute() if options.map else None
        return replace(subject, program=file.absolute(), map=own_map)
    named = options.route or ":".join(route_named(file) or ())
    if options.map:
        raise Ad2Error(f"--map {options.map}: {file} is played on route {named}, which has its own map; omit --map")
    routes = (replace(route, id=name),)
    towns = towns_of(options.towns, routes, routes)
    notes = (f"a custom program on route {named}: not a benchmark",)
    return replace(subject, routes=routes, programs={name: file.absolute()}, towns=towns, notes=notes)


def values_of(given: Sequence[str] | None) -> dict[str, Any]:
    """Parse --set NAME=VALUE ...: numbers, true and false, else text; raises Ad2Error for another form."""
    found: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (equals and name.isidentifier() and value):
            raise Ad2Error(f"--set {text}: expected NAME=VALUE, as in --set ahead=25")
        if name in found:
            raise Ad2Error(f"--set {name}: given twice")
        found[name] = _value(text, value)
    return found


def _value(text: str, value: str) -> Any:
    if value in ("true", "false"):
        return value == "true"
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        if not math.isfinite(number):
            raise Ad2Error(f"--set {text}: expected a finite number")
        return number
    return value


def towns_of(folder: Path | None, every: Sequence[Route], selected: Sequence[Route]) -> Mapping[str, Path]:
    """Return the existing OpenDRIVE files by town. Other towns get corridor maps; each record contains its map.

    `every`: all routes of the suite, since the files belong to the run's identity and the selection does not.
    A file is FOLDER/<town>.xodr, or where CARLA has it below its Content/Carla/Maps.
    """
    if folder is None:
        return {}
    if not folder.is_dir():
        raise Ad2Error(f"--towns {folder}: no such folder")
    towns = {town: _town_file(folder, town) for town in sorted({r.town for r in every})}
    found = {town: file.absolute() for town, file in towns.items() if file is not None}
    wanted = sorted({r.town for r in selected})
    if not found.keys() & set(wanted):
        raise Ad2Error(f"--towns {folder}: no map of these routes' towns; expected {wanted[0]}.xodr, ...")
    return found


def _town_file(folder: Path, town: str) -> Path | None:
    name = f"{town}.xodr"
    if Path(name).name != name:  # a route file's town that leads out of the folder
        return None
    places = (folder / name, folder / "OpenDrive" / name, folder / town / "OpenDrive" / name)
    return next((file for file in places if file.is_file()), None)


def drivable(found: Suite, world: str) -> Suite:
    """The suite without routes of which a scenario cannot be read. Raises Ad2Error if none is left."""
    if found.programs or world not in OWN_WORLDS:
        return found
    faults = {route.id: reason for route in found.routes if (reason := undrivable(route))}
    if len(faults) == len(found.routes):
        first, reason = next(iter(faults.items()))
        raise Ad2Error(f"{found.name}: no route can be driven; route {first}: {reason}")
    return without(found, faults)


def without(found: Suite, left_out: Mapping[str, str]) -> Suite:
    """The suite without these routes. left_out: reasons by id."""
    routes = tuple(route for route in found.routes if route.id not in left_out)
    return replace(found, routes=routes, left_out={**found.left_out, **left_out}) if left_out else found


def unmapped(routes: Sequence[Route], towns: Mapping[str, Path]) -> dict[str, str]:
    """Reasons of the routes that have no map in the embedded world. `towns`: OpenDRIVE files by town."""
    networks: dict[Path, LaneNetwork] = {}
    found = {}
    for route in routes:
        file = towns.get(route.town)
        try:
            if file is None:
                plan_for(route, staging(route, in_town=False).layout)
                continue
            if file not in networks:
                networks[file] = read_town(file)
            trace(route, networks[file], file)
        except Ad2Error as exc:
            found[route.id] = str(exc)
    return found


def check_mapped(name: str, routes: Sequence[Route], towns: Mapping[str, Path], skip: bool) -> dict[str, str]:
    """The routes without a map, to be left out with `skip`. Raises Ad2Error for them without it, or if none is left.

    name: of the suite.
    """
    found = unmapped(routes, towns)
    if not found or (skip and len(found) < len(routes)):
        return found
    some = f"{len(found)} of {len(routes)} routes have no map: {few(list(found), 5)}. " if len(found) > 1 else ""
    way = "--config skip_unmapped=true (under lmms-eval AD2_DRIVE_SKIP_UNMAPPED=1)"
    rest = f"; to drive the others: {way}" if len(found) < len(routes) else ""
    raise Ad2Error(f"{name}: {some}{next(iter(found.values()))}{rest}")


def not_played(routes: Sequence[Route], towns: Mapping[str, Path], world: str) -> dict[str, dict[str, str]]:
    """Reasons by route id and name of the scenarios that are not played; a town's map may leave out more."""
    found = {}
    for route in routes if world in OWN_WORLDS else ():
        left = staging(route, in_town=world == "carla" or route.town in towns).left
        if left:
            found[route.id] = dict(left)
    return found
