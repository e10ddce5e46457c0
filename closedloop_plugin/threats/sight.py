"""Whether the camera shows an actor of a scenario before it acts, from the visible pixels of its pictures.

An actor that something hides is a threat to a driver's attention only if the pictures do not show it. What counts as
shown: core/visibility.py. Only worlds that measure their pictures (the embedded one) can tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from closedloop_plugin.core.state import STATIC
from closedloop_plugin.runner.episode import EpisodeTick
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.verdicts import is_scenario_actor
from closedloop_plugin.worlds.base import WorldError
from lmms_eval_ad2.core.errors import Ad2Error

INTERVAL_S = 0.5  # between measured pictures
NEAR_M = 80.0  # of the ego: farther bodies have too few pixels in a picture of the check


def hidden_act(spec: ThreatSpec | None) -> str | None:
    """The event with which the hidden actor of a spec acts; None if it has none. "act" of a program without a spec,
    whose actors may be hidden or not."""
    if spec is None:
        return "act"
    number = next((n for n, actor in enumerate(spec.actors, 1) if actor.occluder.value != "none"), None)
    if number is None:
        return None
    return f"act {number}" if spec.further else "act"


class SightBeforeAct:
    """Call once per tick. `first`: when each moving actor was first shown, by id; None if the world cannot measure it.

    `act`: the event that ends the measurement.
    """

    def __init__(self, camera: str, act: str) -> None:
        self.camera, self.act = camera, act
        self.first: dict[str, float] | None = {}
        self.act_s: float | None = None
        self._next_s = 0.0

    def __call__(self, tick: EpisodeTick) -> None:
        truth = tick.truth
        if self.first is None or self.act_s is not None:
            return
        self.act_s = next((time_s for time_s, name in truth.events if name == self.act), None)
        if self.act_s is not None or truth.time_s < self._next_s - 1e-6:
            return
        self._next_s = truth.time_s + INTERVAL_S
        ego = truth.ego
        near = [
            actor.id
            for actor in truth.actors
            if is_scenario_actor(actor.id, actor.role)
            and actor.kind not in STATIC
            and actor.id not in self.first
            and math.hypot(actor.x - ego.x, actor.y - ego.y) <= NEAR_M
        ]
        if near:
            self._measure(tick, near)

    def _measure(self, tick: EpisodeTick, near: list[str]) -> None:
        assert self.first is not None
        try:
            extents = None if tick.visible is None else tick.visible(self.camera)
        except (Ad2Error, WorldError):  # a failed world; the record has the reason
            extents = None
        if extents is None:
            self.first = None
            return
        self.first |= {name: tick.truth.time_s for name in near if name in extents and extents[name].shown}

    def to_json(self) -> Mapping[str, object] | None:
        """{"act_s": ..., "first": {id: s}}; None if it was not measured, or the actor did not act."""
        if self.first is None or self.act_s is None:
            return None
        return {"act_s": round(self.act_s, 3), "first": {name: round(s, 3) for name, s in self.first.items()}}
