"""run: drives the missing episodes of a run folder, with progress bar and official result file."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.runner.assemble import RunConfig
from closedloop_plugin.runner.early_stop import EarlyStop
from closedloop_plugin.runner.episode_record import EpisodeResult
from closedloop_plugin.runner.pool import WorldPool
from closedloop_plugin.runner.store import EpisodeStore, by_suite
from closedloop_plugin.scoring.official import to_official
from lmms_eval_ad2.report.table import few

LIBRARY = "closedloop_plugin.scenarios"  # imported by programs whose actors act


def run(config: RunConfig) -> list[EpisodeRecord]:
    """Run the missing episodes of an assembled run, and return the records of all its tasks.

    Raises Ad2Error if the run measures nothing, see EarlyStop; episodes saved so far are kept.
    """
    with EpisodeStore(config.folder, config.identity, config.selection) as store:
        todo = [
            t
            for t in config.tasks
            if (r := store.has(t.route_id, t.repetition)) is None or (config.retry_failed and r.retryable)
        ]
        done = len(config.tasks) - len(todo)
        if done and not config.quiet:
            print(f"{done} of {len(config.tasks)} episodes are there already; running {len(todo)}", flush=True)
        try:
            with EpisodeProgress(store, len(config.tasks), done, config.quiet) as bar:
                stop = EarlyStop(store, bar.keep, config.worker_config.conditions, config.stop_after_unread)
                pool = WorldPool(
                    worker_config=replace(config.worker_config, keeps_decisions=True),
                    limits=config.limits,
                    engine=config.engine,
                    agent=config.agent,
                    interpreter=config.interpreter,
                    on_result=stop.add,
                    on_restart=bar.restarted,
                    on_wait=bar.waiting,
                    on_reply=stop.reply,
                    on_start=bar.started,
                    on_beat=bar.beat,
                    on_end=bar.ended,
                    on_decisions=store.add_decisions,
                    logs=config.folder / "logs",
                )
                pool.run(todo)
                stop.finish()
        finally:
            records = by_suite(store.records, config.selection["routes"])
            store.write_results(to_official(records, episodes_of(config.selection, records)))
    asked = {(t.route_id, t.repetition) for t in config.tasks}
    return [r for r in records if (r.route_id, r.repetition) in asked]


def episodes_of(selection: Mapping[str, Any], records: Sequence[EpisodeRecord]) -> int:
    """Number of episodes of the whole suite, over which the official file takes its means.

    Includes routes on experimental maps, which our tables leave out, and all repetitions that the folder holds.
    """
    present = 1 + max((r.repetition for r in records), default=0)
    return len(selection["routes"]) * max(int(selection["repetitions"]), present)


NAMED = 3  # running episodes that are named; of more, only their number and the range of their times
WINDOW_S = 30.0  # over which decisions are counted for their rate
FIRST_NOTE_S, NOTE_S = 15.0, 60.0  # of lines in a log: before the first one, and between them


class EpisodeProgress:
    """Saves each episode, and shows the number of episodes, the score so far, decisions per second, and the simulated
    seconds of running episodes: in the bar of a terminal, else as a line once a minute.
    """

    def __init__(
        self,
        store: EpisodeStore,
        total: int,
        done: int,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store, self.restarts = store, 0
        self._clock, self._log = clock, not sys.stderr.isatty()
        self._running: dict[str, tuple[float, int]] = {}  # episode -> simulated s, decisions
        self._finished = 0  # decisions of episodes that are over
        self._counts: deque[tuple[float, int]] = deque([(clock(), 0)])  # (time, decisions until then)
        self._next_note = clock() + FIRST_NOTE_S
        self._scores = self._score_text()
        self.bar = tqdm(total=total, initial=done, desc="episodes", unit="ep", disable=quiet)
        self._show()

    def keep(self, result: EpisodeResult) -> None:
        self.store.save(result)
        self._scores = self._score_text()
        self._show()
        self.bar.update()

    def started(self, key: str) -> None:
        """An episode begins, perhaps again."""
        self.store.decisions.begin(key)
        self.ended(key)
        self._running[key] = (0.0, 0)

    def beat(self, key: str, time_s: float, decisions: int) -> None:
        """A running episode is at `time_s` and has had `decisions` so far."""
        self._running[key] = (time_s, decisions)
        now = self._clock()
        self._counts.append((now, self._finished + sum(n for _, n in self._running.values())))
        while len(self._counts) > 2 and now - self._counts[0][0] > WINDOW_S:
            self._counts.popleft()
        self._show()
        if not self._log:
            self.bar.refresh()
        elif now >= self._next_note and not self.bar.disable:
            self._next_note = now + NOTE_S
            self.bar.write(f"{self.bar.n} of {self.bar.total} episodes; {self.life()}", file=sys.stderr)

    def ended(self, key: str) -> None:
        """An episode is over, with or without a result."""
        self._finished += self._running.pop(key, (0.0, 0))[1]

    def restarted(self, reason: str) -> None:
        self.restarts += 1
        if not self.bar.disable:
            self.bar.write(f"a world was lost: {reason}")
        self._show()
        self.bar.refresh()

    def waiting(self, note: str) -> None:
        if not self.bar.disable:
            self.bar.write(f"worlds: {note}")

    def life(self) -> str:
        """Decisions per second, and the running episodes with their simulated seconds."""
        (first, before), (last, now) = self._counts[0], self._counts[-1]
        rate = f"{(now - before) / (last - first):.1f} decisions/s" if last > first else ""
        times = {key: time_s for key, (time_s, _) in self._running.items()}
        if len(times) > NAMED:
            running = f"{len(times)} running, at {min(times.values()):.0f} to {max(times.values()):.0f} s"
        else:
            running = ", ".join(f"{key.removesuffix('_rep0')} at {time_s:.0f} s" for key, time_s in times.items())
        return ", ".join(filter(None, (rate, running)))

    def _show(self) -> None:
        restarts = f"restarts {self.restarts}" if self.restarts else ""
        self.bar.set_postfix_str(" ".join(filter(None, (self._scores, restarts, self.life()))), refresh=False)

    def _score_text(self) -> str:
        records = [record for record in self.store.records if not record.blamed]
        if not records:
            return ""
        score = sum(r.score_composed for r in records) / len(records)
        success = 100 * sum(r.success for r in records) / len(records)
        return f"DS {score:.1f} SR {success:.0f}%"

    def __enter__(self) -> EpisodeProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()


def other_values(records: Sequence[EpisodeRecord], drawn: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """One line if played draws have other values than in their check: another version of Scenic or of the programs'
    library."""
    other = [
        r.route_id for r in records
        if r.world.get("draw") == "played" and r.drawn and dict(r.drawn) != dict(drawn.get(r.route_id, {}))
    ]  # fmt: skip
    if not other:
        return ()
    return (f"not what was checked: {', '.join(dict.fromkeys(other))} drew other values; check the folder again",)


def without_act(records: Sequence[EpisodeRecord], programs: Mapping[str, Path | None]) -> tuple[str, ...]:
    """One line on programs of our library whose actor never acted; `programs`: by route id."""
    from closedloop_plugin.core.state import FAILED

    silent = [
        r.route_id for r in records
        if r.end not in FAILED and "act" not in {name for _, name in r.events} and _acts(programs.get(r.route_id))
    ]  # fmt: skip
    if not silent:
        return ()
    return (f"the program sent no event act, so its actor never acted: {few(list(dict.fromkeys(silent)))}",)


def without_way(records: Sequence[EpisodeRecord]) -> tuple[str, ...]:
    """A line for each scene that leaves the ego no way; see worlds/bridge/passage.py."""
    found = ((r.route_id, name) for r in records for _, name in r.events if name.startswith("no way: "))
    return tuple(f"{route}: the scene leaves the ego {name}" for route, name in dict.fromkeys(found))


def _acts(program: Path | None) -> bool:
    """Whether a program uses our library, whose actors act, or sends the event; a program of others need not."""
    text = program.read_text("utf-8-sig", "replace") if program is not None and program.is_file() else ""
    return LIBRARY in text or 'event("act")' in text
