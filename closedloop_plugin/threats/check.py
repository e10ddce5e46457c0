"""Check scenarios: each must compile, run, act, and be survivable for a competent driver.

Draws are driven until one is survived: it becomes the played draw, which every agent drives. Then `others` further
draws are driven, of which the stated share must be survived. Draw k of a scenario is the same in every check with one
seed.

    OUT/run.json ...            a run folder as `ad2 drive run` writes it: the judge's drives, see runner/store.py
    OUT/programs.json           scenario -> sha256 of everything its drives depend on: program, library, route, map
    OUT/moments/<key>.jpg|json  snapshot of each draw, see snapshot.py

If a program or its route changes, its records are first removed from OUT/episodes.jsonl (the file is replaced), then
programs.json gets the new sha256, then it is driven. A record therefore always belongs to the stored sha256, even after
a kill; the records of other scenarios remain. Other arguments (seed, judge, world ...) are rejected, as in every run
folder.

Draws of a scenario are numbered from 0, by their seeds. Draws up to the first survived one, the played draw, are tries;
those behind it are the other draws. Only these enter the share: the tries end with a survived draw by construction.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.profiles import profile as profile_named
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.routes import Route
from closedloop_plugin.driver.agents.make import BUILT_IN, cameras_of, make_agent
from closedloop_plugin.runner.assemble import DriverSetup, RouteSelection, RunConfig, assemble
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.run import run
from closedloop_plugin.runner.store import read_records
from closedloop_plugin.runner.task import EpisodeTask, episode_seed
from closedloop_plugin.runner.world_processes import LocalEngine, WorldEngine
from closedloop_plugin.scenarios.suites.played_draws import json_object
from closedloop_plugin.scenarios.suites.programs import index_of, named_programs, route_of, routes_for, sha_of
from closedloop_plugin.threats.snapshot import hidden_act
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.transcript import ScenarioVerdict, ThreatTranscript
from closedloop_plugin.threats.verdicts import ScenarioDraw, draw_of, verdict_of
from closedloop_plugin.threats.verdicts import write_verdicts as write_verdicts
from closedloop_plugin.worlds.base import EpisodeSetup
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.scoring.metrics.intervals import FRACTION, mean_interval
from lmms_eval_ad2.storage.files import atomic_write, file_sha256
from lmms_eval_ad2.storage.lock import lock_folder


@dataclass(frozen=True)
class DrawPlan:
    """Draws of each scenario: at most `tries` until one is survived, then `others`, of which `share` must be."""

    tries: int = 4
    others: int = 3
    share: Fraction = Fraction(2, 3)

    @property
    def needed(self) -> int:
        """Number of the other draws that must be survived."""
        return math.ceil(self.share * self.others)


def share_of(text: str) -> Fraction:
    """A share from 0 to 1, given as 2/3 or 0.6. Raises Ad2Error."""
    try:
        found = Fraction(text)
    except (ValueError, ZeroDivisionError):
        found = Fraction(-1)
    if not 0 <= found <= 1:
        raise Ad2Error(f"--config share={text}: expected a share from 0 to 1, as in 2/3 or 0.6")
    return found


@dataclass(frozen=True)
class DrivenDraws:
    """The draws of one scenario so far, by number."""

    plan: DrawPlan
    draws: dict[int, ScenarioDraw] = field(default_factory=dict)

    @property
    def played(self) -> int | None:
        """Number of the played draw."""
        return next((k for k in sorted(self.draws) if self.draws[k].survived), None)

    def missing(self) -> list[int]:
        """The draws to drive next: another try, or all others behind the survived one."""
        played = self.played
        if played is not None:
            return [k for k in self._behind(played) if k not in self.draws]
        worth = all(d.compiles and d.scored for d in self.draws.values())
        return [len(self.draws)] if worth and len(self.draws) < self.plan.tries else []

    def verdict(self, judge: str) -> ScenarioVerdict:
        played = self.played
        if played is None:
            return verdict_of([self.draws[k] for k in sorted(self.draws)], judge)
        tried, others = range(played + 1), self._behind(played)
        return verdict_of([self.draws[k] for k in tried], judge, [self.draws[k] for k in others], self.plan.needed)

    def _behind(self, played: int) -> range:
        return range(played + 1, played + 1 + self.plan.others)


@dataclass(frozen=True)
class SurvivedShare:
    """Share of the other draws that the judge survives, over scenarios. `interval`: 95 %, draws clustered by scenario;
    None for fewer than two scenarios, or without a draw."""

    survived: int
    draws: int
    scenarios: int
    interval: tuple[float, float] | None


def survived_share(verdicts: Iterable[ScenarioVerdict]) -> SurvivedShare:
    counts = [(v.others_survived, v.others) for v in verdicts if v.others]
    values = [float(k < good) for good, n in counts for k in range(n)]
    names = [i for i, (_, n) in enumerate(counts) for _ in range(n)]
    found = mean_interval(values, clusters=names, bounds=FRACTION) if values else None
    return SurvivedShare(
        sum(good for good, _ in counts), len(values), len(counts), (found.low, found.high) if found else None
    )


SUITE = "check"  # name in the records
SHAS = "programs.json"
SIZE = (400, 225)  # pixels of a snapshot
LIBRARY = Path(__file__).parent.parent / "scenarios"
_IMPORT = re.compile(r"^(?:from|import|model)[ \t]+([A-Za-z_][\w.]*)", re.M)
TRACK = FactoryRecipe("closedloop_plugin.report.track_log:TrackLog")
MOMENT = "closedloop_plugin.threats.snapshot:SnapshotRecorder"


@dataclass(frozen=True)
class ScenarioProgram:
    """A scenario program. Without a route it runs on its own map, or on the `map` of check()."""

    name: str
    file: Path
    route: Route | None = None
    problem: str = ""  # why it cannot be run
    spec: ThreatSpec | None = None  # its adversary must act; None: any actor of the scenario


def programs_of(folder: Path, routes_of: Callable[[str], tuple[Route, ...]]) -> list[ScenarioProgram]:
    """Every program of a folder, including those that its suite.json leaves out.

    A program with a missing or unknown route gets a `problem`; the others are checked nevertheless.
    """
    find_routes = routes_for(folder, index_of(folder), routes_of)
    files = named_programs(folder).values()
    return [_program(file, find_routes, _spec_of(folder, file)) for file in files]


def _program(file: Path, routes_of: Callable[[str], tuple[Route, ...]], spec: ThreatSpec | None) -> ScenarioProgram:
    try:
        return ScenarioProgram(file.stem, file, route_of(file, routes_of), spec=spec)
    except Ad2Error as exc:
        return ScenarioProgram(file.stem, file, problem=str(exc), spec=spec)


def _spec_of(folder: Path, file: Path) -> ThreatSpec | None:
    """The spec of a generated program; None for a user's own program, or one that was edited."""
    transcript = folder / "transcripts" / f"{file.stem}.json"
    last = ThreatTranscript.read(transcript).last if transcript.is_file() else None
    return last.spec if last and last.program_sha256 == file_sha256(file) else None


def check(
    programs: Sequence[ScenarioProgram],
    out: Path,
    *,
    world: FactoryRecipe,
    judge: str = "expert",
    tries: int = DrawPlan.tries,
    others: int = DrawPlan.others,
    share: Fraction = DrawPlan.share,
    alone: bool = False,
    workers: int = 1,
    engine: WorldEngine | None = None,
    seed: int = 0,
    profile: Profile,
    towns: Mapping[str, Path] | None = None,
    quiet: bool = False,
    map: Path | None = None,
    retry_failed: bool = False,
) -> dict[str, ScenarioVerdict]:
    """Drive the draws of each program with the judge; the verdict by name.

    `tries`, `others`, `share`: see DrawPlan. `alone`: programs replace the standard scenarios of their routes.

    A program that does not compile is not repeated. The same call resumes an interrupted check. Raises Ad2Error for
    errors of the whole check (folder of another run, unknown judge); errors of one program are in its verdict.
    """
    if judge not in BUILT_IN:
        raise Ad2Error(f"--agent {judge}: a judge drives by itself; known: {', '.join(BUILT_IN)}")
    towns = towns or {}
    shas = {p.name: _digest(p, towns, map) for p in programs if not p.problem}
    config = RunConfig(
        out, world, profile, seed=seed, track=TRACK, engine=engine or LocalEngine(), retry_failed=retry_failed,
        quiet=quiet, limits=PoolLimits(workers, retries=1),  # a program that hangs would hang again
    )  # fmt: skip
    with lock_folder(out):
        names = _forget_changed(out, shas)
    found = {p.name: DrivenDraws(DrawPlan(tries, others, share)) for p in programs if not p.problem}
    by_name = {p.name: p for p in programs}
    while tasks := [(k, name) for name, one in found.items() for k in one.missing()]:
        again = sum(bool(one.draws) and one.played is None for one in found.values())
        if again and not quiet:
            print(f"{again} scenarios are not survived yet", flush=True)
        # By number, so that an interrupted check has complete passes of the folder.
        draws = [(by_name[name], k) for k, name in sorted(tasks, key=lambda task: task[0])]
        for record in _drive(config, judge, draws, names, towns=towns, map=map, alone=alone):
            draw = draw_of(record, out, by_name[record.route_id].spec)
            found[record.route_id].draws[record.repetition] = draw
    _check_unchanged(programs, shas, towns, map)
    return {
        p.name: ScenarioVerdict(passed=False, reason=p.problem) if p.problem else found[p.name].verdict(judge)
        for p in programs
    }


def _drive(
    config: RunConfig, judge: str, draws: Sequence[tuple[ScenarioProgram, int]], names: Sequence[str],
    towns: Mapping[str, Path], map: Path | None, alone: bool,
) -> list[EpisodeRecord]:  # fmt: skip
    """The records of these draws: (program, number). `names`: of all programs of the folder."""
    profile, camera = config.profile, _camera(config.profile)
    hidden = {program.name: act for program, _ in draws if (act := hidden_act(program.spec))}
    settings = {"folder": config.folder / "moments", "camera": camera.name, "hidden": hidden}
    recipe = FactoryRecipe("closedloop_plugin.driver.agents.make:make_agent", {"spec": judge})
    assembled = assemble(
        replace(config, recorders=(FactoryRecipe(MOMENT, settings),)),
        RouteSelection(SUITE, "see programs.json", list(names)),
        DriverSetup(make_agent(judge), agent_recipe=recipe),
    )
    tasks = []
    for program, k in draws:
        route = program.route
        setup = EpisodeSetup(
            route=route,
            seed=episode_seed(config.seed, program.name, k),
            cameras=(camera,),
            timestep=1.0 / profile.hz,
            program=program.file.absolute(),
            alone=alone,
            town=towns.get(route.town) if route else map,
            max_ticks=profile.max_ticks,
        )
        tasks.append(EpisodeTask(SUITE, program.name, k, setup, one_of_many=True))
    # The sha256 of each program and its map is in programs.json: a suite may grow between two starts.
    identity = {**assembled.identity, "alone": alone, "towns_sha256": {}, "map_sha256": None}
    asked = {"asked": list(dict.fromkeys(p.name for p, _ in draws)), "repetitions": 1 + max(k for _, k in draws)}
    selection = {**assembled.selection, **asked}
    return run(replace(assembled, identity=identity, selection=selection, tasks=tasks))


def _camera(profile: Profile) -> Camera:
    """The camera of the snapshots; profiles without cameras use that of bench2drive."""
    return cameras_of(f"front@{SIZE[0]}x{SIZE[1]}", profile if profile.cameras else profile_named("bench2drive"))[0]


# -- digests of everything a drive depends on ------------------------------------------------------------------------


def _digest(program: ScenarioProgram, towns: Mapping[str, Path], map: Path | None) -> str:
    route = program.route
    town = towns.get(route.town) if route else map
    parts = [sha_of(program.file, route) if route else file_sha256(program.file), file_sha256(town) if town else ""]
    return hashlib.sha256("\n".join([*parts, _library(), *_imported(program.file)]).encode()).hexdigest()


@cache
def _library() -> str:
    """Digest of the Scenic library: it may change during development without a new version number."""
    files = sorted(f for f in LIBRARY.iterdir() if f.suffix in (".scenic", ".py"))
    return hashlib.sha256("\n".join(file_sha256(f) for f in files).encode()).hexdigest()


def _imported(program: Path) -> list[str]:
    """Digests of the modules beside a program that it imports: the user's own library."""
    names = _IMPORT.findall(program.read_text("utf-8-sig", errors="replace"))
    files = [program.parent / (name.replace(".", "/") + ending) for name in names for ending in (".scenic", ".py")]
    return [file_sha256(f) for f in files if f.is_file()]


def _forget_changed(out: Path, shas: Mapping[str, str]) -> list[str]:
    """Remove the records of changed programs; the names of all programs ever checked in the folder."""
    stored = _shas(out)
    changed = {name for name, sha in shas.items() if stored.get(name) not in (None, sha)}
    if changed:
        kept = [r for r in read_records(out) if r.route_id not in changed]
        with atomic_write(out / "episodes.jsonl") as handle:
            handle.writelines(r.to_json() + "\n" for r in kept)
        for name in changed:
            for file in (out / "moments").glob(f"{name}_rep*.*"):
                if re.fullmatch(r"\d+", file.stem.removeprefix(f"{name}_rep")):
                    file.unlink()
    now = {**stored, **shas}
    if now != stored:
        with atomic_write(out / SHAS) as handle:
            json.dump(now, handle, indent=1, sort_keys=True)
    return sorted(now)


def _shas(out: Path) -> dict[str, str]:
    return json_object(out / SHAS, "an object of sha256 by scenario", f"Remove {out}; everything is then driven again")


def _check_unchanged(
    programs: Sequence[ScenarioProgram], shas: Mapping[str, str], towns: Mapping[str, Path], map: Path | None
) -> None:
    """Raise Ad2Error if a program was edited while it was driven: its verdict would be of an unknown version."""
    for program in programs:
        same = program.file.is_file() and (program.problem or _digest(program, towns, map) == shas[program.name])
        if not same:
            raise Ad2Error(f"{program.file} changed while it was checked; start the same command again")
