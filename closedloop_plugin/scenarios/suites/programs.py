"""A folder of Scenic programs as a suite: generated threats, or a user's scenarios.

    FOLDER/*.scenic, or FOLDER/scenarios/*.scenic     one episode each, named by the file's stem
    param route = "SUITE:ID"                          in each program: its route (demo:101, mine.xml:7)
    FOLDER/suite.json                                 optional; written by `ad2 threats generate` and `check`:
        name, base_file, finished (False: must not be run yet), left_out {stem: reason}
    FOLDER/check.json                                 optional; written by the check: the played draws, played_draws.py

The line with the route is read as text; programs are not executed here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from closedloop_plugin.core.routes import Route, read_routes, select
from closedloop_plugin.scenarios.suites.played_draws import PlayedDraw, json_object, played_draws
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.storage.files import file_sha256

INDEX = "suite.json"
_NAMED = r"(?P<suite>[^\"'\s:]{1,200}):(?P<id>[A-Za-z0-9_.-]{1,80})"
_ROUTE = re.compile(rf"""^param\s+route\s*=\s*(["']){_NAMED}\1[ \t\r]*(#.*)?$""", re.M)
_STEM = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_LONGEST = 200_000  # bytes of a program


def programs_in(folder: Path) -> list[Path]:
    """The programs of a folder, sorted by name; numeric names by value."""
    found = (f for f in (*folder.glob("*.scenic"), *(folder / "scenarios").glob("*.scenic")) if f.is_file())
    files = sorted(found, key=lambda f: _order(f.stem))
    wrong = next((f for f in files if not _STEM.fullmatch(f.stem)), None)
    if wrong is not None:
        raise Ad2Error(f"{wrong}: its name becomes that of the episode; letters, digits, '_', '-' and '.' only")
    return files


def named_programs(folder: Path) -> dict[str, Path]:
    """The programs by name. Raises Ad2Error if there is none, or if names are not unique."""
    found: dict[str, Path] = {}
    for file in programs_in(folder):
        if file.stem in found:
            raise Ad2Error(f"{file}: another program of the folder has the same name: {found[file.stem]}")
        found[file.stem] = file
    if not found:
        raise Ad2Error(f"{folder}: no scenario programs there (*.scenic, or scenarios/*.scenic)")
    return found


def _order(stem: str) -> tuple[int, str]:
    return (int(stem), stem) if stem.isdecimal() else (10**12, stem)


def route_named(program: Path) -> tuple[str, str] | None:
    """(suite, route id) of the program's `param route = "SUITE:ID"`; None without such a line."""
    content = program.read_bytes()
    if len(content) > _LONGEST:
        raise Ad2Error(f"{program}: {len(content)} bytes; a scenario program has {_LONGEST} at most")
    found = {(m["suite"], m["id"]) for m in _ROUTE.finditer(content.decode("utf-8-sig", errors="replace"))}
    if len(found) > 1:
        named = " and ".join(sorted(f"{suite}:{route_id}" for suite, route_id in found))
        raise Ad2Error(f"{program}: names two routes, {named}; expected one line param route = ...")
    return next(iter(found), None)


def route_of(program: Path, routes_of: Callable[[str], tuple[Route, ...]], given: str | None = None) -> Route:
    """The route of a program, with the program's name as id. Raises Ad2Error, which shows the expected line.

    given: "SUITE:ID" instead of the program's line. A suite "FILE.xml" may be next to the program.
    """
    if given is None:
        named = route_named(program)
    else:
        match = re.fullmatch(_NAMED, given)
        if match is None:
            raise Ad2Error(f"--route {given}: expected SUITE:ID, as in demo:101")
        named = match["suite"], match["id"]
    if named is None:
        raise Ad2Error(
            f'{program}: names no route; it needs a line like: param route = "demo:101" (a suite and a route\'s id)'
        )
    suite, route_id = named
    beside = program.parent / suite
    try:
        routes = routes_of(str(beside) if suite.endswith(".xml") and beside.is_file() else suite)
        return replace(select(routes, [route_id])[0], id=program.stem)
    except Ad2Error as exc:
        text = program.read_text("utf-8-sig", errors="replace") if given is None else ""
        line = f", line {text.count(chr(10), 0, found.start()) + 1}" if (found := _ROUTE.search(text)) else ""
        raise Ad2Error(f"{program}{line}: route {suite}:{route_id}: {exc}") from exc


def index_of(folder: Path) -> dict[str, Any]:
    """suite.json, {} without one."""
    file = folder / INDEX
    found = json_object(file, "a JSON object")
    left_out = found.get("left_out", {})
    if not isinstance(left_out, dict) or not all(isinstance(v, str) for v in left_out.values()):
        raise DataError(file, None, "left_out", "an object of reasons by name", left_out)
    return found


@dataclass(frozen=True)
class ProgramFolder:
    """Content of a folder. `sha256`: of all programs that are run, and of their played draws; `left_out`: reasons for
    excluded programs; `draws`: of the checked programs."""

    name: str
    routes: tuple[Route, ...]
    programs: Mapping[str, Path]
    left_out: Mapping[str, str]
    sha256: str
    draws: Mapping[str, PlayedDraw]
    alone: bool  # generated to replace the standard scenarios


def read(folder: Path, routes_of: Callable[[str], tuple[Route, ...]]) -> ProgramFolder:
    """The folder's programs with their routes. Raises Ad2Error with the file concerned."""
    index = index_of(folder)
    if index and not index.get("finished", True):
        raise Ad2Error(f"{folder}: not finished; run the same `ad2 threats generate` again, it continues from there")
    left_out: Mapping[str, str] = index.get("left_out", {})
    files = {name: file for name, file in named_programs(folder).items() if name not in left_out}
    draws = played_draws(folder, {name: file_sha256(file) for name, file in files.items()})
    routes_by = routes_for(folder, index, routes_of)
    routes, digest = [], hashlib.sha256()
    for name, file in files.items():
        route = route_of(file, routes_by)
        routes.append(route)
        digest.update(sha_of(file, route).encode())
        if name in draws:
            digest.update(str(draws[name].seed).encode())
    if not routes:
        raise Ad2Error(f"{folder}: every scenario is excluded (see {INDEX}); nothing to run")
    programs = {name: file.absolute() for name, file in files.items()}
    return ProgramFolder(
        name=_name(folder, index), routes=tuple(routes), programs=programs, left_out=dict(left_out),
        sha256=digest.hexdigest(), draws=draws, alone=made_alone(index),
    )  # fmt: skip


def made_alone(index: Mapping[str, Any]) -> bool:
    """Whether suite.json says that its programs replace the standard scenarios of their routes."""
    asked = index.get("asked")
    return isinstance(asked, dict) and asked.get("alone") is True


def sha_of(program: Path, route: Route) -> str:
    """Hash of everything that a program's episodes depend on: text, name and route."""
    return hashlib.sha256(f"{file_sha256(program)} {replace(route, suite='')}".encode()).hexdigest()


def _name(folder: Path, index: Mapping[str, Any]) -> str:
    """Name of the suite in records: from suite.json, else the folder's name."""
    name = index.get("name") or folder.absolute().name
    if not isinstance(name, str) or not 0 < len(name) <= 80 or not name.isprintable():
        raise DataError(folder / INDEX, None, "name", "a name of up to 80 printable characters", name)
    return name


def routes_for(
    folder: Path, index: Mapping[str, Any], routes_of: Callable[[str], tuple[Route, ...]]
) -> Callable[[str], tuple[Route, ...]]:
    """`routes_of` for the programs of one folder: reads each suite once, and adds the base_file of suite.json."""
    known: dict[str, tuple[Route, ...]] = {}
    if index.get("base_file"):
        base = folder / str(index["base_file"])
        known[base.stem] = tuple(read_routes(base))

    def routes(name: str) -> tuple[Route, ...]:
        if name not in known:
            known[name] = routes_of(name)
        return known[name]

    return routes
