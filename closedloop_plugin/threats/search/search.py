"""A search for parameters under which the driver fails: draw, drive, hear how near it was, draw again.

    DIR/run.json, episodes.jsonl, logs/   a run folder as `ad2 drive run` writes it; repetition k is run k of the search
    DIR/tracks/, metric_info/             of the failures only: `ad2 drive show DIR:NAME:K` draws them
    DIR/search.json                       free parameters, sampler, objective, seed, lag, budget
    DIR/runs.jsonl                        a line a run, for reading; made anew from episodes.jsonl at every start
    DIR/expert/                           a run folder: the expert on the values of the failures
    DIR/report.json, search.svg           at the end

Nothing but the seed, the sampler and `lag` decides what is driven. The draw of run n knows the results of the runs up
to n - lag and no others, however many are there already: so the same search with the same lag is the same on a fast
and on a slow machine, and after a kill. `lag` is the number of workers at the first start.

Write order: an episode's files, its line in episodes.jsonl (fsync), its line in runs.jsonl. After a kill the draws are
made again with the results that are there; only runs under way are lost.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from closedloop_plugin.agents.base import Agent
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.runner.episode import EpisodeResult
from closedloop_plugin.runner.pool import WorldPool
from closedloop_plugin.runner.run import DriveRun, mute
from closedloop_plugin.runner.run import run as drive
from closedloop_plugin.runner.store import EpisodeStore, disk_full
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.threats.search.objective import robustness
from closedloop_plugin.threats.search.samplers import LEARNS, ParameterSampler
from closedloop_plugin.threats.search.trial import SearchTrial
from closedloop_plugin.worlds.base import ParameterDomain
from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.numbers import is_whole
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.journal import JournalFile


@dataclass(frozen=True)
class ThreatSearchConfig:
    """What is searched. `run` as runner.assemble makes it: its first task is the episode whose values are varied; the
    scene's seed is the same in all runs, so that nothing differs but the parameters."""

    run: DriveRun
    space: Mapping[str, ParameterDomain]
    sampler: str = "ce"
    objective: str = "all"
    seed: int = 0
    budget: int = 50

    @property
    def asked(self) -> dict[str, Any]:
        """What must be the same at every start; the budget may grow."""
        space = {name: _bounds(domain) for name, domain in self.space.items()}
        return {"sampler": self.sampler, "objective": self.objective, "seed": self.seed, "space": space}

    def task(self, number: int, values: Mapping[str, Any]) -> EpisodeTask:
        base = self.run.tasks[0]
        return replace(base, repetition=number, setup=replace(base.setup, values={**base.setup.values, **values}))


def search(quest: ThreatSearchConfig, agent: Agent | None = None, interpreter: Any = None) -> list[SearchTrial]:
    """Drive what is lacking of `budget` runs; all of them, in order. `agent`, `interpreter`: those of this process.

    Ad2Error: the folder holds another search, or the agent answers nothing.
    """
    run = quest.run
    selection = {**run.selection, "repetitions": quest.budget}
    with EpisodeStore(run.folder, {**run.identity, "search": quest.asked}, selection) as store:
        hunt = _SearchState(quest, store, _lag(quest, store))
        first = hunt.advance()
        with hunt:
            if first:
                hunt.pool = WorldPool(
                    run.plan, run.limits, agent, interpreter, hunt.finished, hunt.restarted, run.folder / "logs",
                    more=hunt.draws_left,
                )  # fmt: skip
                hunt.pool.run(first)
            hunt.last()
        return hunt.trials


def with_expert(expert: DriveRun, quest: ThreatSearchConfig, trials: list[SearchTrial]) -> list[SearchTrial]:
    """The trials, each failure with the record of the expert on the same values. `expert`: a Run of its own folder."""
    failures = [t for t in trials if t.failed]
    if not failures:
        return trials
    tasks = [quest.task(t.number, t.values) for t in failures]
    selection = {**expert.selection, "repetitions": quest.budget}
    identity = {**expert.identity, "search": quest.asked}
    records = drive(replace(expert, tasks=tasks, selection=selection, identity=identity), None, None)
    of = {r.repetition: r for r in records}
    for trial in failures:
        _same_values(expert.folder, of[trial.number], trial.values)
    return [replace(t, expert=of.get(t.number)) for t in trials]


@dataclass
class _SearchState:
    """A search under way: what was drawn, what came back, and what the sampler has heard of it."""

    quest: ThreatSearchConfig
    store: EpisodeStore
    lag: int
    pool: WorldPool | None = None
    drawn: list[dict[str, Any]] = field(default_factory=list)
    results: dict[int, EpisodeRecord] = field(default_factory=dict)
    told: int = 0
    held: EpisodeResult | None = None
    seen: Counter[str] = field(default_factory=Counter)  # verdicts

    def __post_init__(self) -> None:
        quest = self.quest
        self.sampler = ParameterSampler(quest.sampler, quest.space, quest.seed)
        self.name = quest.run.tasks[0].route_id
        self.bar = tqdm(total=quest.budget, desc="runs", unit="run", disable=quest.run.quiet)

    @property
    def draws_left(self) -> bool:
        return len(self.drawn) < self.quest.budget

    @property
    def trials(self) -> list[SearchTrial]:
        return [self._trial(n, self.results[n]) for n in sorted(self.results)]

    def advance(self) -> list[EpisodeTask]:
        """The runs that may be drawn now and are not there yet; each draw hears exactly what it is to know."""
        tasks: list[EpisodeTask] = []
        while self.draws_left:
            number = len(self.drawn)
            while self.told < number - self.lag + 1:
                if self.told not in self.results:
                    return tasks
                self.sampler.tell(robustness(self.results[self.told], self.quest.objective))
                self.told += 1
            values = self.sampler.next()
            self.drawn.append(values)
            record = self.store.has(self.name, number)
            if record is None:
                tasks.append(self.quest.task(number, values))
            else:
                _same_values(self.store.folder, record, values)
                self.results[number] = record
        return tasks

    def finished(self, result: EpisodeResult) -> None:
        """One run more. One without any answer of the agent is held back, as in runner.run, until another one tells
        whether that was this run's fault: a server that went away must not become the result of a search."""
        assert self.pool is not None
        if mute(result.record):
            if self.held:
                self._stop(result.record)
            self.held = result
        else:
            self._keep_held()
            self._keep(result)
        self.results[result.record.repetition] = result.record
        for task in self.advance():
            self.pool.offer(task)
        if not self.draws_left:
            self.pool.finish()

    def last(self) -> None:
        if self.held and all(mute(r) for r in self.results.values()):
            self._stop(self.held.record)
        self._keep_held()

    def restarted(self, reason: str) -> None:
        if not self.bar.disable:
            self.bar.write(f"a world was lost: {reason}")

    def _keep_held(self) -> None:
        held, self.held = self.held, None
        if held:
            self._keep(held)

    def _keep(self, result: EpisodeResult) -> None:
        number = result.record.repetition
        trial = self._trial(number, result.record)
        self.store.save(result if trial.failed else replace(result, metric_info=None, track=None))
        with disk_full(self.store.folder, lambda: self.store.count), JournalFile(self._lines) as out:
            out.append(_line(trial).encode())
        self._show([trial])

    def _stop(self, record: EpisodeRecord) -> None:
        raise Ad2Error(
            f"the agent answers nothing: {record.reason}. Mend that and start the same command again: "
            f"{self.store.count} runs are safe, those without an answer were not kept"
        )

    def _trial(self, number: int, record: EpisodeRecord) -> SearchTrial:
        return SearchTrial(number, self.drawn[number], record, robustness(record, self.quest.objective))

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


def _lag(quest: ThreatSearchConfig, store: EpisodeStore) -> int:
    """Of the folder where the search has begun there; written down for the next start."""
    file = store.folder / "search.json"
    lag = quest.run.limits.workers if quest.sampler in LEARNS else quest.budget
    if store.count and quest.sampler in LEARNS:
        lag = _lag_there(file)
    with atomic_write(file) as out:
        json.dump({**quest.asked, "lag": lag, "budget": quest.budget, "scenario": quest.run.tasks[0].suite}, out)
    return lag


def _lag_there(file: Path) -> int:
    hint = "It says how far the draws of this search run ahead of their results; choose another --out"
    try:
        lag = json.loads(file.read_bytes())["lag"]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise DataError(file, None, "lag", "a whole number", str(exc), hint) from exc
    if not is_whole(lag, low=1):
        raise DataError(file, None, "lag", "a whole number from 1 on", lag, hint)
    return lag


def _same_values(folder: Path, record: EpisodeRecord, values: Mapping[str, Any]) -> None:
    """What is there was driven with these values; `drawn` is empty where no scene came about."""
    for name, value in values.items():
        if record.drawn and record.drawn.get(name) != value:
            raise Ad2Error(
                f"{folder}: run {record.repetition} was driven with {name} = {record.drawn.get(name)!r}, and this "
                f"search draws {value!r} there (changed by hand, or another VerifAI); choose another --out"
            )


def _bounds(domain: ParameterDomain) -> dict[str, Any]:
    if domain.options:
        return {"options": list(domain.options)}
    return {"low": domain.low, "high": domain.high, "whole": domain.whole}


def _line(trial: SearchTrial) -> str:
    return json.dumps(trial.to_json(), ensure_ascii=False, sort_keys=True)
