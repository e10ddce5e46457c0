"""Suites: named lists of routes. Bench2Drive's route file is not ours to ship, so a user puts it in place once.

    demo              six short routes of our own (demo_routes.xml): everything runs, nothing is measured
    embedded220       Bench2Drive's 220 routes in the embedded world: never printed as Bench2Drive's own scores
    bench2drive220    the same routes, in CARLA
    FILE              any route XML; the suite is named by its stem
    FOLDER            Scenic programs, each of which names its route: programs.py

The route file of the two in the middle: $AD2_BENCH2DRIVE_ROUTES, else HOME/routes/bench2drive220.xml.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as File

from closedloop_plugin.core.routes import Route, read_routes, sha256
from closedloop_plugin.suites import programs
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write

BENCH2DRIVE = "bench2drive220"
EMBEDDED = "embedded220"
VARIABLE = "AD2_BENCH2DRIVE_ROUTES"
SOURCE = "github.com/Thinklab-SJTU/Bench2Drive, leaderboard/data/bench2drive220.xml"
DEMO = File(__file__).with_name("demo_routes.xml")


@dataclass(frozen=True)
class Suite:
    """A name that stands in every record, its routes, and the hash of the file that they came from."""

    name: str
    routes: tuple[Route, ...]
    sha256: str
    programs: Mapping[str, File] = field(default_factory=dict)  # route id -> its program; {}: by the catalogue
    left_out: Mapping[str, str] = field(default_factory=dict)  # program -> why it is not driven

    @property
    def ids(self) -> list[str]:
        return [route.id for route in self.routes]


def suite(name: str, world: str | None = "embedded") -> Suite:
    """By name, by the name of an added file, or from a route file.

    `world`: the backend it is to run in; None: it is not to run, only its routes are asked for.
    """
    if name == "demo":
        return _suite("demo", DEMO)
    if name in (EMBEDDED, BENCH2DRIVE):
        _fits(name, world)
        return _suite(name, _bench2drive())
    added = routes_home() / f"{name}.xml"
    if "/" not in name and added.is_file() and not File(name).is_file():
        return _suite(name, added)
    file = File(name)
    if file.is_dir():
        found = programs.read(file, routes_of)
        if found.name in ("demo", EMBEDDED, BENCH2DRIVE):
            raise Ad2Error(f"{file}: programs under this name would pass for another suite; rename the folder")
        return Suite(found.name, found.routes, found.sha256, found.programs, found.left_out)
    if not file.is_file():
        known = sorted({"demo", EMBEDDED, BENCH2DRIVE, *(f.stem for f in routes_home().glob("*.xml"))})
        raise Ad2Error(f"--suite {name}: no such suite, route file or folder of programs; suites: {', '.join(known)}")
    if file.stem in ("demo", EMBEDDED) or (file.stem == BENCH2DRIVE and world == "embedded"):
        raise Ad2Error(
            f"{file}: a file of this name would pass for another suite; rename it, or use --suite {EMBEDDED}"
        )
    return _suite(file.stem, file)


def routes_of(name: str) -> tuple[Route, ...]:
    """Of a suite that a program names: Bench2Drive's under either name, whatever world is to run it."""
    if name != "demo" and File(name).is_dir():
        raise Ad2Error(f"{name} is a folder; expected a suite of routes, or a route file")
    return suite(EMBEDDED if name == BENCH2DRIVE else name, None).routes


def route_of(program: File, given: str | None = None) -> Route | None:
    """The route that a program is to be played on, under the program's name: `given` ("SUITE:ID"), else the program's
    own line `param route = "SUITE:ID"`; None where neither is there. Ad2Error says what is wrong with them."""
    if given is None and programs.route_named(program) is None:
        return None
    return programs.route_of(program, routes_of, given)


def add_routes(file: File, name: str | None = None) -> File:
    """Check a route file and keep it in the data home under `name` (default: its stem); where it lies now."""
    name = name or File(file).stem
    if not name.replace("_", "").replace("-", "").isalnum() or name in ("demo", EMBEDDED):
        raise Ad2Error(f"--name {name}: letters, digits, '_' and '-' only, and not the name of a built-in suite")
    read_routes(file)
    target = routes_home() / f"{name}.xml"
    with atomic_write(target) as handle:
        handle.write(File(file).read_text("utf-8"))
    return target


def data_home() -> File:
    """HOME, by the rule of lmms_eval_ad2.data.home.location, which this package may not import."""
    cache = os.environ.get("XDG_CACHE_HOME")
    given = os.environ.get("AD2_HOME") or (File(cache) if cache else File.home() / ".cache") / "lmms-eval-ad2"
    return File(given).expanduser().absolute()


def routes_home() -> File:
    return data_home() / "routes"


def _fits(name: str, world: str | None) -> None:
    if world is None:
        return
    if name == BENCH2DRIVE and world == "embedded":
        raise Ad2Error(f"--suite {BENCH2DRIVE} is CARLA's; in the embedded world it is called --suite {EMBEDDED}")
    if name == EMBEDDED and world != "embedded":
        raise Ad2Error(f"--suite {EMBEDDED} is the embedded world's; with --world {world} use --suite {BENCH2DRIVE}")


def _bench2drive() -> File:
    given = os.environ.get(VARIABLE)
    file = File(given) if given else routes_home() / f"{BENCH2DRIVE}.xml"
    if not file.is_file():
        raise Ad2Error(
            f"{file}: Bench2Drive's route file is not there (its licence lets nobody ship it). Take it from {SOURCE}, "
            f"then: ad2 drive routes add bench2drive220.xml (or set {VARIABLE} to the file)"
        )
    return file


def _suite(name: str, file: File) -> Suite:
    return Suite(name, tuple(read_routes(file)), sha256(file))
