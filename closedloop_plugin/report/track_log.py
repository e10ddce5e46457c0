"""TrackLog: poses of all actors of an episode, small enough to keep for every episode (under 300 kB of JSON).

    {"format": 1, "every_s", "road": {...} | null, "ego": {"length", "width"},
     "bodies": {id: {"kind", "role", "length", "width"}},
     "samples": [{"t", "tick", "ego": [x, y, yaw, speed], "control": [steer, throttle, brake], "surface",
                  "actors": {id: [x, y, yaw] | null}, "signals": {line id: state}, "said": {...}}],
     "events": [[t, name]], "places": [...], "result": {...}}

Map frame, metres, radians, m/s, seconds. `actors` and `signals` contain changes since the previous sample; null: the
actor is gone, or farther away than 120 m. If an episode becomes too large, every second sample is dropped and `every_s`
is doubled, as often as needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from closedloop_plugin.core.driver_name import driver_name
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import Actor, Control, GroundTruth
from closedloop_plugin.maps.base import RoadMap

FORMAT = 1
RADIUS_M = 120.0
TEXT = 300  # characters kept of each text
BUDGET = 200_000  # approximate characters of all samples; with road and bodies the file stays under 300 kB
ROUTE_STEP_M = 2.0


class TrackLog:
    """Track of one episode. `add` is called at every tick; a sample is kept every `every_s` and for the last tick."""

    def __init__(self, every_s: float = 0.5) -> None:
        self.every_s = every_s
        self._samples: list[dict[str, Any]] = []
        self._bodies: dict[str, dict[str, Any]] = {}
        self._ego: dict[str, float] = {}
        self._known: dict[str, list[float]] = {}  # actor -> last written pose
        self._signals: dict[str, str] = {}
        self._note: dict[str, Any] | None = None
        self._touched: set[str] = set()  # actors in contact with the ego in the previous tick
        self._due = 0.0  # time of the next sample
        self._size = 0
        self._last: tuple[GroundTruth, Control] | None = None

    def add(self, truth: GroundTruth, control: Control, note: Mapping[str, Any] | None = None) -> None:
        """`note`: on the decision whose control begins to apply in the step to this tick, all optional: texts
        {task: answer}, error, raw, reason, mode; asked_s and arrived_s, s, if it was delayed."""
        if note is not None:
            self._note = _short(note)
        self._last = truth, control
        touched = {c.actor for c in truth.contacts}
        due = truth.time_s >= self._due - 1e-9
        if due or not touched <= self._touched:  # also at the begin of a contact
            self._sample(truth, control)
        if due:
            self._due = truth.time_s + self.every_s
        self._touched = touched

    def to_json(self, road: RoadMap | None = None, record: EpisodeRecord | None = None) -> dict[str, Any]:
        """The track as JSON. `road`: for route and stop lines; `record`: for the places of infractions and scores."""
        if self._last is not None and (not self._samples or self._last[0].tick != self._samples[-1]["tick"]):
            self._sample(*self._last)
        return {
            "format": FORMAT,
            "every_s": self.every_s,
            "road": None if road is None else _road(road),
            "ego": self._ego,
            "bodies": self._bodies,
            "samples": self._samples,
            "events": [] if self._last is None else [list(e) for e in self._last[0].events],
            "places": [] if record is None else record.places,
            "result": {} if record is None else result_of(record),
        }

    def _sample(self, truth: GroundTruth, control: Control) -> None:
        ego = truth.ego
        self._ego = self._ego or {"length": round(ego.length, 2), "width": round(ego.width, 2)}
        sample: dict[str, Any] = {
            "t": round(truth.time_s, 3),
            "tick": truth.tick,
            "ego": [*_pose(ego), round(ego.speed, 2)],
            "control": [round(control.steer, 3), round(control.throttle, 3), round(control.brake, 3)],
            "surface": str(truth.surface),
            "actors": self._changed(truth),
            "signals": {k: str(v) for k, v in truth.signals.items() if self._signals.get(k) != v},
        }
        self._signals.update(sample["signals"])
        if self._note is not None:
            sample["said"], self._note = self._note, None
        self._samples.append(sample)
        self._size += _size(sample)
        while self._size > BUDGET and len(self._samples) > 4:
            self._thin()

    def _changed(self, truth: GroundTruth) -> dict[str, list[float] | None]:
        """Poses of actors near the ego that have changed, and None for actors that left."""
        x, y = truth.ego.x, truth.ego.y
        near = {a.id: a for a in truth.actors if abs(a.x - x) <= RADIUS_M and abs(a.y - y) <= RADIUS_M}
        found: dict[str, list[float] | None] = {}
        for name, actor in near.items():
            pose = _pose(actor)
            if self._known.get(name) != pose:
                found[name] = self._known[name] = pose
            if name not in self._bodies:
                self._bodies[name] = {
                    "kind": str(actor.kind),
                    "role": actor.role,
                    "length": round(actor.length, 2),
                    "width": round(actor.width, 2),
                }
        for name in [name for name in self._known if name not in near]:
            del self._known[name]
            found[name] = None
        return found

    def _thin(self) -> None:
        """Keep the first, third, ... sample; changes of a dropped one are merged into the next."""
        kept = [self._samples[0]]
        for dropped, sample in zip(self._samples[1::2], self._samples[2::2], strict=False):
            for name in ("actors", "signals"):
                sample[name] = {**dropped[name], **sample[name]}
            if "said" in dropped:
                sample.setdefault("said", dropped["said"])
            kept.append(sample)
        if len(self._samples) % 2 == 0:  # the last one has no successor yet
            kept.append(self._samples[-1])
        self._samples = kept
        self._size = sum(map(_size, kept))
        self.every_s *= 2


def _pose(actor: Actor) -> list[float]:
    return [round(actor.x, 2), round(actor.y, 2), round(actor.yaw, 3)]


def _size(sample: Mapping[str, Any]) -> int:
    """Upper estimate of the characters of JSON; fast."""
    reply = sample.get("said") or {}
    words = sum(6 * sum(ord(c) > 127 for c in str(v)) + len(str(v)) + 20 for v in reply.values())
    names = sum(len(k) for k in sample["actors"]) + sum(len(k) for k in sample["signals"])
    return 150 + names + 32 * len(sample["actors"]) + 16 * len(sample["signals"]) + words


def _short(note: Mapping[str, Any]) -> dict[str, Any]:
    """The note with truncated texts and without empty fields."""
    texts = {str(k): _cut(v) for k, v in (note.get("texts") or {}).items()}
    rest = {k: _cut(note[k]) for k in ("error", "raw", "reason", "mode", "meaning") if note.get(k)}
    times = {k: note[k] for k in ("asked_s", "arrived_s") if k in note}
    return {**({"texts": texts} if texts else {}), **rest, **times}


def _cut(text: Any) -> str:
    text = " ".join(str(text).split())
    return text if len(text) <= TEXT else text[: TEXT - 1] + "…"


def _road(road: RoadMap) -> dict[str, Any]:
    steps = max(1, round(road.path.length / ROUTE_STEP_M))
    route = [road.path.pose(road.path.length * i / steps)[:2] for i in range(steps + 1)]
    return {
        "source": road.source,
        "town": road.town,
        "file": str(road.file),
        "sha256": road.sha256,
        "lane_width": road.lane_width,
        "length_m": round(road.path.length, 2),
        "route": [[round(x, 2), round(y, 2)] for x, y in route],
        "stop_lines": [
            {
                "id": line.id,
                "x": round(line.x, 2),
                "y": round(line.y, 2),
                "yaw": round(line.yaw, 3),
                "width": round(line.width, 2),
                "control": line.control,
                "on_route": line.on_route,
            }
            for line in road.stop_lines
            if abs(road.path.locate(line.x, line.y)[1]) <= RADIUS_M
        ],
    }


def result_of(record: EpisodeRecord) -> dict[str, Any]:
    """Fields of a record for the title of a picture."""
    names = ("suite", "route_id", "repetition", "scenario", "town", "status", "score_route", "score_penalty")
    found = {name: getattr(record, name) for name in (*names, "score_composed", "game_s", "profile", "reason")}
    return {**found, "agent": driver_name(record.agent), "backend": record.world.get("backend", "")}
