"""SeenFrame: one frame of a collection, and what its picture shows.

A question is asked only if the picture shows its answer. Three cases are distinguished for each actor: it is shown
(SHOWN_PIXELS, SHOWN_SHARE), it does not appear at all, or it appears in part, in which case nothing is asked about its
kind. To recognise a kind within its group (a van among vehicles) needs more pixels (`ThingWord.pixels`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from closedloop_plugin.core.state import ActorKind, RouteCommand, SignalState
from closedloop_plugin.core.visibility import SHOWN_PIXELS, SHOWN_SHARE
from closedloop_plugin.learn.questions.words import THING_OF, ThingWord, group_of

NIGHT_PIXELS = 24  # the same at night, when lamps alone give some
NEARER_M, NEARER = 3.0, 1.25  # the second nearest is at least so much, and so many times, farther away
DARK = 0.5  # share of night, from which on it is night
IN_LANE_M = 1.0  # to either side of the route: all of the car is in the route's lane
AHEAD = math.radians(20)  # to either side of the car's direction: round a corner nothing is "ahead"

Place = tuple[float, float]  # metres forward and to the left, in the ego's frame
PixelBox = tuple[float, float, float, float]  # x_min, y_min, x_max, y_max


@dataclass(frozen=True, kw_only=True)
class SeenSign:
    """A signal or sign. `state`: of a signal. `distance`: m along the route to its line, if it is on the route.

    share, least: as of SeenActor. lit: the picture shows the colour of a signal's lamp.
    """

    id: str
    control: str
    state: SignalState | None
    on_route: bool
    distance: float | None
    box: PixelBox | None
    pixels: int
    share: float
    lit: bool
    least: int = SHOWN_PIXELS

    @property
    def shown(self) -> bool:
        """Its front is in the picture, and enough of it. From the back, or from the side, signs look alike."""
        enough = self.box is not None and self.pixels >= self.least and self.share >= SHOWN_SHARE
        return enough and (self.lit if self.control == "signal" else self.is_ahead)

    @property
    def is_ahead(self) -> bool:
        """Whether the route still has to cross its line, so that it faces the car."""
        return self.on_route and self.distance is not None and self.distance > 0

    @property
    def appears(self) -> bool:
        return self.box is not None or self.pixels > 0


@dataclass(frozen=True, kw_only=True)
class SeenActor:
    """An actor near the ego, seen or not. `future`: its places every 0.5 s, in the present frame.

    least: pixels from which on it is shown. distances: m to the ego's centre, now and at the times of `future`, while
    the ego drives on; empty if nothing is known of them.
    """

    id: str
    kind: ActorKind
    forward: float
    left: float
    yaw: float  # relative to the ego, counter-clockwise
    speed: float
    length: float
    width: float
    lane: str
    box: PixelBox | None
    pixels: int
    share: float
    future: tuple[Place, ...] = ()
    distances: tuple[float, ...] = ()
    least: int = SHOWN_PIXELS

    @property
    def is_ahead(self) -> bool:
        return abs(math.atan2(self.left, self.forward)) <= AHEAD

    @property
    def shown(self) -> bool:
        return self.box is not None and self.pixels >= self.least and self.share >= SHOWN_SHARE

    @property
    def appears(self) -> bool:
        return self.box is not None or self.pixels > 0

    @property
    def centre(self) -> Place:
        """Centre of the box in the picture, pixels."""
        if self.box is None:
            raise ValueError(f"{self.id} has no box")
        x_min, y_min, x_max, y_max = self.box
        return (x_min + x_max) / 2, (y_min + y_max) / 2

    @cached_property
    def gap(self) -> float:
        """Metres from the ego's centre to the actor's nearest side."""
        angle = self.yaw - math.atan2(self.left, self.forward)
        half = (self.length * abs(math.cos(angle)) + self.width * abs(math.sin(angle))) / 2
        return max(0.0, math.hypot(self.forward, self.left) - half)

    @property
    def word(self) -> ThingWord:
        """The most exact word that the picture supports."""
        exact = THING_OF[self.kind]
        return exact if self.pixels >= exact.pixels else group_of(self.kind)


@dataclass(frozen=True, kw_only=True)
class SeenFrame:
    """One frame. `episode`: the folder of its drive; `image`: the picture's path in the collection; size in pixels.

    in_lane: the car is in the lane of the route, from which the lanes of actors are counted.
    """

    id: str
    episode: str
    route: str
    scenario: str
    image: str
    size: tuple[int, int]
    speed: float
    speed_limit: float
    command: RouteCommand
    action: str
    acceleration: float
    reason: str
    reason_actor: str | None
    actors: tuple[SeenActor, ...]
    signs: tuple[SeenSign, ...]
    weather: Mapping[str, float]
    night: float
    in_lane: bool = True
    time_s: float = 0.0
    stays_free: bool | None = (
        None  # nobody and no sign slows the expert in the next 3 s; None if not known to their end
    )

    @cached_property
    def lane_ahead(self) -> tuple[SeenActor, ...]:
        """The actors in the route's lane, shown or not, the nearest first."""
        return tuple(sorted((a for a in self.actors if a.lane == "own" and a.forward > 0), key=lambda a: a.forward))

    def presence(self, word: ThingWord) -> bool | None:
        """Whether the picture shows something of this word; None if a person could not be sure."""
        members = [actor for actor in self.actors if actor.kind in word.kinds]
        if any(self._clear(actor, word) for actor in members):
            return True
        if any(actor.appears for actor in members) or not self._rivals_are_clear(word):
            return None
        return False

    def single(self, word: ThingWord) -> SeenActor | None:
        """The only actor of this word in the picture; None without one, with several, or if it is not clear."""
        appearing = [actor for actor in self.actors if actor.kind in word.kinds and actor.appears]
        if len(appearing) != 1 or not self._clear(appearing[0], word) or not self._rivals_are_clear(word):
            return None
        return appearing[0]

    def nearest(self, word: ThingWord) -> SeenActor | None:
        """The clearly nearest of several; None if a nearer one may be hidden in part, if the distances are alike, or
        if something in the picture looks like one (the rider of a bicycle like a person).
        """
        appearing = sorted((a for a in self.actors if a.kind in word.kinds and a.appears), key=lambda a: a.gap)
        if len(appearing) < 2 or not appearing[0].shown or not self._rivals_are_clear(word):
            return None
        first, second = appearing[0].gap, appearing[1].gap
        return appearing[0] if second >= max(first + NEARER_M, first * NEARER) else None

    def count(self, word: ThingWord) -> int | None:
        """The number of actors of this word, if each is either clearly shown or not in the picture at all."""
        appearing = [actor for actor in self.actors if actor.kind in word.kinds and actor.appears]
        if not all(self._clear(actor, word) for actor in appearing) or not self._rivals_are_clear(word):
            return None
        return len(appearing)

    def actor(self, id: str | None) -> SeenActor | None:
        return next((actor for actor in self.actors if actor.id == id), None)

    @staticmethod
    def _clear(actor: SeenActor, word: ThingWord) -> bool:
        return actor.shown and actor.pixels >= word.pixels

    def _rivals_are_clear(self, word: ThingWord) -> bool:
        """Whether nothing in the picture could be mistaken for this word."""
        rivals = [a for a in self.actors if a.appears and a.kind in word.rivals]
        similar = any(a.appears and a.kind in word.confused_with for a in self.actors)
        return not similar and all(self._clear(rival, word) for rival in rivals)
