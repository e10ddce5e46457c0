"""EpisodeObserver: follows an episode tick by tick and summarises what its driver did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from closedloop_plugin.core.boxes import gap, oriented_box
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import Actor, Control, GroundTruth
from closedloop_plugin.driver.agents.model_backend import harmless
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.runner.decisions import TimedDecision
from closedloop_plugin.runner.episode import EpisodeTick
from closedloop_plugin.scoring.margins import SafetyMargins
from closedloop_plugin.threats.driven.summary import (
    MAX_ACTORS,
    MAX_PLACES,
    MAX_POINTS,
    MAX_REPLIES,
    MAX_STOPS,
    REPLY_LENGTH,
    DriveInfraction,
    DriveReaction,
    DriverReply,
    DriveStop,
    DriveSummary,
    ScenarioActorTrack,
    ScenarioMargins,
)
from closedloop_plugin.threats.robustness import failed, robustness
from closedloop_plugin.threats.spec_parsing import short
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


STANDS = 0.3  # m/s: slower is a standstill
STOP_S = 1.0  # shortest standstill that is listed
POINT_M, POINT_S = 2.0, 1.0  # between points of the profile, whichever comes first
CHANGE = 0.1  # more brake than at the act: a reaction; a throttle that falls from more than this to LIFTED is one too
LIFTED = 0.02
BRAKES = 1 / 3  # brake: a clear one
KEPT_REPLIES = 400  # kept until the summary is written
ItemT = TypeVar("ItemT")


class EpisodeObserver:
    """Call `add` once per tick, then `summary`."""

    def __init__(self, road: RoadMap, trigger_s: float) -> None:
        self.road, self.trigger_s = road, trigger_s
        self.replies: list[DriverReply] = []
        self._margins, self._scenario_margins = SafetyMargins(), SafetyMargins()
        self._closest: tuple[float, float] | None = None  # time, s of the smallest gap
        self._ttc_time: float | None = None
        self._profile: list[tuple[float, float, float]] = []
        self._stops: list[DriveStop] = []
        self._stands_since: tuple[float, float] | None = None
        self._reaction: DriveReaction | None = None
        self._act: tuple[float, Control] = (0.0, Control())  # time of the act, and the control then
        self._touched = False  # what it does after a contact is no reaction to the act
        self._actors = ScenarioActorTracks(road)
        self._s: float | None = None
        self._first = self._furthest = 0.0

    def add(self, tick: EpisodeTick) -> float:
        """Add a tick; return the ego's s, m."""
        truth, ego = tick.truth, tick.truth.ego
        s, _ = self.road.path.locate(ego.x, ego.y, near=self._s)
        if self._s is None:
            self._first = self._furthest = s
        self._s, self._furthest = s, max(self._furthest, s)
        self._add_point(truth.time_s, s, ego.speed)
        self._add_stop(truth.time_s, s, ego.speed)
        self._add_margins(truth, s)
        self._add_reaction(truth, tick.control, s)
        self._add_reply(tick.decision, truth, tick.control, s)
        self._actors.add(truth)
        return s

    def summary(self, record: EpisodeRecord) -> DriveSummary:
        """The summary of a scored episode. `record`: its record."""
        margins, rho = self._margins.to_json(), robustness(record)
        own = self._scenario_margins.to_json()
        assert rho is not None
        self._end_stop(record.game_s)
        closest = self._closest or (None, None)
        return DriveSummary(
            status=record.status,
            failed=failed(record),
            score=round(record.score_composed, 2),
            robustness=round(rho, 4),
            game_s=round(record.game_s, 2),
            driven_m=round(self._furthest - self._first, 1),
            route_m=round(record.route_length_m, 1),
            trigger_s=self.trigger_s,
            infractions=self._infractions(record),
            profile=_spread(self._profile, MAX_POINTS),
            stops=self._stops[:MAX_STOPS],
            min_gap_m=margins["min_gap_m"],
            gap_time_s=closest[0],
            gap_s=closest[1],
            nearest=margins["nearest"],
            min_ttc_s=margins["min_ttc_s"],
            ttc_time_s=self._ttc_time,
            scenario_margins=ScenarioMargins(gap_m=own["min_gap_m"], nearest=own["nearest"], ttc_s=own["min_ttc_s"]),
            hardest_brake=margins["hardest_brake"],
            reaction=self._reaction,
            actors=self._actors.found[:MAX_ACTORS],
            replies=_spread(self.replies, MAX_REPLIES),
        )

    def _add_point(self, time_s: float, s: float, speed: float) -> None:
        if self._profile:
            before_s, before, _ = self._profile[-1]
            if s - before < POINT_M and time_s - before_s < POINT_S - 1e-6:
                return
        self._profile.append((round(time_s, 2), round(s, 1), round(speed, 2)))
        if len(self._profile) >= 4 * MAX_POINTS:
            self._profile = self._profile[::2]

    def _add_stop(self, time_s: float, s: float, speed: float) -> None:
        if abs(speed) >= STANDS:
            self._end_stop(time_s)
        elif self._stands_since is None:
            self._stands_since = (time_s, s)

    def _end_stop(self, time_s: float) -> None:
        if self._stands_since is None:
            return
        (since, s), self._stands_since = self._stands_since, None
        if time_s - since >= STOP_S and len(self._stops) < MAX_STOPS:
            self._stops.append(DriveStop(s=round(s, 1), time_s=round(since, 1), seconds=round(time_s - since, 1)))

    def _add_margins(self, truth: GroundTruth, s: float) -> None:
        before = self._margins.to_json()
        self._margins.add(truth)
        after = self._margins.to_json()
        if after["min_gap_m"] != before["min_gap_m"]:
            self._closest = (round(truth.time_s, 2), round(s, 1))
        if after["min_ttc_s"] != before["min_ttc_s"]:
            self._ttc_time = round(truth.time_s, 2)
        own = tuple(a for a in truth.actors if is_scenario_actor(a.id, a.role))
        names = {a.id for a in own}
        contacts = tuple(c for c in truth.contacts if c.actor in names)
        self._scenario_margins.add(replace(truth, actors=own, contacts=contacts))

    def _add_reaction(self, truth: GroundTruth, control: Control, s: float) -> None:
        found = self._reaction
        if found is None:
            if any(name == "act" for _, name in truth.events):
                self._act = (truth.time_s, control)
                self._reaction = DriveReaction(
                    act_s=round(truth.time_s, 2),
                    s=round(s, 1),
                    speed=round(truth.ego.speed, 2),
                    gap_m=_scenario_gap(truth),
                )
            return
        self._touched |= bool(truth.contacts) and found.seconds is None
        if self._touched:
            return
        time_s, before = self._act
        if found.brake_s is None and control.brake >= BRAKES:
            found.brake_s = round(truth.time_s - time_s, 2)
        if found.seconds is None and _changed(before, control):
            found.seconds, found.reaction_gap_m = round(truth.time_s - time_s, 2), _scenario_gap(truth)

    def _add_reply(self, decision: TimedDecision | None, truth: GroundTruth, control: Control, s: float) -> None:
        if decision is None or not decision.response.decision.texts:
            return
        texts = {str(k): short(harmless(str(v)), REPLY_LENGTH) for k, v in decision.response.decision.texts.items()}
        numbers = (round(control.steer, 2), round(control.throttle, 2), round(control.brake, 2))
        reply = DriverReply(
            time_s=round(truth.time_s, 2), s=round(s, 1), speed=round(truth.ego.speed, 2), texts=texts, control=numbers
        )
        if len(self.replies) < KEPT_REPLIES:
            self.replies.append(reply)

    def _infractions(self, record: EpisodeRecord) -> list[DriveInfraction]:
        """Those with a place first; min_speed_infractions have none, and are no failure."""
        found = []
        for place in record.places[:MAX_PLACES]:
            s, _ = self.road.path.locate(place["x"], place["y"])
            text = short(harmless(str(place.get("text", ""))), 200)
            found.append(
                DriveInfraction(kind=str(place["kind"]), text=text, time_s=round(place["time_s"], 2), s=round(s, 1))
            )
        placed = {x.kind for x in found}
        for kind, messages in record.infractions.items():
            if messages and kind not in placed and len(found) < MAX_PLACES:
                found.append(DriveInfraction(kind=kind, text=short(harmless(str(messages[0])), 200)))
        return found


def _changed(before: Control, after: Control) -> bool:
    """Whether the pedals show a reaction; steering is none, since it follows the route too."""
    return after.brake - before.brake >= CHANGE or (before.throttle > CHANGE and after.throttle <= LIFTED)


def _scenario_gap(truth: GroundTruth) -> float | None:
    """Smallest distance (m) from the ego's box to that of an actor of the scenario."""
    gaps = [gap(_box(truth.ego), _box(a)) for a in truth.actors if is_scenario_actor(a.id, a.role)]
    return round(min(gaps), 2) if gaps else None


def _box(actor: Actor) -> tuple[float, float, float, float, float, float]:
    return oriented_box(actor.x, actor.y, actor.yaw, actor.length, actor.width)


def _spread(items: Sequence[ItemT], most: int) -> list[ItemT]:
    """At most `most` items, evenly spread, with the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]
