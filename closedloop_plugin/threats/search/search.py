"""Search for parameters under which the driver fails: draw values, drive, pass the robustness to the sampler, repeat.

    DIR/run.json, episodes.jsonl, logs/   a run folder as `ad2 drive run` writes it; repetition k is run k of the search
    DIR/tracks/, metric_info/             failures only: `ad2 drive show DIR:NAME:K` draws them
    DIR/expert/                           a run folder: the expert with the values of the failures
    DIR/report.json, search.svg           at the end, see report.py

Seed, sampler and number of workers determine the values of all runs: the draw of run n uses the results of runs 0 to
n - workers, even if later ones are available. A search is therefore the same on fast and slow machines. After a kill
the stored runs keep their values; only runs in progress are lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tqdm import tqdm

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.driver.agent import Agent
from closedloop_plugin.runner.assemble import RunConfig
from closedloop_plugin.runner.early_stop import EarlyStop
from closedloop_plugin.runner.episode_record import EpisodeResult
from closedloop_plugin.runner.pool import WorldPool
from closedloop_plugin.runner.run import run as drive
from closedloop_plugin.runner.store import EpisodeStore
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.scoring.failure_cause import FailureCause, cause_of
from closedloop_plugin.threats.robustness import failed, robustness, scored
from closedloop_plugin.threats.search.samplers import ParameterSampler
from closedloop_plugin.worlds.base import ParameterDomain
from lmms_eval_ad2.core.errors import Ad2Error


@dataclass(frozen=True)
class SearchTrial:
    """One run. `rho`: robustness, None if not scored; `expert`: the expert's episode with a failure's values."""

    number: int
    values: dict[str, Any]
    record: EpisodeRecord
    rho: float | None
    expert: EpisodeRecord | None = None

    @property
    def failed(self) -> bool:
        return scored(self.record) and failed(self.record)

    @property
    def verdict(self) -> str:
        if self.rho is None:
            return "not scored"
        return "failed" if self.failed else "passed"

    @property
    def cause(self) -> FailureCause | None:
        """Cause of the failure, by its actors; None if it did not fail."""
        return cause_of(self.record)

    @property
    def fair(self) -> bool | None:
        """Whether the expert survives these values; None if it did not drive them or was not scored."""
        if self.expert is None or not scored(self.expert):
            return None
        return not failed(self.expert)

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "rho": None if self.rho is None else round(self.rho, 4),
            "verdict": self.verdict,
            "fair": self.fair,
            "score": self.record.score_composed,
            "values": self.values,
            "infractions": {name: len(found) for name, found in self.record.infractions.items() if found},
            "cause": self.cause.by.value if self.cause else None,
            "end": self.record.end,
            "reason": self.record.reason,
        }


@dataclass(frozen=True)
class ThreatSearchConfig:
    """Options of a search. `run`: from runner.assemble; the values of its first task are varied.

    The seed of the scene is the same in all runs, so that only the parameters differ.
    """

    run: RunConfig
    space: Mapping[str, ParameterDomain]
    sampler: str = "gp"
    objective: str = "all"
    seed: int = 0
    budget: int = 50

    @property
    def identity(self) -> dict[str, Any]:
        """Facts that must be equal at every start; the budget may grow."""
        space = {
            name: {"options": list(domain.options)}
            if domain.options
            else {"low": domain.low, "high": domain.high, "whole": domain.whole}
            for name, domain in self.space.items()
        }
        return {"sampler": self.sampler, "objective": self.objective, "seed": self.seed, "space": space}

    def task(self, number: int, values: Mapping[str, Any]) -> EpisodeTask:
        base = self.run.tasks[0]
        return replace(base, repetition=number, setup=replace(base.setup, values={**base.setup.values, **values}))


def search(config: ThreatSearchConfig, agent: Agent | None = None, interpreter: Any = None) -> list[SearchTrial]:
    """Drive the missing runs of the budget; return all runs in order. `agent`, `interpreter`: in this process, if any.

    Raises Ad2Error if the folder holds another search, or if the search measures nothing (see EarlyStop).
    """
    run = config.run
    selection = {**run.selection, "repetitions": config.budget}
    with EpisodeStore(run.folder, {**run.identity, "search": config.identity}, selection) as store:
        state = _SearchState(config, store)
        first = state.advance()
        with tqdm(total=config.budget, initial=len(state.results), desc="runs", unit="run", disable=run.quiet) as bar:
            state.bar = bar
            if first:
                state.pool = WorldPool(
                    worker_config=run.worker_config,
                    limits=run.limits,
                    agent=agent,
                    interpreter=interpreter,
                    on_result=state.finished,
                    on_restart=lambda reason: None if bar.disable else bar.write(f"a world was lost: {reason}"),
                    on_reply=state.stop.reply,
                    logs=run.folder / "logs",
                    more=state.draws_left,
                )
                state.pool.run(first)
            state.stop.finish()
        return [state.trial(record) for _, record in sorted(state.results.items())]


def with_expert(expert: RunConfig, config: ThreatSearchConfig, trials: list[SearchTrial]) -> list[SearchTrial]:
    """The trials, with the expert's record for each failure. `expert`: a run of the expert in a separate folder."""
    failures = [t for t in trials if t.failed]
    if not failures:
        return trials
    tasks = [config.task(t.number, t.values) for t in failures]
    selection = {**expert.selection, "repetitions": config.budget}
    identity = {**expert.identity, "search": config.identity}
    records = drive(replace(expert, tasks=tasks, selection=selection, identity=identity))
    by_number = {r.repetition: r for r in records}
    for trial in failures:
        driven = by_number[trial.number].drawn  # empty if no scene could be generated
        if driven and any(driven.get(name) != value for name, value in trial.values.items()):
            raise Ad2Error(f"{expert.folder}: run {trial.number} is of another search; remove this folder")
    return [replace(t, expert=by_number.get(t.number)) for t in trials]


class _SearchState:
    """State of a running search. `told`: number of results passed to the sampler."""

    def __init__(self, config: ThreatSearchConfig, store: EpisodeStore) -> None:
        self.config, self.store = config, store
        self.sampler = ParameterSampler(config.sampler, config.space, config.seed)
        self.lag = config.run.limits.workers if self.sampler.learns else config.budget
        self.drawn: list[dict[str, Any]] = []
        self.results: dict[int, EpisodeRecord] = {}
        self.told = 0
        self.stop = EarlyStop(store, self._keep, config.run.worker_config.conditions, config.run.stop_after_unread)
        self.pool: WorldPool | None = None
        self.bar: Any = None

    @property
    def draws_left(self) -> bool:
        return len(self.drawn) < self.config.budget

    def advance(self) -> list[EpisodeTask]:
        """Draw all runs whose required results are available; return the tasks of those that are not stored yet."""
        tasks: list[EpisodeTask] = []
        while self.draws_left:
            number = len(self.drawn)
            while self.told < number - self.lag + 1:
                if self.told not in self.results:
                    return tasks
                self.sampler.tell(self.told, robustness(self.results[self.told], self.config.objective))
                self.told += 1
            record = self.store.has(self.config.run.tasks[0].route_id, number)
            # A stored run has no values if no scene could be generated: they are drawn again.
            given = record.drawn if record is not None and record.drawn else None
            self.drawn.append(self.sampler.draw(number, given))
            if record is None:
                tasks.append(self.config.task(number, self.drawn[number]))
            else:
                self.results[number] = record
        return tasks

    def finished(self, result: EpisodeResult) -> None:
        """Store a finished run, and offer the runs that waited for its result."""
        assert self.pool is not None
        self.stop.add(result)
        self.results[result.record.repetition] = result.record
        for task in self.advance():
            self.pool.offer(task)
        if not self.draws_left:
            self.pool.finish()

    def _keep(self, result: EpisodeResult) -> None:
        trial = self.trial(result.record)
        self.store.save(result if trial.failed else replace(result, metric_info=None, track=None))
        failures = sum(scored(r) and failed(r) for r in self.store.records)
        self.bar.set_postfix_str(f"failures {failures}", refresh=False)
        self.bar.update()

    def trial(self, record: EpisodeRecord) -> SearchTrial:
        number = record.repetition
        return SearchTrial(number, self.drawn[number], record, robustness(record, self.config.objective))
