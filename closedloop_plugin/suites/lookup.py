"""Suites: named lists of routes. The licence of Bench2Drive's route file forbids shipping it; users add it once.

    demo              six short routes of this package (demo_routes.xml), to try everything out; not a benchmark
    embedded220       Bench2Drive's 220 routes in the embedded world; never reported as Bench2Drive scores
    bench2drive220    the same routes in CARLA
    FILE              a route XML file; its stem is the name of the suite
    FOLDER            Scenic programs, each of which contains its route, see programs.py
    threats220_late   such a folder that is shipped, see shipped_threats.py

Route file of embedded220 and bench2drive220: $AD2_BENCH2DRIVE_ROUTES, else HOME/routes/bench2drive220.xml.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from closedloop_plugin.core.routes import Route, read_routes
from closedloop_plugin.suites import programs
from closedloop_plugin.suites.played_draws import PlayedDraw
from closedloop_plugin.suites.shipped_threats import shipped_folder, shipped_names
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write_bytes, file_sha256

BENCH2DRIVE = "bench2drive220"
EMBEDDED = "embedded220"
VARIABLE = "AD2_BENCH2DRIVE_ROUTES"
SOURCE = "github.com/Thinklab-SJTU/Bench2Drive, leaderboard/data/bench2drive220.xml"
DEMO = Path(__file__).with_name("demo_routes.xml")


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
    if name in (EMBEDDED, BENCH2DRIVE):
        _fits(name, world)
        return _suite(name, _bench2drive())
    added = routes_home() / f"{name}.xml"
    if "/" not in name and added.is_file() and not Path(name).is_file():
        return _suite(name, added)
    file = Path(name)
    if "/" not in name and not file.exists():
        file = shipped_folder(name, data_home()) or file
    if file.is_dir():
        found = programs.read(file, routes_of)
        if found.name in ("demo", EMBEDDED, BENCH2DRIVE):
            raise Ad2Error(f"{file}: a folder of this name would be confused with another suite; rename it")
        return Suite(
            name=found.name, routes=found.routes, sha256=found.sha256, programs=found.programs,
            left_out=found.left_out, draws=found.draws, alone=found.alone,
        )  # fmt: skip
    if not file.is_file():
        added_names = (f.stem for f in routes_home().glob("*.xml"))
        known = sorted({"demo", EMBEDDED, BENCH2DRIVE, *shipped_names(), *added_names})
        near = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean '{near[0]}'? " if near else ""
        what = "no such suite, route file or folder of programs"
        raise Ad2Error(f"{argument} {name}: {what}; {meant}suites: {', '.join(known)}")
    if file.stem in ("demo", EMBEDDED) or (file.stem == BENCH2DRIVE and world == "embedded"):
        raise Ad2Error(
            f"{file}: a file of this name would be confused with another suite; rename it, or use {argument} {EMBEDDED}"
        )
    return _suite(file.stem, file)


def routes_of(name: str) -> tuple[Route, ...]:
    """Routes of a suite by its name in a program; both names of Bench2Drive are accepted in any world."""
    if name != "demo" and Path(name).is_dir():
        raise Ad2Error(f"{name} is a folder; expected a suite of routes, or a route file")
    return suite(EMBEDDED if name == BENCH2DRIVE else name, None).routes


def route_of(program: Path, given: str | None = None) -> Route | None:
    """The route of a program, with the program's name as id: `given` ("SUITE:ID"), else from its line
    `param route = "SUITE:ID"`; None without both. Raises Ad2Error."""
    if given is None and programs.route_named(program) is None:
        return None
    return programs.route_of(program, routes_of, given)


def add_routes(file: Path, name: str | None = None) -> Path:
    """Check a route file and copy it to the data home as `name` (default: its stem). Returns the new path."""
    name = name or Path(file).stem
    plain = name.replace("_", "").replace("-", "").replace(".", "").isalnum() and not name.startswith(".")
    if not plain or name in ("demo", EMBEDDED):
        raise Ad2Error(f"--name {name}: letters, digits, '_', '-' and '.' only, and not the name of a built-in suite")
    if Path(file).is_dir():
        raise Ad2Error(f"{file}: a folder; add its route files one by one (ad2 drive score --routes takes folders)")
    read_routes(file)
    target = routes_home() / f"{name}.xml"
    atomic_write_bytes(target, Path(file).read_bytes())
    return target


def data_home() -> Path:
    """HOME, by the same rule as lmms_eval_ad2.data.home.location, which this package may not import."""
    cache = os.environ.get("XDG_CACHE_HOME")
    given = os.environ.get("AD2_HOME") or (Path(cache) if cache else Path.home() / ".cache") / "lmms-eval-ad2"
    return Path(given).expanduser().absolute()


def routes_home() -> Path:
    return data_home() / "routes"


def _fits(name: str, world: str | None) -> None:
    if world is None:
        return
    if name == BENCH2DRIVE and world == "embedded":
        raise Ad2Error(f"--suite {BENCH2DRIVE} is for CARLA; in the embedded world use --suite {EMBEDDED}")
    if name == EMBEDDED and world != "embedded":
        raise Ad2Error(f"--suite {EMBEDDED} is for the embedded world; with --world {world} use --suite {BENCH2DRIVE}")


def _bench2drive() -> Path:
    given = os.environ.get(VARIABLE)
    file = Path(given) if given else routes_home() / f"{BENCH2DRIVE}.xml"
    if not file.is_file():
        raise Ad2Error(
            f"{file}: Bench2Drive's route file is missing (its licence forbids shipping it). Get it from {SOURCE}, "
            f"then: ad2 drive routes add bench2drive220.xml (or set {VARIABLE} to the file)"
        )
    return file


def _suite(name: str, file: Path) -> Suite:
    return Suite(name, tuple(read_routes(file)), file_sha256(file))
