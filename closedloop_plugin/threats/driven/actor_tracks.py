"""ScenarioActorTracks: where the actors of the driven scenario were along the route."""

from __future__ import annotations

import math

from closedloop_plugin.core.state import Actor, GroundTruth
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.threats.driven.summary import ScenarioActorTrack
from closedloop_plugin.threats.verdicts import is_scenario_actor

INTERVAL_S = 1.0  # between samples
BESIDE_M = 8.0  # an actor farther from the ego's path is not beside the route
MOVED_M = 0.5  # from where an actor was first seen: it moves


class ScenarioActorTracks:
    """Call `add` once per tick, then read `found`."""

    def __init__(self, road: RoadMap) -> None:
        self.road = road
        self._next_s = 0.0
        self._first: dict[str, tuple[float, float]] = {}
        self._tracks: dict[str, ScenarioActorTrack] = {}

    @property
    def found(self) -> list[ScenarioActorTrack]:
        """The tracks, by `low`."""
        return sorted(self._tracks.values(), key=lambda t: (t.low, t.high))

    def add(self, truth: GroundTruth) -> None:
        if truth.time_s < self._next_s - 1e-6:
            return
        self._next_s = truth.time_s + INTERVAL_S
        for actor in truth.actors:
            if is_scenario_actor(actor.id, actor.role):
                self._see(actor)

    def _see(self, actor: Actor) -> None:
        x, y = self._first.setdefault(actor.id, (actor.x, actor.y))
        moves = math.hypot(actor.x - x, actor.y - y) > MOVED_M
        before = self._tracks.get(actor.id)
        if before is not None and not moves and not before.moves:
            return
        s, d = self.road.path.locate(actor.x, actor.y)
        if abs(d) > BESIDE_M:
            return
        s, d = round(s, 1), round(abs(d), 1)
        self._tracks[actor.id] = ScenarioActorTrack(
            kind=actor.kind.value,
            low=min(s, before.low) if before else s,
            high=max(s, before.high) if before else s,
            d=min(d, before.d) if before else d,
            moves=moves or (before is not None and before.moves),
        )
