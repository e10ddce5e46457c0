"""EarlyStop: ends a run that measures nothing: its first episodes fail for one cause, its agent does not answer, or its
replies cannot be read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.runner.decisions import UnreadReply
from closedloop_plugin.runner.episode_record import EpisodeResult
from closedloop_plugin.runner.faults import UnhealthyRun
from closedloop_plugin.runner.store import EpisodeStore, disk_full, saved
from closedloop_plugin.runner.task import EvaluationConditions
from lmms_eval_ad2.storage.files import atomic_write

KEPT = 100  # unread replies in a row, for the file
SAMPLES = 3  # of them, in the error message


STOP_AFTER_UNREAD = 20
STOP_AFTER_FAILED = 3
UNREAD_FILE = "logs/unread.jsonl"


class RunEndedEarly(UnhealthyRun):
    """The error of EarlyStop. Its text is made when it is printed: until then results of other worlds are kept."""

    def __init__(self, store: EpisodeStore, reason: str, rest: str, exit_code: int = UnhealthyRun.exit_code) -> None:
        super().__init__(reason, rest)
        self.store, self.reason, self.rest, self.exit_code = store, reason, rest, exit_code

    def __str__(self) -> str:
        return f"{self.reason} {saved(self.store.count)}, {self.rest}"


def mute(record: EpisodeRecord) -> bool:
    """Whether none of its requests was answered."""
    return record.end == EndReason.AGENT_FAILED and record.counts.get("agent_errors", 0) == record.counts.get(
        "decisions", 0
    )


def _cause(record: EpisodeRecord) -> tuple[str, str]:
    """The fault and its reason without numbers, such as ids of routes and processes."""
    return record.blamed, re.sub(r"\d+", "0", record.reason)


@dataclass
class UnreadReplies:
    """Counts unread replies until one is read."""

    count: int = 0
    _kept: list[UnreadReply] = field(default_factory=list)

    def add(self, reply: UnreadReply | None) -> None:
        """Add the next reply of any world; None: it was read."""
        if reply is None:
            self.count = 0
            self._kept.clear()
            return
        self.count += 1
        if len(self._kept) < KEPT:
            self._kept.append(reply)

    def samples(self) -> list[UnreadReply]:
        """Up to three of them, in order; of equal texts others only if there are no more."""
        different = {reply.reply: i for i, reply in reversed(list(enumerate(self._kept)))}
        first = sorted(different.values())
        others = [i for i in range(len(self._kept)) if i not in first]
        return [self._kept[i] for i in sorted([*first, *others][:SAMPLES])]

    def write(self, file: Path) -> int:
        """Write one JSON object per reply, the first ones of the row; return their number."""
        with atomic_write(file, errors="backslashreplace") as out:
            out.writelines(json.dumps(asdict(reply), ensure_ascii=False) + "\n" for reply in self._kept)
        return len(self._kept)


@dataclass
class EarlyStop:
    """Passes the results of a run to `keep`, and raises RunEndedEarly when the run measures nothing.

    Failed episodes are kept only after one that was driven: if the first STOP_AFTER_FAILED of a run fail for one cause,
    the run stops instead of recording the rest of the suite as failures, and so it does at any time after two episodes
    without any answer of the agent. The same command then repeats them.

    Replies are counted over all worlds in the order of their arrival; `after_unread` in a row that cannot be read stop
    the run (0: never). A reply that is read starts the count again; failures of a model are no replies.
    """

    store: EpisodeStore
    keep: Callable[[EpisodeResult], None]
    conditions: EvaluationConditions
    after_unread: int = STOP_AFTER_UNREAD
    _held: list[EpisodeResult] = field(default_factory=list)
    _first: bool = True  # no episode was driven yet, and no different causes of failures were seen
    _unread: UnreadReplies = field(default_factory=UnreadReplies)

    def add(self, result: EpisodeResult) -> None:
        """Take the result of an episode."""
        self._first = self._first and all(record.blamed for record in self.store.records)
        if not (mute(result.record) or (result.record.blamed and self._first)):
            self._keep_held()
            self.keep(result)
            return
        self._held.append(result)
        last = [held.record for held in self._held[-STOP_AFTER_FAILED:]]
        if all(map(mute, last[-2:])) and len(last) > 1:
            self._no_answers(result.record)
        if len(last) == STOP_AFTER_FAILED:
            if len(set(map(_cause, last))) == 1:
                self._one_cause(result.record)
            self._first = False
            self._keep_held()

    def reply(self, unread: UnreadReply | None) -> None:
        """Take the next reply of a model; None: it was read."""
        self._unread.add(unread)
        if unread and self._unread.count == self.after_unread:
            self._nothing_read(unread)

    def finish(self) -> None:
        """After the last episode: keep one without any answer only if other episodes had answers."""
        held = [result.record for result in self._held]
        if held and all(map(mute, (*self.store.records, *held))):
            self._no_answers(held[-1])
        self._keep_held()

    def _keep_held(self) -> None:
        held, self._held = self._held, []
        for result in held:
            self.keep(result)

    def _one_cause(self, record: EpisodeRecord) -> None:
        raise RunEndedEarly(
            self.store,
            f"the first {STOP_AFTER_FAILED} episodes failed for one cause, a fault of the {record.blamed}: "
            f"{record.reason}. Fix that and run the same command again:",
            "the failed ones were not saved",
        )

    def _no_answers(self, record: EpisodeRecord) -> None:
        raise RunEndedEarly(
            self.store,
            f"the agent answers nothing: {record.reason}. Fix that and run the same command again:",
            "those without an answer were not saved",
        )

    def _nothing_read(self, last: UnreadReply) -> None:
        file = self.store.folder / UNREAD_FILE
        with disk_full(self.store.folder, lambda: self.store.count):
            written = self._unread.write(file)
        samples = "; ".join(str(sample) for sample in self._unread.samples())
        count = self._unread.count
        replies = "1 reply" if count == 1 else f"{count} replies in a row"
        listed = "It is" if written == 1 else f"{written} of them are"
        command = last.command(self.conditions.profile.name, self.conditions.rules.policy)
        raise RunEndedEarly(
            self.store,
            f"{replies} cannot be read: {samples}. {listed} in {file}; `{command}` shows what a text drives.",
            "those in progress were not saved. When the model answers as the prompt asks, the same command resumes; "
            "--config stop_after_unread=0 (under lmms-eval AD2_DRIVE_STOP_AFTER_UNREAD=0) drives on all the same",
            exit_code=2,  # no part failed: the user has to change the prompt, the interpreter or the model
        )
