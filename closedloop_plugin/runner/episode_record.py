"""The record of an episode: EpisodeRecorder collects what it needs at every tick, `blank_record` knows only the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from closedloop_plugin.core.record import INFRACTIONS, PROGRAM, PROGRAM_ENDED, EpisodeRecord
from closedloop_plugin.core.state import STATUS, EndReason, EpisodeFault, GroundTruth
from closedloop_plugin.runner.decisions import ControlScheduler
from closedloop_plugin.runner.task import EpisodeTask, EvaluationConditions
from closedloop_plugin.scoring.ability import of_type
from closedloop_plugin.scoring.margins import SafetyMargins
from closedloop_plugin.scoring.metric_log import MetricLog
from closedloop_plugin.scoring.referee.referee import Referee
from closedloop_plugin.worlds.base import World, not_played_in
from lmms_eval_ad2.core.printed import one_line
from lmms_eval_ad2.storage.files import file_sha256

if TYPE_CHECKING:
    pass


MOST_REASON = 1000  # characters, for exceptions of others are of any length


@dataclass(frozen=True)
class EpisodeResult:
    """Results of an episode; metric_info and track are JSON values, written to the folders of these names."""

    record: EpisodeRecord
    metric_info: Any = None
    track: Any = None


class EpisodeRecorder:
    """Referee and logs of a running episode; `begin` after the world's reset, then `tick` at every tick."""

    referee: Referee
    truth: GroundTruth  # of the last tick

    def __init__(self, world: World, task: EpisodeTask, conditions: EvaluationConditions) -> None:
        self.world, self.task, self.conditions = world, task, conditions
        self.log, self.margins = MetricLog(), SafetyMargins()
        self.ticked = False

    def begin(self) -> None:
        self.referee = Referee(self.conditions.profile, self.world.road, self.task.setup.route)

    def tick(self, counts: Counter[str]) -> EndReason | None:
        """Record the world's present state: why the episode ends with it, or None. `counts`: of the record."""
        self.truth = self.world.truth()
        self.ticked = True
        self.log.add(self.truth)
        self.margins.add(self.truth)
        counts.update(f"crossed {mark}" for mark in self.truth.crossed)
        return self.referee.tick(self.truth)

    def result(
        self, end: EndReason, reason: str, fault: EpisodeFault | None, controls: ControlScheduler, system_s: float
    ) -> EpisodeResult:
        """The result of the episode. `system_s`: its wall time."""
        record = blank_record(
            task=self.task, conditions=self.conditions, end=end, reason=reason, fault=fault,
            backend=self.world.backend, version=self.world.version,
        )  # fmt: skip
        known: dict[str, Any] = {
            "system_s": system_s, "counts": dict(controls.counts), "decisions": controls.finish(),
        }  # fmt: skip
        if left := not_played_in(self.world):
            known["world"] = {**record.world, "not_played": dict(left)}
        if self.ticked:
            known |= self._measured(record)
        if end is EndReason.COMPLETED and reason and known.get("score_route", 0.0) < 100.0:
            known["status"] = PROGRAM_ENDED  # it ran correctly, but the route was not completed
        # Through JSON, so that the record equals the one that a resumed run reads.
        record = EpisodeRecord.from_json(EpisodeRecord(**{**vars(record), **known}).to_json())
        return EpisodeResult(record, self.log.to_json())

    def _measured(self, record: EpisodeRecord) -> dict[str, Any]:
        """Scores, times, map and events, of an episode with at least one tick."""
        outcome, truth, road = self.referee.outcome(), self.truth, self.world.road
        return {
            "infractions": outcome.infractions,
            "score_route": outcome.score_route,
            "score_penalty": outcome.score_penalty,
            "score_composed": outcome.score_composed,
            "places": outcome.places,
            "junctions_passed": outcome.junctions_passed,
            "route_length_m": road.path.length,
            "town": record.town or road.town,  # of a program that names its own map
            "game_s": truth.time_s,
            "ticks": truth.tick,
            "map": {
                "source": road.source,
                "sha256": road.sha256,
                "pieces": [[p.start_m, p.end_m, p.geometry] for p in road.pieces],
                "invented": list(road.invented),
                "experimental": road.experimental,
            },
            "events": [list(e) for e in truth.events],
            "drawn": dict(self.world.drawn),
            "weather": asdict(self.world.weather),
            "comfort": self.log.comfort(),
            "margins": self.margins.to_json(),
        }


def blank_record(
    task: EpisodeTask,
    conditions: EvaluationConditions,
    end: EndReason,
    reason: str,
    backend: str,
    version: str,
    fault: EpisodeFault | None = None,
) -> EpisodeRecord:
    """The record of an episode of which only the end is known; all measured values are zero."""
    setup, route = task.setup, task.setup.route
    weather = setup.weather or (route.weather if route else None)
    return EpisodeRecord(
        suite=task.suite,
        route_id=task.route_id,
        repetition=task.repetition,
        seed=setup.seed,
        scenario=route.scenario if route else PROGRAM,
        scenario_name=route.scenario_name if route else task.route_id,
        town=route.town if route else (setup.town.stem if setup.town else ""),
        end=str(end),
        status=STATUS[end],
        infractions={name: [] for name in INFRACTIONS},
        score_route=0.0,
        score_penalty=1.0,
        score_composed=0.0,
        route_length_m=route.length if route else 0.0,
        game_s=0.0,
        system_s=0.0,
        ticks=0,
        agent=dict(conditions.agent),
        interpreter=None if conditions.interpreter is None else dict(conditions.interpreter),
        profile=conditions.profile.name,
        world={"backend": backend, "version": version, "waiting": conditions.rules.latency.label}
        | _program(task)
        | _changed(task, conditions),
        map={},
        weather=asdict(weather) if weather else {},
        reason=one_line(reason)[:MOST_REASON],
        fault=fault or "",
        version=conditions.version,
    )


def _program(task: EpisodeTask) -> dict[str, str]:
    """Hash of the program's text, since its name does not identify it; whether the standard scenario of its route's
    type plays under it ("kept", "replaced"); which draw it is."""
    setup = task.setup
    if setup.program is None:
        return {}
    found = {"program": file_sha256(setup.program)[:12]} if setup.program.is_file() else {}
    if setup.route is not None and of_type(setup.route.scenario):
        found["standard"] = "kept" if setup.keeps_standard else "replaced"
    return found | ({"draw": task.draw} if task.draw else {})


def _changed(task: EpisodeTask, conditions: EvaluationConditions) -> dict[str, Any]:
    """Deviations of this run from its profile; empty without any.

    Scores with different `changed` are never averaged; another decision rate is only recorded.
    """
    rules, profile = conditions.rules, conditions.profile
    deviations = {
        "unread replies end the episode": rules.policy == "strict",
        "no background traffic": not task.setup.traffic,
    }
    text = ", ".join(name for name, applies in deviations.items() if applies)
    rate = rules.decision_hz or profile.decision_hz
    return ({"changed": text} if text else {}) | ({"decision_hz": rate} if rate != profile.decision_hz else {})
