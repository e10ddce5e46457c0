"""Cause of a failed episode: the threat, the standard scenario, both, or the driver itself.

Each infraction (but min_speed_infractions, which are no failure) has one source, by the body that it names:

    threat     a body of the program (ids s1, s2 ...)
    standard   a body of the standard scenario (r1, r2 ... under a program; s1, s2 ... on a route without a program)
    itself     background traffic, a building, or no body

Named are the body of a collision, the emergency vehicle of "failed to yield", and the body straight ahead of an ego
that got blocked. Red lights, stop signs, left lanes, deviations and time limits name none: the driver alone can avoid
them.

The episode's cause is what its infractions' sources are together: `both` with a body of each, else the one that is
involved, else `itself`. An episode that failed without an infraction (a limit of ticks, a reply that ended it) failed
by itself.

A driver may fail in the same way without the threat. `new` compares the first infraction with the driver's episode on
the standard route: whether that has none of the same kind and source.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from closedloop_plugin.core.record import PROGRAM, EpisodeRecord
from closedloop_plugin.core.state import FAILED

_SLOW = "min_speed_infractions"
_BODY = re.compile(r"(?P<letter>[sr])\d+")
_HIT = re.compile(r"\bid=(?P<id>\S+)")  # of a collision's message


class CauseSource(StrEnum):
    """What an infraction or an episode failed by."""

    THREAT = "threat"
    BOTH = "both"  # of an episode only
    STANDARD = "standard"
    ITSELF = "itself"


CAUSE_TITLES = {
    CauseSource.THREAT: "by the threat",
    CauseSource.BOTH: "by both",
    CauseSource.STANDARD: "by the standard scenario",
    CauseSource.ITSELF: "by itself",
}


@dataclass(frozen=True)
class CausedInfraction:
    """An infraction, or the episode's status if it failed without one. `time_s`: None if the record has none; `actor`:
    "" if no body is named."""

    kind: str
    source: CauseSource
    time_s: float | None = None
    actor: str = ""

    def __str__(self) -> str:
        """Text such as "collisions vehicle (s1) at 5.1 s"."""
        who = f" ({self.actor})" if self.actor else ""
        return self.kind.replace("_", " ") + who + ("" if self.time_s is None else f" at {self.time_s:.1f} s")


@dataclass(frozen=True)
class FailureCause:
    """Cause of a failed episode. `new`: the first infraction is absent from the driver's episode on the standard route;
    None if that is not known."""

    by: CauseSource
    first: CausedInfraction
    new: bool | None = None

    @property
    def by_threat(self) -> bool:
        """Whether the threat made the driver fail: a body of it is involved, or the standard route had no such
        infraction."""
        return self.by in (CauseSource.THREAT, CauseSource.BOTH) or self.new is True

    def __str__(self) -> str:
        """Text such as "by both, first: collisions vehicle (r1) at 8.8 s"."""
        return f"{CAUSE_TITLES[self.by]}, first: {self.first}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def cause_of(record: EpisodeRecord, standard: EpisodeRecord | None = None) -> FailureCause | None:
    """The cause of an episode; None if the driver did not fail, or the episode could not be scored.

    `standard`: the same driver's episode on the route without the program; one that could not be scored counts as
    unknown.
    """
    return cause_from(caused_infractions(record), None if standard is None else caused_infractions(standard))


def cause_from(
    found: Sequence[CausedInfraction] | None, standard: Sequence[CausedInfraction] | None = None
) -> FailureCause | None:
    """`cause_of` from the results of `caused_infractions`."""
    if not found:
        return None
    sources = {infraction.source for infraction in found}
    both = {CauseSource.THREAT, CauseSource.STANDARD}
    by = CauseSource.BOTH if sources >= both else min(sources, key=list(CauseSource).index)
    first = found[0]
    known = None if standard is None else {(other.kind, other.source) for other in standard}
    return FailureCause(by, first, None if known is None else (first.kind, first.source) not in known)


def caused_infractions(record: EpisodeRecord) -> tuple[CausedInfraction, ...] | None:
    """The infractions of an episode with their sources, by time; those without a time last. Empty if the driver did not
    fail, None if the episode could not be scored."""
    if record.end in FAILED:
        return None
    return () if record.unharmed else tuple(_caused(record))


def _caused(record: EpisodeRecord) -> Iterator[CausedInfraction]:
    places = [place for place in record.places if place.get("kind") != _SLOW]
    for place in sorted(places, key=lambda p: float(p["time_s"])):
        kind, text = str(place["kind"]), str(place.get("text", ""))
        actor = str(place.get("actor", "")) or _hit(kind, text)
        yield CausedInfraction(kind, _source(actor, record), float(place["time_s"]), actor)
    placed = {place["kind"] for place in places}
    bare = [
        (kind, _hit(kind, text))
        for kind, texts in record.infractions.items()
        if kind != _SLOW and kind not in placed
        for text in texts
    ]
    yield from (CausedInfraction(kind, _source(actor, record), None, actor) for kind, actor in bare)
    if not places and not bare:
        yield CausedInfraction(record.status, CauseSource.ITSELF, record.game_s)


def _hit(kind: str, text: str) -> str:
    """The id in the message of a collision: records of version 0.11 and before have no `actor`."""
    found = _HIT.search(text) if kind.startswith("collisions") else None
    return found["id"] if found else ""


def _source(actor: str, record: EpisodeRecord) -> CauseSource:
    body = _BODY.fullmatch(actor)
    if body is None:
        return CauseSource.ITSELF
    has_program = record.scenario == PROGRAM or "program" in record.world
    return CauseSource.THREAT if body["letter"] == "s" and has_program else CauseSource.STANDARD


def counts_text(causes: Sequence[FailureCause | None]) -> str:
    """Numbers of episodes by cause; None is one without failure."""
    failures = [cause for cause in causes if cause is not None]
    counts = Counter(cause.by for cause in failures)
    parts = [f"{title} {counts[source]}" for source, title in CAUSE_TITLES.items()]
    first = sum(cause.first.source is CauseSource.THREAT for cause in failures)
    text = f"{', '.join(parts)}, none {len(causes) - len(failures)}; first by the threat {first}"
    if all(cause.new is None for cause in failures):
        return text
    return f"{text}; first not on the standard route {sum(cause.new is True for cause in failures)}"
