"""EarlyStop: ends a run that measures nothing, because its agent does not answer or its replies cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.runner.episode import EpisodeResult, EvaluationConditions
from closedloop_plugin.runner.store import EpisodeStore, disk_full, saved
from closedloop_plugin.runner.unread_replies import UnreadReplies, UnreadReply
from lmms_eval_ad2.errors import Ad2Error

STOP_AFTER_UNREAD = 20
UNREAD_FILE = "logs/unread.jsonl"


class RunEndedEarly(Ad2Error):
    """The error of EarlyStop. Its text is made when it is printed: until then results of other worlds are kept."""

    def __init__(self, store: EpisodeStore, reason: str, rest: str) -> None:
        super().__init__(reason, rest)
        self.store, self.reason, self.rest = store, reason, rest

    def __str__(self) -> str:
        return f"{self.reason} {saved(self.store.count)}, {self.rest}"


def mute(record: EpisodeRecord) -> bool:
    """Whether none of its requests was answered."""
    return record.end == EndReason.AGENT_FAILED and record.counts.get("agent_errors", 0) == record.counts.get(
        "decisions", 0
    )


@dataclass
class EarlyStop:
    """Passes the results of a run to `keep`, and raises RunEndedEarly when the run measures nothing.

    An episode without any answer is kept only after a later one with answers: if the model server is gone, the run
    stops instead of recording the rest of the suite as failures.

    Replies are counted over all worlds in the order of their arrival; `after_unread` in a row that cannot be read stop
    the run (0: never). A reply that is read starts the count again; failures of a model are no replies.
    """

    store: EpisodeStore
    keep: Callable[[EpisodeResult], None]
    conditions: EvaluationConditions
    after_unread: int = STOP_AFTER_UNREAD
    _held: EpisodeResult | None = None
    _unread: UnreadReplies = field(default_factory=UnreadReplies)

    def add(self, result: EpisodeResult) -> None:
        """Take the result of an episode."""
        if mute(result.record):
            if self._held:
                self._no_answers(result.record)
            self._held = result
            return
        self._keep_held()
        self.keep(result)

    def reply(self, unread: UnreadReply | None) -> None:
        """Take the next reply of a model; None: it was read."""
        self._unread.add(unread)
        if unread and self._unread.count == self.after_unread:
            self._nothing_read(unread)

    def finish(self) -> None:
        """After the last episode: keep one without any answer only if other episodes had answers."""
        if self._held and not any(not mute(r) for r in self.store.records):
            self._no_answers(self._held.record)
        self._keep_held()

    def _keep_held(self) -> None:
        held, self._held = self._held, None
        if held:
            self.keep(held)

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
        command = last.command(self.conditions.profile.name, self.conditions.rules.policy)
        raise RunEndedEarly(
            self.store,
            f"{_replies(self._unread.count)} cannot be read: {samples}. {_listed(written)} in {file}; "
            f"`{command}` shows what a text drives.",
            "those in progress were not saved. When the model answers as the prompt asks, the same command resumes; "
            "--stop-after-unread 0 (under lmms-eval AD2_DRIVE_STOP_AFTER_UNREAD=0) drives on all the same",
        )


def _replies(count: int) -> str:
    return "1 reply" if count == 1 else f"{count} replies in a row"


def _listed(count: int) -> str:
    return "It is" if count == 1 else f"{count} of them are"
