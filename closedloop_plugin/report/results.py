"""Results of drives as `ad2 report` takes them: run folders of `ad2 drive run`, and official result files."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.storage.untrusted_json import load, parse

if TYPE_CHECKING:
    from closedloop_plugin.core.profiles import Profile
    from closedloop_plugin.core.routes import Route
    from closedloop_plugin.runner.decision_costs import DecisionCosts
    from closedloop_plugin.scenarios.suites.lookup import Suite
    from closedloop_plugin.scoring.measures import ComparedEpisode
    from closedloop_plugin.scoring.official_record import OfficialRecord

MOST_BYTES = 10_000_000  # of an episode's line
# Keys of a run's identity: the driver, and keys that may differ between any two runs.
DRIVER = ("agent", "interpreter", "cameras")
FREE = ("suite", "suite_sha256", "map_sha256", "towns_sha256", "version", "commit")
DRIVEN = ("values", "alone", "draws")  # how free parameters and programs are played: it belongs to the suite

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DriveResults:
    """A run folder, or the official files of one driver.

    suite: the routes, None for a run whose suite is not here; asked: the route ids that were to be driven, those of a
    run's selection or the whole route file; repetitions: of each route, at least those of a run's selection; episodes:
    the records, for a comparison; identity: of run.json, None for files; training: one line if the model was trained
    on routes of them; costs: of the decisions of models, None without one.
    """

    path: Path
    name: str
    suite: Suite | None
    asked: tuple[str, ...]
    records: tuple[OfficialRecord, ...]
    episodes: tuple[ComparedEpisode, ...]
    profile: Profile
    repetitions: int
    identity: Mapping[str, Any] | None = None
    lost: int = 0
    notes: tuple[str, ...] = field(default_factory=tuple)
    training: str = ""
    costs: DecisionCosts | None = None

    @property
    def signs(self) -> str:
        """The variant of Traffic_Signs that is published for its suite."""
        from closedloop_plugin.scoring.ability import signs_variant

        return signs_variant(self.suite.routes if self.suite else (), self.records[0].origin.get("suite"))

    @property
    def routes(self) -> list[Route]:
        """The routes that were to be driven. Raises Ad2Error if the suite is not here."""
        from lmms_eval_ad2.core.errors import Ad2Error

        if self.suite is None:
            name = (self.identity or {}).get("suite")
            raise Ad2Error(f"{self.path}: driven on suite {name}, which is not here; name its routes: --routes FILE")
        asked = {*self.asked}
        return [route for route in self.suite.routes if route.id in asked]


def is_drive_run(path: Path) -> bool:
    """True if `ad2 drive run` (or its lmms-eval task) wrote the folder; a robot's run has no suite."""
    file = path / "run.json"
    if not (file.is_file() and (path / "episodes.jsonl").is_file()):
        return False
    try:
        identity = load(file)["identity"]
    except (OSError, ValueError, KeyError, TypeError):
        return True  # reading it gives the error
    return not isinstance(identity, dict) or "suite" in identity


def is_results(path: Path) -> bool:
    """True if the path itself is a drive's results: a run folder, an official file, or a folder of its parts."""
    from closedloop_plugin.scoring.official import official_files

    return is_drive_run(path) or _is_file(path) or (path.is_dir() and bool(official_files(path)))


def find(path: Path) -> list[Path]:
    """Results at or below a path: all run folders, else the official files directly in it.

    Several files of a folder are one driver's parts if no episode is in two of them; otherwise, and beside a
    merged.json that does not only repeat them, each is a driver's. Runs below the path without an episode, of a single
    program or of `ad2 drive collect` are left out with a warning.
    """
    from closedloop_plugin.scoring.official import MERGED, official_files, read_file

    if _is_file(path):
        return [path]
    if not path.is_dir():
        return []
    if is_drive_run(path):
        return [path]
    runs = sorted(file.parent for file in path.rglob("run.json") if is_drive_run(file.parent))
    if runs:
        return [run for run in runs if not _left_out(run)]
    parts = official_files(path)
    if len(parts) > 1 and path / MERGED not in parts:
        keys = [{record.key for record in read_file(part)[0]} for part in parts]
        apart = sum(map(len, keys)) > len(set().union(*keys))
    else:
        apart = len(parts) > 1
    return [path] if parts and not apart else parts


def _left_out(run: Path) -> bool:
    """True if a run has nothing to report; a warning tells why."""
    from closedloop_plugin.core.record import PROGRAM
    from lmms_eval_ad2.storage.training_card import SET_FILE

    with (run / "episodes.jsonl").open("rb") as handle:
        first = handle.readline(MOST_BYTES)
    try:
        reason = "a single program" if parse(first)["scenario"] == PROGRAM else ""
    except (ValueError, KeyError, TypeError):
        reason = "" if first.endswith(b"\n") else "no episode yet"  # a broken line gives the error when it is read
    if (run / SET_FILE).is_file():
        reason = "collected frames"
    if reason:
        _log.warning("%s: %s, left out", run, reason)
    return bool(reason)


def _is_file(path: Path) -> bool:
    from closedloop_plugin.scoring.official import EPISODES, is_official

    return (path.name == EPISODES and path.is_file()) or is_official(path)


def read_results(path: Path, routes: str | None, name: str) -> DriveResults:
    """Read one of the paths of `find`. `routes`: as after --routes; None: the suite of the run, or bench2drive220.

    Raises Ad2Error for broken files, unknown routes, and a run without an episode or of a single program.
    """
    if is_drive_run(path):
        return _run(path, routes, name)
    return _official(path, routes, name)


def _run(path: Path, routes: str | None, name: str) -> DriveResults:
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.core.record import PROGRAM
    from closedloop_plugin.runner.decision_costs import decision_costs
    from closedloop_plugin.runner.store import asked_repetitions, read_drive, read_records
    from closedloop_plugin.runner.training_data import training_note
    from closedloop_plugin.scoring.driving import MOST_REPETITIONS, repetitions_of
    from closedloop_plugin.scoring.measures import ComparedEpisode
    from lmms_eval_ad2.core.errors import Ad2Error

    run = read_drive(path)
    repetitions = asked_repetitions(path, run["selection"])
    records = read_records(path, MOST_REPETITIONS)
    if not records:
        raise Ad2Error(f"{path}: it contains no episode yet; the same `ad2 drive run` command resumes it")
    if records[0].scenario == PROGRAM:
        raise Ad2Error(f"{path}: a single program, which has no benchmark scores; drive it as a --suite")
    episodes = tuple(ComparedEpisode.of(record) for record in records)
    selection, identity = run["selection"], run["identity"]
    wanted = {*selection.get("asked", selection["routes"]), *(r.route_id for r in records)}
    suite, notes = suite_of(identity, routes)
    asked = tuple(route for route in selection["routes"] if route in wanted)
    return DriveResults(
        path=path,
        name=name,
        suite=suite,
        asked=asked,
        records=tuple(e.official for e in episodes),
        episodes=episodes,
        profile=profile(records[0].profile),
        repetitions=repetitions_of([e.official for e in episodes], least=repetitions),
        identity=identity,
        notes=notes,
        training=training_note(selection, asked),
        costs=decision_costs(path, list({r.key: r for r in records}.values())),
    )


def suite_of(identity: Mapping[str, Any], routes: str | None) -> tuple[Suite | None, tuple[str, ...]]:
    """The routes of a run: those given if they are the driven ones or if its suite is not here; notes on others."""
    from closedloop_plugin.scenarios.suites.lookup import suite
    from lmms_eval_ad2.core.errors import Ad2Error

    wanted, name = identity.get("suite_sha256"), str(identity.get("suite"))
    given = routes_given(routes) if routes else None
    if given and given.sha256 == wanted:
        return given, ()
    try:
        own: Suite | None = suite(name, world=None)
    except Ad2Error:
        own = given
    if own is None or own.sha256 == wanted:
        return own, ()
    return own, (
        f"driven on other routes or programs (suite {name}, sha256 {str(wanted)[:12]}) than {own.name} has now",
    )


def routes_given(name: str) -> Suite:
    """Return the suite for a name, a folder of programs, or a route file (with any file name) or folder of them."""
    from hashlib import sha256

    from closedloop_plugin.core.routes import read_route_file
    from closedloop_plugin.scenarios.suites.lookup import Suite, suite
    from lmms_eval_ad2.storage.files import file_sha256

    file = Path(name)
    known = "/" not in name and not name.endswith(".xml")
    if file.is_dir() and any(file.glob("*.xml")) and not any(file.rglob("*.scenic")):
        hashes = "".join(file_sha256(one) for one in sorted(file.glob("*.xml")))
        read, digest = read_route_file(file), sha256(hashes.encode()).hexdigest()
        return Suite(file.absolute().name, tuple(read.routes), digest, left_out=read.left_out)
    if file.is_dir() or (known and not file.exists()):
        return suite(name, world=None, argument="--routes")
    read = read_route_file(file)
    return Suite(file.stem, tuple(read.routes), file_sha256(file), left_out=read.left_out)


def _official(path: Path, routes: str | None, name: str) -> DriveResults:
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.scenarios.suites.lookup import BENCH2DRIVE
    from closedloop_plugin.scoring import official
    from closedloop_plugin.scoring.ability import known_bounds
    from closedloop_plugin.scoring.driving import repetitions_of
    from closedloop_plugin.scoring.measures import ComparedEpisode

    found = official.read([path])
    origin = found.records[0].origin
    suite = routes_given(routes or str(origin.get("suite") or BENCH2DRIVE))
    bounds = known_bounds(suite.routes)
    types = {route.id: route.scenario for route in suite.routes}  # a record has the scenario's name only
    return DriveResults(
        path=path,
        name=name,
        suite=suite,
        asked=tuple(suite.ids),
        records=found.records,
        episodes=tuple(
            ComparedEpisode(r, types.get(r.route_id, r.scenario), bound=bounds.get(r.route_id)) for r in found.records
        ),
        profile=profile(str(origin.get("profile", "bench2drive"))),
        repetitions=repetitions_of(found.records),
        lost=sum(n for _, n in found.lost),
        notes=tuple(
            f"{Path(file).name} is cut off: {n} record(s) lost, the complete ones count" for file, n in found.lost
        ),
    )


def short_names(paths: Sequence[Path]) -> list[str]:
    """A name for each path: the shortest end of it that differs from the others'; files without their ending."""
    parts = [path.absolute().with_suffix("" if path.is_file() else path.suffix).parts for path in paths]
    names = []
    for own in parts:
        alone = (n for n in range(1, len(own)) if sum(own[-n:] == other[-n:] for other in parts) == 1)
        names.append("/".join(own[-next(alone, len(own)) :]))
    return names


def parts(path: Path) -> list[Path]:
    """The run folders at or below a path, also those of a single program or without an episode."""
    if is_drive_run(path) or not path.is_dir():
        return [path] if is_drive_run(path) else []
    return sorted(file.parent for file in path.rglob("run.json") if is_drive_run(file.parent))


def unlike(a: Mapping[str, Any], b: Mapping[str, Any], one_suite: bool) -> list[str]:
    """Differences that prevent a comparison, each as "name is A in the first and B in the second".

    With two suites the driver must be the same; with one suite the drivers are compared.
    """
    from lmms_eval_ad2.storage.identity import differences

    free = (*FREE, *(DRIVER if one_suite else DRIVEN))
    kept = [{key: value for key, value in identity.items() if key not in free} for identity in (a, b)]
    places = ("in the first", "in the second")
    found = differences(kept[0], kept[1], places=places, unset={"decision_hz": "the profile's rate"})
    towns = [identity.get("towns_sha256") or {} for identity in (a, b)]
    shared = towns[0].keys() & towns[1].keys()
    if any(towns[0][town] != towns[1][town] for town in shared):
        found.append("towns_sha256: the same towns have other maps in the first and in the second")
    elif bool(towns[0]) != bool(towns[1]):
        maps = ["real towns" if files else "corridors" for files in towns]
        found.append(f"maps are {maps[0]} {places[0]} and {maps[1]} {places[1]}")
    return found
