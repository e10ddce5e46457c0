"""Search for parameters under which the driver fails: draw values, drive, pass the robustness to the sampler, repeat.

    DIR/run.json, episodes.jsonl, logs/   a run folder as `ad2 drive run` writes it; repetition k is run k of the search
    DIR/tracks/, metric_info/             failures only: `ad2 drive show DIR:NAME:K` draws them
    DIR/search.json                       free parameters, sampler, objective, seed, lag, budget
    DIR/runs.jsonl                        one line per run, for reading; rebuilt from episodes.jsonl at every start
    DIR/expert/                           a run folder: the expert with the values of the failures
    DIR/report.json, search.svg           at the end

Seed, sampler and `lag` determine the values of all runs. The draw of run n uses the results of runs 0 to n - lag, even
if later ones are available: a search with the same lag is therefore the same on fast and slow machines, and after a
kill. `lag` is the number of workers at the first start.

Write order: an episode's files, its line in episodes.jsonl (fsync), its line in runs.jsonl. After a kill the draws are
repeated with the stored results; only runs in progress are lost.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.driver.agent import Agent
from closedloop_plugin.runner.assemble import RunConfig
from closedloop_plugin.runner.early_stop import EarlyStop
from closedloop_plugin.runner.episode_record import EpisodeResult
from closedloop_plugin.runner.pool import WorldPool
from closedloop_plugin.runner.run import run as drive
from closedloop_plugin.runner.store import EpisodeStore, disk_full
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.threats.search.objective import robustness
from closedloop_plugin.threats.search.samplers import LEARNS, ParameterSampler
from closedloop_plugin.threats.search.trial import SearchTrial
from closedloop_plugin.worlds.base import ParameterDomain
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.numbers import is_whole
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.journal import JournalFile
from lmms_eval_ad2.storage.untrusted_json import load


@dataclass(frozen=True)
class ThreatSearchConfig:
    """Options of a search. `run`: from runner.assemble; the values of its first task are varied.

    The seed of the scene is the same in all runs, so that only the parameters differ.
    """

    run: RunConfig
    space: Mapping[str, ParameterDomain]
    sampler: str = "ce"
    objective: str = "all"
    seed: int = 0
    budget: int = 50

    @property
    def identity(self) -> dict[str, Any]:
        """Facts that must be equal at every start; the budget may grow."""
        space = {name: _bounds(domain) for name, domain in self.space.items()}
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
        state = _SearchState(config, store, _lag(config, store))
        first = state.advance()
        with state:
            if first:
                state.pool = WorldPool(
                    worker_config=run.worker_config,
                    limits=run.limits,
                    agent=agent,
                    interpreter=interpreter,
                    on_result=state.finished,
                    on_restart=state.restarted,
                    on_reply=state.stop.reply,
                    logs=run.folder / "logs",
                    more=state.draws_left,
                )
                state.pool.run(first)
            state.stop.finish()
        return state.trials


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
        _same_values(expert.folder, by_number[trial.number], trial.values)
    return [replace(t, expert=by_number.get(t.number)) for t in trials]


@dataclass
class _SearchState:
    """State of a running search. `n_told`: results passed to the sampler."""

    config: ThreatSearchConfig
    store: EpisodeStore
    lag: int
    pool: WorldPool | None = None
    drawn: list[dict[str, Any]] = field(default_factory=list)
    results: dict[int, EpisodeRecord] = field(default_factory=dict)
    n_told: int = 0
    seen: Counter[str] = field(default_factory=Counter)  # verdicts

    def __post_init__(self) -> None:
        config = self.config
        self.sampler = ParameterSampler(config.sampler, config.space, config.seed)
        self.name = config.run.tasks[0].route_id
        self.stop = EarlyStop(self.store, self._keep, config.run.worker_config.conditions, config.run.stop_after_unread)
        self.bar = tqdm(total=config.budget, desc="runs", unit="run", disable=config.run.quiet)

    @property
    def draws_left(self) -> bool:
        return len(self.drawn) < self.config.budget

    @property
    def trials(self) -> list[SearchTrial]:
        return [self._trial(n, self.results[n]) for n in sorted(self.results)]

    def advance(self) -> list[EpisodeTask]:
        """Draw all runs whose required results are available; return the tasks of those that are not stored yet."""
        tasks: list[EpisodeTask] = []
        while self.draws_left:
            number = len(self.drawn)
            while self.n_told < number - self.lag + 1:
                if self.n_told not in self.results:
                    return tasks
                self.sampler.tell(robustness(self.results[self.n_told], self.config.objective))
                self.n_told += 1
            values = self.sampler.next()
            self.drawn.append(values)
            record = self.store.has(self.name, number)
            if record is None:
                tasks.append(self.config.task(number, values))
            else:
                _same_values(self.store.folder, record, values)
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

    def restarted(self, reason: str) -> None:
        if not self.bar.disable:
            self.bar.write(f"a world was lost: {reason}")

    def _keep(self, result: EpisodeResult) -> None:
        number = result.record.repetition
        trial = self._trial(number, result.record)
        self.store.save(result if trial.failed else replace(result, metric_info=None, track=None))
        with disk_full(self.store.folder, lambda: self.store.count), JournalFile(self._lines) as out:
            out.append(_line(trial).encode())
        self._show([trial])

    def _trial(self, number: int, record: EpisodeRecord) -> SearchTrial:
        return SearchTrial(number, self.drawn[number], record, robustness(record, self.config.objective))

    @property
    def _lines(self) -> Path:
        return self.store.folder / "runs.jsonl"

    def _show(self, new: Sequence[SearchTrial]) -> None:
        for trial in new:
            self.seen[trial.verdict] += 1
        text = f"failures {self.seen['failed']}"
        if self.seen["not scored"]:
            text += f" not scored {self.seen['not scored']}"
        self.bar.set_postfix_str(text, refresh=False)
        self.bar.update(len(new))

    def __enter__(self) -> _SearchState:
        with atomic_write(self._lines) as out:
            out.writelines(f"{_line(t)}\n" for t in self.trials)
        self._show(self.trials)
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()


def _lag(config: ThreatSearchConfig, store: EpisodeStore) -> int:
    """The lag of the search: stored in the folder at the first start, read from it later."""
    file = store.folder / "search.json"
    lag = config.run.limits.workers if config.sampler in LEARNS else config.budget
    if store.count and config.sampler in LEARNS:
        lag = _lag_there(file)
    with atomic_write(file) as out:
        json.dump({**config.identity, "lag": lag, "budget": config.budget, "scenario": config.run.tasks[0].suite}, out)
    return lag


def _lag_there(file: Path) -> int:
    hint = "It is the number of runs by which draws precede their results; choose another --out"
    try:
        lag = load(file)["lag"]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise DataError(file, None, "lag", "a whole number", str(exc), hint) from exc
    if not is_whole(lag, low=1):
        raise DataError(file, None, "lag", "a whole number from 1 on", lag, hint)
    return lag


def _same_values(folder: Path, record: EpisodeRecord, values: Mapping[str, Any]) -> None:
    """Raise Ad2Error if a stored run has other values; `drawn` is empty if no scene could be generated."""
    for name, value in values.items():
        if record.drawn and record.drawn.get(name) != value:
            raise Ad2Error(
                f"{folder}: run {record.repetition} was driven with {name} = {record.drawn.get(name)!r}, and this "
                f"search draws {value!r} there (edited, or another version of VerifAI); choose another --out"
            )


def _bounds(domain: ParameterDomain) -> dict[str, Any]:
    if domain.options:
        return {"options": list(domain.options)}
    return {"low": domain.low, "high": domain.high, "whole": domain.whole}


def _line(trial: SearchTrial) -> str:
    return json.dumps(trial.to_json(), ensure_ascii=False, sort_keys=True)
