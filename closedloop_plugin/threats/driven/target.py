"""Drives of the target for `ad2 threats generate`, as runs of the runner.

    FOLDER/target/standard/   the standard routes; drives/<route>_rep0.json: see recorder.py
    FOLDER/target/round<r>/   the scenarios of round r, each with the values and the seed that the check accepted

Each is a run folder as `ad2 drive run` writes it, with the same retries, and the same command resumes in it. A record
of another program or draw than the present one, for example after a transcript was removed, is removed and the scenario
driven again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.routes import Route
from closedloop_plugin.runner.assemble import DriverSetup, RouteSelection, RunConfig, assemble
from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.runner.early_stop import STOP_AFTER_UNREAD
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.run import run
from closedloop_plugin.runner.store import read_records
from closedloop_plugin.runner.world_processes import LocalEngine, WorldEngine
from closedloop_plugin.scenarios.suites.lookup import Suite
from closedloop_plugin.scoring.failure_cause import cause_of
from closedloop_plugin.threats.driven.recorder import DriveLog
from closedloop_plugin.threats.robustness import scored
from closedloop_plugin.threats.spec_parsing import short
from lmms_eval_ad2.storage.files import atomic_write, file_sha256
from lmms_eval_ad2.storage.lock import lock_folder

TRACK = FactoryRecipe("closedloop_plugin.report.track_log:TrackLog")
RECORDER = "closedloop_plugin.threats.driven.recorder:DriveRecorder"
STANDARD = "standard"


@dataclass(frozen=True)
class PlayedScenario:
    """A scenario to drive: its program, and the draw that the check accepted. `values`: those that `seed` gives."""

    route: Route
    program: Path
    values: Mapping[str, Any]
    seed: int


@dataclass(frozen=True, kw_only=True)
class TargetDrives:
    """The target's drives in one folder of threats. `folder`: FOLDER of the module's docstring."""

    folder: Path
    suite: Suite
    driver: DriverSetup
    world: FactoryRecipe
    profile: Profile
    rules: DecisionRules = field(default_factory=DecisionRules)
    towns: Mapping[str, Path] = field(default_factory=dict)
    alone: bool = False  # the scenarios replace the standard scenarios of their routes
    seed: int = 0
    limits: PoolLimits = field(default_factory=PoolLimits)
    engine: WorldEngine = field(default_factory=LocalEngine)
    stop_after_unread: int = STOP_AFTER_UNREAD
    quiet: bool = False

    def standard(
        self, routes: Sequence[Route], moments: int, frames: int, cameras: Sequence[Camera]
    ) -> tuple[dict[str, DriveLog], dict[str, str]]:
        """({route: log}, {route: why there is none}) of the drives on the standard routes."""
        settings = {"moments": moments, "frames": frames, "cameras": [c.name for c in cameras],
                    "pictures": self.folder / "frames"}  # fmt: skip
        selection = RouteSelection(
            self.suite.name, self.suite.sha256, [r.id for r in self.suite.routes], tuple(routes), towns=self.towns
        )
        return self._logs(STANDARD, run(self._assembled(STANDARD, selection, settings)))

    def round(self, number: int, scenarios: Sequence[PlayedScenario]) -> tuple[dict[str, DriveLog], dict[str, str]]:
        """The same for the scenarios of a round."""
        name = f"round{number}"
        by_route = {x.route.id: x for x in scenarios}
        self._forget_others(name, by_route)
        selection = RouteSelection(
            name=f"threat {self.suite.name}",
            sha256="see transcripts",
            all_ids=[r.id for r in self.suite.routes],
            routes=tuple(x.route for x in scenarios),
            programs={route: x.program.absolute() for route, x in by_route.items()},
            towns=self.towns,
            alone=self.alone,
            draws={route: x.seed for route, x in by_route.items()},
        )
        assembled = self._assembled(name, selection, {})
        tasks = [replace(task, one_of_many=True) for task in assembled.tasks]
        return self._logs(name, run(replace(assembled, tasks=tasks)))

    def _assembled(self, name: str, selection: RouteSelection, settings: Mapping[str, Any]) -> RunConfig:
        folder = self.folder / "target" / name
        recorder = FactoryRecipe(RECORDER, {"folder": folder / "drives", "suite": self.suite.name, **settings})
        config = RunConfig(
            folder=folder, world=self.world, profile=self.profile, rules=self.rules, seed=self.seed, track=TRACK,
            recorders=(recorder,), limits=self.limits, engine=self.engine, stop_after_unread=self.stop_after_unread,
            retry_failed=True, quiet=self.quiet,
        )  # fmt: skip
        return assemble(config, selection, self.driver)

    def _logs(self, name: str, records: Sequence[EpisodeRecord]) -> tuple[dict[str, DriveLog], dict[str, str]]:
        logs, failed = {}, {}
        standard = {} if name == STANDARD else self._standard_records()
        for record in records:
            if not scored(record):
                failed[record.route_id] = short(f"the target's drive could not be scored: {record.reason}", 500)
                continue
            file = self.folder / "target" / name / "drives" / f"{record.route_id}_rep{record.repetition}.json"
            log = DriveLog.read(file)
            if log.summary is not None:
                log.summary.run = f"target/{name}"
                log.summary.cause = cause_of(record, standard.get(record.route_id))
            logs[record.route_id] = log
        return logs, failed

    def _standard_records(self) -> dict[str, EpisodeRecord]:
        """The records of the standard routes, by route."""
        return {record.route_id: record for record in read_records(self.folder / "target" / STANDARD)}

    def _forget_others(self, name: str, scenarios: Mapping[str, PlayedScenario]) -> None:
        """Remove the records of other programs or draws than those to drive now. `scenarios`: by route."""
        folder = self.folder / "target" / name
        if not folder.is_dir():
            return
        with lock_folder(folder):
            records = read_records(folder)
            kept = [r for r in records if r.route_id not in scenarios or _is_of(r, scenarios[r.route_id])]
            if len(kept) < len(records):
                with atomic_write(folder / "episodes.jsonl") as handle:
                    handle.writelines(r.to_json() + "\n" for r in kept)


def _is_of(record: EpisodeRecord, scenario: PlayedScenario) -> bool:
    """Whether a record is of this program and draw; a rejected scene has no drawn values."""
    same = record.world.get("program") == file_sha256(scenario.program)[:12] and record.seed == scenario.seed
    return same and all(record.drawn.get(k, v) == v for k, v in scenario.values.items())
