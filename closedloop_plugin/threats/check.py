"""Is a scenario sound? It compiles, runs, really acts, and a good driver survives it for some of its parameters.

    OUT/run.json ...            a run folder as `ad2 drive run` writes it: the judge's drives, see runner/store.py
    OUT/programs.json           scenario -> sha256 of what its drives depend on: program, library, route, map
    OUT/moments/<key>.jpg|json  of each scenario's first draw, see moment.py

A changed program, or route: the records of its drives are dropped from OUT/episodes.jsonl (whole file) before
programs.json gets the new sha, and only then it is driven. So a line always belongs to the sha that stands there, also
after a kill -9 at any moment; the other scenarios' lines stay. Other arguments (seed, judge, world ...) are another
run: it refuses them, as every run folder does.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from closedloop_plugin.agents.make import BUILT_IN, cameras_of, make_agent
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.profiles import profile as profile_named
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.routes import Route, sha256
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.runner.assemble import DriverSetup, RouteSelection, RunConfig, assemble
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.run import DriveRun, run
from closedloop_plugin.runner.store import read_records
from closedloop_plugin.runner.task import EpisodeTask, episode_seed
from closedloop_plugin.suites.programs import index_of, json_object, named_programs, route_of, routes_for, sha_of
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.transcript import ScenarioVerdict, ThreatTranscript
from closedloop_plugin.threats.verdict_files import write_verdicts as write_verdicts
from closedloop_plugin.threats.verdicts import ScenarioDraw, draw_of, not_compiled, verdict_of
from closedloop_plugin.worlds.base import EpisodeSetup
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.lock import lock_folder

SUITE = "check"  # as it stands in the records
SHAS = "programs.json"
SIZE = (400, 225)  # pixels of a moment's picture
LIBRARY = Path(__file__).parent.parent / "scenarios"
_IMPORT = re.compile(r"^(?:from|import|model)[ \t]+([A-Za-z_][\w.]*)", re.M)
TRACK = FactoryRecipe("closedloop_plugin.show.track_log:TrackLog")
MOMENT = "closedloop_plugin.threats.snapshot:SnapshotRecorder"


@dataclass(frozen=True)
class ScenarioProgram:
    """One scenario. Without a route it plays on its own map, or on that of check()."""

    name: str
    file: Path
    route: Route | None = None
    problem: str = ""  # why it cannot be tried
    spec: ThreatSpec | None = None  # its adversary must be the one that acts; None: anything of the scenario


def programs_of(folder: Path, routes_of: Callable[[str], tuple[Route, ...]]) -> list[ScenarioProgram]:
    """Every program of a folder, those that its suite.json leaves out too. One that names no route, or none that there
    is, says so itself: the others are checked all the same."""
    routes_by = routes_for(folder, index_of(folder), routes_of)
    files = named_programs(folder).values()
    return [_program(file, routes_by, _spec_of(folder, file)) for file in files]


def _program(file: Path, routes_of: Callable[[str], tuple[Route, ...]], spec: ThreatSpec | None) -> ScenarioProgram:
    try:
        return ScenarioProgram(file.stem, file, route_of(file, routes_of), spec=spec)
    except Ad2Error as exc:
        return ScenarioProgram(file.stem, file, problem=str(exc), spec=spec)


def _spec_of(folder: Path, file: Path) -> ThreatSpec | None:
    """What a generated program is made from; None for one of the user's own, or that was edited since."""
    told = folder / "transcripts" / f"{file.stem}.json"
    last = ThreatTranscript.read(told).last if told.is_file() else None
    return last.spec if last and last.program_sha256 == sha256(file) else None


def check(
    programs: Sequence[ScenarioProgram],
    out: Path,
    *,
    world: FactoryRecipe,
    judge: str = "expert",
    tries: int = 4,
    workers: int = 1,
    seed: int = 0,
    profile: Profile,
    towns: Mapping[str, Path] | None = None,
    quiet: bool = False,
    map: Path | None = None,
    retry_failed: bool = False,
) -> dict[str, ScenarioVerdict]:
    """Drive each program with the judge until it has survived a draw, `tries` draws at most; a verdict of each.

    One that does not compile is not tried again. The same command goes on where it stopped. Ad2Error: what is wrong
    with all of it (a folder of another run, no such judge); what is wrong with one program is in its verdict.
    """
    if judge not in BUILT_IN:
        raise Ad2Error(f"--agent {judge}: a judge drives by itself; known: {', '.join(BUILT_IN)}")
    shas = {p.name: _digest(p, towns or {}, map) for p in programs if not p.problem}
    limits = PoolLimits(workers, retries=1)  # a program that hangs does so every time
    rounds = _DrawRunner(out, world, judge, seed, profile, towns or {}, map, limits, retry_failed, quiet)
    with lock_folder(out):
        names = _forget_changed(out, shas)
    specs = {p.name: p.spec for p in programs}
    draws: dict[str, list[ScenarioDraw]] = {p.name: [] for p in programs}
    for k in range(tries):
        todo = [p for p in programs if not p.problem and _wants(draws[p.name])]
        if not todo:
            break
        if k and not quiet:
            print(f"draw {k + 1} of {tries}: {len(todo)} scenarios were not survived yet", flush=True)
        for record in rounds.drive(todo, k, names):
            draws[record.route_id].append(draw_of(record, out, specs[record.route_id]))
    _unchanged(programs, shas, towns or {}, map)
    return {p.name: not_compiled(p.problem) if p.problem else verdict_of(draws[p.name], judge) for p in programs}


def _wants(draws: Sequence[ScenarioDraw]) -> bool:
    return all(d.compiles and d.record.end != EndReason.WORLD_FAILED and not d.survived for d in draws)


@dataclass(frozen=True)
class _DrawRunner:
    """All draws of one number: of each program that needs one more."""

    out: Path
    world: FactoryRecipe
    judge: str
    seed: int
    profile: Profile
    towns: Mapping[str, Path]
    map: Path | None
    limits: PoolLimits
    retry_failed: bool
    quiet: bool

    def drive(self, programs: Sequence[ScenarioProgram], k: int, names: Sequence[str]) -> list[EpisodeRecord]:
        camera = _camera(self.profile)
        recorders = (FactoryRecipe(MOMENT, {"folder": self.out / "moments", "camera": camera.name}),) if k == 0 else ()
        agent = make_agent(self.judge)
        driver = DriverSetup(
            agent, agent_recipe=FactoryRecipe("closedloop_plugin.agents.make:make_agent", {"spec": self.judge})
        )
        wish = RunConfig(
            self.out, self.world, self.profile, seed=self.seed, track=TRACK, recorders=recorders, limits=self.limits,
            retry_failed=self.retry_failed, quiet=self.quiet,
        )  # fmt: skip
        made = assemble(wish, RouteSelection(SUITE, "see programs.json", list(names)), driver)
        asked: DriveRun = replace(
            made,
            # Each program's own sha, with its map's, is in programs.json: a suite may grow between two starts.
            identity={**made.identity, "towns_sha256": {}, "map_sha256": None},
            selection={**made.selection, "asked": [p.name for p in programs], "repetitions": k + 1},
            tasks=[self._task(p, k, (camera,) if k == 0 else ()) for p in programs],
        )
        return run(asked, None, None)

    def _task(self, program: ScenarioProgram, k: int, cameras: tuple[Camera, ...]) -> EpisodeTask:
        route = program.route
        setup = EpisodeSetup(
            route,
            episode_seed(self.seed, program.name, k),
            cameras,
            1.0 / self.profile.hz,
            program.file.absolute(),
            self.towns.get(route.town) if route else self.map,
            max_ticks=self.profile.max_ticks,
        )
        return EpisodeTask(SUITE, program.name, k, setup, one_of_many=True)


def _camera(rules: Profile) -> Camera:
    """For the pictures only: a profile of drivers without eyes has none of its own."""
    return cameras_of(f"front@{SIZE[0]}x{SIZE[1]}", rules if rules.cameras else profile_named("bench2drive"))[0]


# -- what a drive depends on -----------------------------------------------------------------------------------------


def _digest(program: ScenarioProgram, towns: Mapping[str, Path], map: Path | None) -> str:
    route = program.route
    town = towns.get(route.town) if route else map
    parts = [sha_of(program.file, route) if route else sha256(program.file), sha256(town) if town else ""]
    return hashlib.sha256("\n".join([*parts, _library(), *_imported(program.file)]).encode()).hexdigest()


@cache
def _library() -> str:
    """Of the behaviours that programs are made from: while they are worked on, the version stays the same."""
    files = sorted(f for f in LIBRARY.iterdir() if f.suffix in (".scenic", ".py"))
    return hashlib.sha256("\n".join(sha256(f) for f in files).encode()).hexdigest()


def _imported(program: Path) -> list[str]:
    """Of the modules beside a program that it names: a library of the user's own."""
    names = _IMPORT.findall(program.read_text("utf-8", errors="replace"))
    files = [program.parent / (name.replace(".", "/") + ending) for name in names for ending in (".scenic", ".py")]
    return [sha256(f) for f in files if f.is_file()]


def _forget_changed(out: Path, shas: Mapping[str, str]) -> list[str]:
    """Drop the records of programs that are others now; the names of all programs of the folder."""
    there = _shas(out)
    changed = {name for name, sha in shas.items() if there.get(name) not in (None, sha)}
    if changed:
        kept = [r for r in read_records(out) if r.route_id not in changed]
        with atomic_write(out / "episodes.jsonl") as handle:
            handle.writelines(r.to_json() + "\n" for r in kept)
        for name in changed:
            for ending in ("jpg", "json"):
                (out / "moments" / f"{name}_rep0.{ending}").unlink(missing_ok=True)
    now = {**there, **shas}
    if now != there:
        with atomic_write(out / SHAS) as handle:
            json.dump(now, handle, indent=1, sort_keys=True)
    return sorted(now)


def _shas(out: Path) -> dict[str, str]:
    return json_object(out / SHAS, "an object of sha256 by scenario", f"Remove {out}: everything is driven anew")


def _unchanged(
    programs: Sequence[ScenarioProgram], shas: Mapping[str, str], towns: Mapping[str, Path], map: Path | None
) -> None:
    """A program that was edited while it was driven has a verdict of nobody knows which text."""
    for program in programs:
        there = program.file.is_file() and (program.problem or _digest(program, towns, map) == shas[program.name])
        if not there:
            raise Ad2Error(f"{program.file} changed while it was checked; start the same command again")
