"""AgentWithHistory: an agent whose requests contain the last decisions of their episode (`--config history=N`)."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from closedloop_plugin.core.image_encoding import SentImages, image_encodings
from closedloop_plugin.core.state import Decision
from closedloop_plugin.driver.agent import Agent, DecisionRequest, PastDecision, is_concurrent
from lmms_eval_ad2.core.errors import Ad2Error

MOST = 64  # decisions
MOST_BYTES = 4 * 2**30  # of the frames of all episodes


def with_history(agent: Agent, length: int, most_bytes: int = MOST_BYTES) -> Agent:
    """The agent with a history of `length` decisions; unchanged for 0. Raises Ad2Error for a length out of bounds."""
    if not 0 <= length <= MOST:
        raise Ad2Error(f"--config history={length}: from 0 to {MOST}")
    size = (length + 1) * sum(camera.width * camera.height * 3 for camera in agent.cameras)
    if length and size > most_bytes:
        raise Ad2Error(
            f"--config history: the frames of {length} decisions take {size / 2**30:.1f} GiB per episode, and at most "
            f"{most_bytes / 2**30:g} GiB are kept for all; use a smaller --size or a shorter history"
        )
    return AgentWithHistory(agent, length, most_bytes) if length else agent


@dataclass
class EpisodeHistory:
    """Decisions of one episode. `latest` moves to `past` when the next request tells the control that followed."""

    past: deque[PastDecision]
    latest: PastDecision | None = None
    frame_bytes: int = 0
    dropped: bool = False

    def recall(self, request: DecisionRequest) -> tuple[PastDecision, ...]:
        """The decisions before this request. A request that is repeated does not see its first try."""
        if self.latest is not None and self.latest.observation.tick < request.observation.tick:
            self.past.append(replace(self.latest, control=request.applied))
        self.latest = None
        return tuple(self.past)

    def remember(self, latest: PastDecision) -> None:
        self.latest = latest
        kept = (*self.past, latest)
        self.frame_bytes = sum(getattr(past.observation.images, "nbytes", 0) for past in kept)

    def drop(self) -> None:
        self.past.clear()
        self.latest, self.frame_bytes, self.dropped = None, 0, True


class AgentWithHistory:
    """Passes the last `length` decisions of its episode to the agent with every request.

    The history is empty at the start of an episode and is discarded at its end. Frames are copies of the images of the
    agent's cameras at the times of decisions. If the frames of all episodes take more than `most_bytes`, those of the
    episode that asked least recently are dropped; its further decisions are errors, because they would differ.
    """

    def __init__(self, agent: Agent, length: int, most_bytes: int = MOST_BYTES) -> None:
        self.agent, self.length, self.most_bytes = agent, length, most_bytes
        self.name, self.privileged, self.local, self.cameras = agent.name, agent.privileged, agent.local, agent.cameras
        self.concurrent, self.encodings = is_concurrent(agent), image_encodings(agent)
        self._lock = threading.Lock()  # of the episodes
        self._episodes: OrderedDict[str, EpisodeHistory] = OrderedDict()  # the one that asked last at the end

    def start(self, episode: str, seed: int) -> None:
        with self._lock:
            self._episodes.pop(episode, None)
        self.agent.start(episode, seed)

    def end(self, episode: str) -> None:
        with self._lock:
            self._episodes.pop(episode, None)
        self.agent.end(episode)

    def describe(self) -> dict[str, Any]:
        """The agent's description with the length of the history, which thereby is part of a run's identity."""
        return {**self.agent.describe(), "history": self.length}

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        """See Agent.decide."""
        with self._lock:
            histories = [self._history(request.episode) for request in requests]
            complete = [i for i, history in enumerate(histories) if not history.dropped]
            asked = [replace(requests[i], history=histories[i].recall(requests[i])) for i in complete]
        answered = self.agent.decide(asked) if asked else []
        if len(answered) != len(asked):
            return answered  # an error of the agent, which the runner reports
        why = f"its history was dropped: frames of more than {self.most_bytes / 2**30:g} GiB; use a smaller --size"
        decisions = [Decision(error=why)] * len(requests)
        for i, decision in zip(complete, answered, strict=True):
            decisions[i] = decision
            with self._lock:
                if self._episodes.get(requests[i].episode) is histories[i]:  # else its world was lost meanwhile
                    self._remember(requests[i], decision, histories[i])
        return decisions

    def _history(self, episode: str) -> EpisodeHistory:
        history = self._episodes.setdefault(episode, EpisodeHistory(deque(maxlen=self.length)))
        self._episodes.move_to_end(episode)
        return history

    def _remember(self, request: DecisionRequest, decision: Decision, history: EpisodeHistory) -> None:
        images = request.observation.images
        if not isinstance(images, SentImages):  # of a world in this process, which may reuse its arrays
            images = SentImages({camera.name: images(camera.name).copy() for camera in self.cameras}, {})
        seen = replace(request.observation, images=images)
        history.remember(PastDecision(seen, decision, control=None))
        kept = [history for history in self._episodes.values() if history.frame_bytes]
        while len(kept) > 1 and sum(history.frame_bytes for history in kept) > self.most_bytes:
            kept.pop(0).drop()
