"""Suites: named lists of routes. Route files of benchmarks are not shipped; users add them once to HOME/routes.

    demo              six short routes of this package (demo_routes.xml), to try everything out; not a benchmark
    embedded220       Bench2Drive's 220 routes in the embedded world; never reported as Bench2Drive scores
    bench2drive220    the same routes in CARLA
    embedded220v4     the 220 routes of Bench2Drive's set of version 0.0.4, in the embedded world
    bench2drive220v4  the same routes in CARLA
    fail2drive        Fail2Drive's 100 pairs of routes, in either world
    longest6          the 36 routes of Longest6 v2, in either world
    FILE              a route XML file; its stem is the name of the suite
    FOLDER            Scenic programs, each of which contains its route, see programs.py
    threats220_late   such a folder that is shipped, see shipped_threats.py

$AD2_BENCH2DRIVE_ROUTES may name the route file of embedded220 and bench2drive220.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from closedloop_plugin.core.routes import VALIDATION_SET, Route, joined_routes, read_route_file
from closedloop_plugin.scenarios.suites import programs
from closedloop_plugin.scenarios.suites.played_draws import PlayedDraw
from closedloop_plugin.scenarios.suites.shipped_threats import shipped_folder, shipped_names
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write_bytes, file_sha256

BENCH2DRIVE = "bench2drive220"
EMBEDDED = "embedded220"
VARIABLE = "AD2_BENCH2DRIVE_ROUTES"
DEMO = Path(__file__).with_name("demo_routes.xml")


@dataclass(frozen=True)
class NamedSuite:
    """A suite of a benchmark. stem: of its file in HOME/routes; given: file or folder of routes, from `source`; world:
    the only one in which it runs under this name, "" for any."""

    name: str
    stem: str
    given: str
    source: str
    world: str = ""

    @property
    def file(self) -> Path:
        """Its route file, which need not exist."""
        chosen = os.environ.get(VARIABLE) if self.stem == BENCH2DRIVE else None
        return Path(chosen) if chosen else routes_home() / f"{self.stem}.xml"

    @property
    def is_here(self) -> bool:
        return self.file.is_file()

    @property
    def how(self) -> str:
        """The command that adds its file."""
        own_name = Path(self.given).stem == self.stem
        return f"ad2 drive routes {self.given}" + ("" if own_name else f" --name {self.stem}")


_DATA = "github.com/Thinklab-SJTU/Bench2Drive, leaderboard/data/"
_B2D, _V4 = f"{BENCH2DRIVE}.xml", f"{VALIDATION_SET}.xml"
NAMED = {
    one.name: one
    for one in (
        NamedSuite(EMBEDDED, BENCH2DRIVE, _B2D, _DATA + _B2D, "embedded"),
        NamedSuite(BENCH2DRIVE, BENCH2DRIVE, _B2D, _DATA + _B2D, "carla"),
        NamedSuite("embedded220v4", VALIDATION_SET, _V4, _DATA + _V4, "embedded"),
        NamedSuite("bench2drive220v4", VALIDATION_SET, _V4, _DATA + _V4, "carla"),
        NamedSuite("fail2drive", "fail2drive", "DIR", "github.com/autonomousvision/fail2drive: DIR, its route files"),
        NamedSuite("longest6", "longest6", "DIR", "github.com/kesai-labs/lead: DIR, its files of Longest6 v2"),
    )
}
RESERVED = ("demo", *NAMED)  # not for folders of programs, nor for files of others


@dataclass(frozen=True)
class Suite:
    """Routes with a name, which is part of every record, and the hash of their file."""

    name: str
    routes: tuple[Route, ...]
    sha256: str
    programs: Mapping[str, Path] = field(default_factory=dict)  # route id -> program; empty: scenarios of the catalogue
    left_out: Mapping[str, str] = field(default_factory=dict)  # program -> reason for which it is excluded
    draws: Mapping[str, PlayedDraw] = field(default_factory=dict)  # route id -> draw that its check saw survived
    alone: bool = False  # its programs were generated to replace the standard scenarios of their routes

    @property
    def ids(self) -> list[str]:
        return [route.id for route in self.routes]


def suite(name: str, world: str | None = "embedded", *, argument: str = "--suite") -> Suite:
    """A suite by name, by the name of an added file, or from a route file or folder. Raises Ad2Error.

    `world`: backend in which it will run; None: only its routes are needed. `argument`: of the command, for errors.
    """
    if name == "demo":
        return _suite("demo", DEMO)
    if name in NAMED:
        _fits(NAMED[name], world)
        return _suite(name, _file_of(NAMED[name]))
    added = routes_home() / f"{name}.xml"
    if "/" not in name and added.is_file() and not Path(name).is_file():
        return _suite(name, added)
    file = Path(name)
    if "/" not in name and not file.exists():
        file = shipped_folder(name, data_home()) or file
    if file.is_dir():
        found = programs.read(file, routes_of)
        if found.name in RESERVED:
            raise Ad2Error(f"{file}: a folder of this name would be confused with another suite; rename it")
        return Suite(
            name=found.name, routes=found.routes, sha256=found.sha256, programs=found.programs,
            left_out=found.left_out, draws=found.draws, alone=found.alone,
        )  # fmt: skip
    if not file.is_file():
        known = sorted({*RESERVED, *shipped_names(), *(f.stem for f in routes_home().glob("*.xml"))})
        near = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean '{near[0]}'? " if near else ""
        what = "no such suite, route file or folder of programs"
        raise Ad2Error(f"{argument} {name}: {what}; {meant}suites: {', '.join(known)}")
    taken = NAMED.get(file.stem)
    if file.stem == "demo" or (taken and taken.stem != file.stem) or (taken and taken.world and taken.world != world):
        use = _in_world(taken, world).name if taken else "demo"
        raise Ad2Error(
            f"{file}: a file of this name would be confused with another suite; rename it, or use {argument} {use}"
        )
    return _suite(file.stem, file)


def routes_of(name: str) -> tuple[Route, ...]:
    """Routes of a suite by its name in a program; both names of Bench2Drive's sets are accepted in any world."""
    if name != "demo" and Path(name).is_dir():
        raise Ad2Error(f"{name} is a folder; expected a suite of routes, or a route file")
    return suite(name, None).routes


def route_of(program: Path, given: str | None = None) -> Route | None:
    """The route of a program, with the program's name as id: `given` ("SUITE:ID"), else from its line
    `param route = "SUITE:ID"`; None without both. Raises Ad2Error."""
    if given is None and programs.route_named(program) is None:
        return None
    return programs.route_of(program, routes_of, given)


def add_routes(file: Path, name: str | None = None) -> Path:
    """Check a route file, or the *.xml of a folder, and copy it to the data home as one file. Returns the new path.

    name: of the suite (default: the stem of the file, or the folder's name).
    """
    file = Path(file)
    name = name or (file.absolute().name if file.is_dir() else file.stem)
    plain = name.replace("_", "").replace("-", "").replace(".", "").isalnum() and not name.startswith(".")
    taken = name in RESERVED and (name == "demo" or NAMED[name].stem != name)
    if not plain or taken:
        raise Ad2Error(f"--name {name}: letters, digits, '_', '-' and '.' only, and not the name of a built-in suite")
    read_route_file(file)
    target = routes_home() / f"{name}.xml"
    atomic_write_bytes(target, joined_routes(file) if file.is_dir() else file.read_bytes())
    return target


def named_after(file: Path) -> str:
    """The name of the suite of a file in the data home, in the embedded world."""
    return next((one.name for one in NAMED.values() if one.stem == file.stem and one.world != "carla"), file.stem)


def data_home() -> Path:
    """HOME, by the same rule as lmms_eval_ad2.data.home.manifest, which this package may not import."""
    cache = os.environ.get("XDG_CACHE_HOME")
    given = os.environ.get("AD2_HOME") or (Path(cache) if cache else Path.home() / ".cache") / "lmms-eval-ad2"
    return Path(given).expanduser().absolute()


def routes_home() -> Path:
    return data_home() / "routes"


def _fits(named: NamedSuite, world: str | None) -> None:
    if world is None or named.world in ("", world) or (named.world == "carla" and world != "embedded"):
        return
    where = "CARLA" if named.world == "carla" else f"the {named.world} world"
    here = "in the embedded world" if world == "embedded" else f"with --world {world}"
    raise Ad2Error(f"--suite {named.name} is for {where}; {here} use --suite {_in_world(named, world).name}")


def _in_world(named: NamedSuite, world: str | None) -> NamedSuite:
    """The suite of the same routes in that world."""
    wanted = "embedded" if world in (None, "embedded") else "carla"
    return next((one for one in NAMED.values() if one.stem == named.stem and one.world in ("", wanted)), named)


def _file_of(named: NamedSuite) -> Path:
    file = named.file
    if not named.is_here:
        variable = f" (or set {VARIABLE} to the file)" if named.stem == BENCH2DRIVE else ""
        raise Ad2Error(
            f"{file}: the routes of {named.name} are not here, and not shipped. Get them from {named.source}, then: "
            f"{named.how}{variable}"
        )
    return file


def _suite(name: str, file: Path) -> Suite:
    found = read_route_file(file)
    return Suite(name, tuple(found.routes), file_sha256(file), left_out=found.left_out)
