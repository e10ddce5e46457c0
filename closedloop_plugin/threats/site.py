"""ThreatSite: lanes, junction and free stretches of a route; `fit` checks whether a ThreatSpec is possible there.

The messages of `fit` enter repair prompts: their wording is part of the measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

from pydantic import BaseModel, ConfigDict

from closedloop_plugin.core.perception import PERCEPTION_CONDITIONS
from closedloop_plugin.core.routes import Route, Weather
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.threats.spec import (
    AHEAD,
    AdversaryBehaviour,
    AdversaryLane,
    ContradictorySign,
    EgoLight,
    RoadKind,
    ThreatActor,
    ThreatSpec,
)
from closedloop_plugin.threats.words import apart

RUN_UP_M = 12.0  # route before the first possible place: the ego must be moving there
RUN_OUT_M = 10.0  # route behind the last possible place
BEND_M = 4.0  # kept free before and after a junction
# route needed before the place, m: the covering vehicle must accelerate and swerve first
LEAST_S = {AdversaryBehaviour.HIDDEN_STOP: 32.0}
# route needed behind the place, m: the emergency vehicle must pass
RUN_OUT = {AdversaryBehaviour.EMERGENCY_PASS: 40.0}
# Weather in which the sun dazzles, in CARLA's parameters.
LOW_SUN = {"sun_altitude_angle": (1, 20), "cloudiness": (0, 40), "precipitation": (0, 20), "fog_density": (0, 25)}
USUAL_SKY = asdict(Weather())  # of a route without weather


class ThreatSite(BaseModel):
    """Facts of a route on its map, in metres along the ego's route and m/s. JSON both ways."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    suite: str
    route: str
    scenario: str  # type of the standard scenario
    town: str
    map: Literal["corridor", "town"]
    length_m: float
    trigger_s: float
    speed_limit: float
    lane_width: float
    left: int  # number of further lanes in the ego's direction
    right: int
    oncoming: int
    topology: str
    junction: tuple[float, float] | None = None
    control: str = "none"  # of the junction: signal | stop | yield | none
    arms: tuple[str, ...] = ()
    weather: dict[str, float] = {}
    shows: tuple[str, ...] = PERCEPTION_CONDITIONS  # of core/perception.py, by the cameras of the site's world

    def open_stretches(self) -> list[tuple[float, float]]:
        """Intervals of s (m) without the junction where a threat can act; merges and exits count as open road."""
        first, last = min(RUN_UP_M, self.length_m / 4), self.length_m - RUN_OUT_M
        if self.junction is None or self.topology in ("merge", "diverge"):
            return [(first, last)]
        start, end = self.junction
        found = [(first, start - BEND_M), (end + BEND_M, last)]
        return [(a, b) for a, b in found if b - a >= 2.0]

    @property
    def crossing(self) -> tuple[float, float] | None:
        """(from, to) of the junction in s, m; None for merges and exits, where no traffic crosses."""
        return None if self.topology in ("merge", "diverge") else self.junction

    def room_behind_junction(self) -> list[tuple[float, float]]:
        """Like room_ahead, relative to the junction's exit: the origin of `ahead_m` on its road. At most 80 m."""
        if self.crossing is None:
            return []
        room = min(self.length_m - RUN_OUT_M - self.crossing[1], AHEAD[1])
        return [(AHEAD[0], room)] if room >= 7.0 else []

    def room_ahead(self) -> list[tuple[float, float]]:
        """open_stretches relative to the trigger, the origin of `ahead_m`; clipped to 5..80 m ahead."""
        (least, most), trigger = AHEAD, self.trigger_s
        found = [(max(a - trigger, least), min(b - trigger, most)) for a, b in self.open_stretches()]
        return [(a, b) for a, b in found if b - a >= 2.0]

    def rooms(self, behaviour: AdversaryBehaviour, lane: AdversaryLane, road: RoadKind) -> list[tuple[float, float]]:
        """Allowed intervals of `ahead_m`; it has no meaning for adversaries that cross within the junction."""
        if lane is AdversaryLane.CROSSING_ROAD:
            return [] if self.crossing is None else [AHEAD]
        found = self.room_ahead() if road is RoadKind.OPEN else self.room_behind_junction()
        origin = self.trigger_s if road is RoadKind.OPEN or self.crossing is None else self.crossing[1]
        first, last = LEAST_S.get(behaviour, 0.0) - origin, self.length_m - RUN_OUT.get(behaviour, 0.0) - origin
        clipped = [(max(a, first), min(b, last)) for a, b in found]
        return [(a, b) for a, b in clipped if b - a >= 2.0]

    def stretch(self, actor: ThreatActor) -> tuple[float, float]:
        """(from, to) of an actor's place in s, m; of the whole junction for adversaries that cross within it."""
        if actor.road is RoadKind.JUNCTION and self.crossing is not None:
            if actor.place.lane is AdversaryLane.CROSSING_ROAD:
                return self.crossing
            return self.crossing[1] + actor.place.ahead_m.low, self.crossing[1] + actor.place.ahead_m.high
        return self.trigger_s + actor.place.ahead_m.low, self.trigger_s + actor.place.ahead_m.high


def site_of(suite: str, route: Route, road: RoadMap, shows: Sequence[str] = PERCEPTION_CONDITIONS) -> ThreatSite:
    """The site of a route on its episode's map. `shows`: perception conditions that its world's cameras show."""
    lanes = road.facts.get("lanes") or {}
    junction = road.facts.get("junction") or {}
    return ThreatSite(
        suite=suite,
        route=route.id,
        scenario=route.scenario,
        town=route.town,
        map="town" if road.source == "town" else "corridor",
        length_m=round(road.path.length, 2),
        trigger_s=round(road.path.locate(*route.trigger[:2])[0], 2),
        speed_limit=round(road.speed_limit, 2),
        lane_width=round(road.lane_width, 2),
        left=int(lanes.get("left", 0)),
        right=int(lanes.get("right", 0)),
        oncoming=int(lanes.get("oncoming", 0)),
        topology=str(road.facts.get("topology", road.source)),
        junction=tuple(round(v, 2) for v in road.junctions[0]) if road.junctions else None,  # type: ignore[arg-type]
        control=str(junction.get("control", "none")),
        arms=tuple(str(arm["name"]) for arm in junction.get("arms") or ()),
        weather=asdict(route.weather),
        shows=tuple(shows),
    )


def fit(spec: ThreatSpec, site: ThreatSite) -> list[str]:
    """Problems of a spec at a site, one sentence each with the expected values; [] if it fits."""
    found = _actor_problems(spec, site)
    if spec.ego_light is not EgoLight.CYCLE and site.control != "signal":
        found.append("ego_light: the junction of this route has no traffic lights; expected cycle")
    junction = (AdversaryBehaviour.RUN_LIGHT, AdversaryBehaviour.TURN_ACROSS)
    if spec.ego_light is EgoLight.RED and any(actor.behaviour in junction for actor in spec.actors):
        found.append("ego_light: at red the ego stands, and nobody endangers it; expected green or cycle")
    for k, other in enumerate(spec.further):
        problems = _actor_problems(other, site) + _pair_problems(other, spec.actors[: k + 1], site)
        found += [f"further.{k}.{problem}" for problem in problems]
    return found + [f"perception.{problem}" for problem in _perception_problems(spec, site)]


def _actor_problems(actor: ThreatActor, site: ThreatSite) -> list[str]:
    found = []
    place = actor.place
    if actor.road is RoadKind.JUNCTION and site.crossing is None:
        found.append("road: this route has no junction; expected open")
    if place.lane is AdversaryLane.NEXT_LEFT and site.left == 0:
        found.append(f"place.lane: there is no lane on the left; {_lanes(site)}")
    if place.lane is AdversaryLane.NEXT_RIGHT and site.right == 0:
        found.append(f"place.lane: there is no lane on the right; {_lanes(site)}")
    if place.lane is AdversaryLane.ROADSIDE and place.side.value == "left" and site.left + site.oncoming > 0:
        found.append("place.side: the roadside of the ego's lane is on the right; other lanes are on the left")
    if place.lane is AdversaryLane.ROADSIDE and place.side.value == "right" and site.right > 0:
        found.append("place.lane: a lane lies between the ego and the roadside; expected next_right")
    if actor.behaviour is AdversaryBehaviour.ONCOMING and site.oncoming == 0:
        found.append("behaviour: this road has no oncoming lane")
    if actor.behaviour is AdversaryBehaviour.EMERGENCY_PASS and site.topology == "diverge" and site.right:
        found.append("behaviour: where the exit lane is the one beside it, the ego cannot make way for anybody")
    if place.lane is not AdversaryLane.CROSSING_ROAD and not (
        actor.road is RoadKind.JUNCTION and site.crossing is None
    ):
        rooms = site.rooms(actor.behaviour, place.lane, actor.road)
        found += _room(place.ahead_m.low, place.ahead_m.high, rooms)
    return found


def _pair_problems(other: ThreatActor, actors: Sequence[ThreatActor], site: ThreatSite) -> list[str]:
    """Places of a further actor that are too close to those of the actors before it."""
    found = []
    low, high = site.stretch(other)
    for actor in actors:
        need = apart(actor.behaviour, other.behaviour) or 0.0
        begin, end = site.stretch(actor)
        if max(low - end, begin - high) < need - 0.01 and need:
            found.append(
                f"place.ahead_m: {other.behaviour.value} needs {need:g} m along the road between its place and that of "
                f"{actor.behaviour.value}"
            )
    return found


def _perception_problems(spec: ThreatSpec, site: ThreatSite) -> list[str]:
    """Conditions that the site's cameras cannot show, or that would change nothing on this route."""
    perception, found = spec.perception, []
    sign = perception.contradictory_sign
    absent = sorted({*perception.numbers, *([] if sign is ContradictorySign.NONE else ["contradictory_sign"])})
    found += [f"{name}: this world does not show it; leave it out" for name in absent if name not in site.shows]
    if perception.hidden_signs is not None and site.control == "none":
        found.append("hidden_signs: this route has no sign or light to hide; leave it out")
    if sign is ContradictorySign.STOP and site.control == "stop":
        found.append("contradictory_sign: this route has a stop sign of its own; expected another word")
    return found + (_glare_problems(spec, site) if perception.sun_glare is not None else [])


def _glare_problems(spec: ThreatSpec, site: ThreatSite) -> list[str]:
    """Weather, of the spec or else of the route, in which the sun does not stand low, or does not shine."""
    found = []
    for name, (least, most) in LOW_SUN.items():
        given, usual = getattr(spec.conditions, name), site.weather.get(name, USUAL_SKY[name])
        low, high = (given.low, given.high) if given is not None else (usual, usual)
        if low < least or high > most:
            found.append(f"sun_glare: the sun must shine from low down; expected conditions.{name} {least} to {most}")
    return found


def _room(low: float, high: float, rooms: Sequence[tuple[float, float]]) -> list[str]:
    if any(a - 0.01 <= low and high <= b + 0.01 for a, b in rooms):
        return []
    if not rooms:
        return ["place.ahead_m: this route has no stretch for that"]
    allowed = " or ".join(f"{a:.0f} to {b:.0f} m" for a, b in rooms)
    return [
        f"place.ahead_m: [{low:g}, {high:g}] does not lie where there is room for it; expected numbers from {allowed}"
    ]


def _lanes(site: ThreatSite) -> str:
    lanes = [name for name, n in (("next_left", site.left), ("next_right", site.right)) if n]
    return f"expected {' or '.join(lanes)}" if lanes else "expected roadside"
