"""KnownTruth: the part of the truth that a driver with one camera can know, from which the labels of frames are made.

The expert waits for cars behind it, for those that will come, and for a permission to use the oncoming lane. In the
picture the road is free, so a model that learns to say what such an expert says stands on free roads. What a driver
knows here: what stands still, what the camera shows, and what it has shown within the last MEMORY_S.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from closedloop_plugin.core.state import Actor, GroundTruth
from closedloop_plugin.core.visibility import VisibleExtent
from closedloop_plugin.driver.agents.planning import gaps
from closedloop_plugin.driver.agents.planning.gaps import GapMemory
from closedloop_plugin.learn.shown_reason import LEAST_PIXELS, MOVES_M_S

MEMORY_S = 3.0
UNSEEN = VisibleExtent()


class KnownTruth:
    """The known part of one episode. two_ways: the oncoming lane may be used to pass what blocks the road."""

    def __init__(self, two_ways: bool) -> None:
        self._two_ways = two_ways
        self._seen: dict[str, float] = {}  # id of an actor -> time at which the camera showed it last, s
        self._lines = GapMemory()

    def of(self, truth: GroundTruth, visible: Mapping[str, VisibleExtent]) -> GroundTruth:
        """Without the actors that are not known, and the streams of which no car is. Ticks must come in order."""
        for actor in truth.actors:
            if visible.get(actor.id, UNSEEN).pixels >= LEAST_PIXELS:
                self._seen[actor.id] = truth.time_s
        known = replace(truth, actors=tuple(a for a in truth.actors if self._knows(a, truth.time_s)))
        lines = {stream.name: self._lines.line(stream) for stream in truth.streams}
        streams = tuple(x for x in truth.streams if any(gaps.belongs(a, x, lines[x.name]) for a in known.actors))
        return replace(known, streams=streams, oncoming_allowed=truth.oncoming_allowed or self._two_ways)

    def _knows(self, actor: Actor, time_s: float) -> bool:
        return abs(actor.speed) <= MOVES_M_S or time_s <= self._seen.get(actor.id, -math.inf) + MEMORY_S
