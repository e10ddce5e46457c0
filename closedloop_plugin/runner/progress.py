"""EpisodeProgress: the progress bar of a run, with signs of life of the episodes that are running."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable

from tqdm import tqdm

from closedloop_plugin.runner.episode import EpisodeResult
from closedloop_plugin.runner.store import EpisodeStore

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
