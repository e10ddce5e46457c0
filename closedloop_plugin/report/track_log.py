"""TrackLog: poses of all actors of an episode, small enough to keep for every episode (under 300 kB of JSON).

    {"format": 1, "every_s", "road": {...} | null, "ego": {"length", "width"},
     "bodies": {id: {"kind", "role", "length", "width"}},
     "samples": [{"t", "tick", "ego": [x, y, yaw, speed], "control": [steer, throttle, brake], "surface",
                  "actors": {id: [x, y, yaw] | null}, "signals": {line id: state}, "said": {...}}],
     "events": [[t, name]], "places": [...], "result": {...}}

Map frame, metres, radians, m/s, seconds. `actors` and `signals` contain changes since the previous sample; null: the
actor is gone, or farther away than 120 m. If an episode becomes too large, every second sample is dropped and `every_s`
is doubled, as often as needed. `read_track` reads such a file; a malformed one raises DataError with file and field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from closedloop_plugin.core.record import EpisodeRecord, driver_name
from closedloop_plugin.core.state import Actor, Control, GroundTruth
from closedloop_plugin.maps.base import RoadMap
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.storage.untrusted_json import load

FORMAT = 1
RADIUS_M = 120.0
TEXT = 300  # characters kept of each text
BUDGET = 200_000  # approximate characters of all samples; with road and bodies the file stays under 300 kB
ROUTE_STEP_M = 2.0
Pose = tuple[float, float, float, float]  # t, x, y, yaw
FASTEST = 40.0  # m/s; an actor that is farther away was put there, as a stream's car is at its start again


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


@dataclass(frozen=True)
class TrackSample:
    """One sample: time in s, pose in the map frame, speed in m/s, control (steer, throttle, brake)."""

    t: float
    tick: int
    x: float
    y: float
    yaw: float
    speed: float
    control: tuple[float, float, float]
    reply: dict[str, Any] = field(default_factory=dict)  # texts of the models

    def words(self) -> str:
        """Caption of a picture: time, speed and control, then the texts of the models."""
        steer, throttle, brake = self.control
        head = f"{self.t:.1f} s, {3.6 * self.speed:.0f} km/h"
        pedals = f"steer {steer:+.2f}, throttle {throttle:.2f}, brake {brake:.2f}"
        return "\n".join([head, pedals, *reply_lines(self.reply)])


@dataclass(frozen=True)
class ActorTrack:
    """One actor: kind, size, and its poses in pieces without gaps and jumps."""

    id: str
    kind: str
    role: str
    length: float
    width: float
    pieces: tuple[tuple[Pose, ...], ...]


@dataclass(frozen=True, kw_only=True)
class EpisodeTrack:
    """The tracks of one episode."""

    moments: tuple[TrackSample, ...]
    bodies: tuple[ActorTrack, ...]
    signals: tuple[tuple[float, str, str], ...]  # (t, stop line, state) at every change
    events: tuple[tuple[float, str], ...]
    route: tuple[tuple[float, float], ...] = ()
    stop_lines: tuple[dict[str, Any], ...] = ()
    places: tuple[dict[str, Any], ...] = ()
    result: dict[str, Any] = field(default_factory=dict)
    ego_size: tuple[float, float] = (4.5, 1.9)
    map_file: str = ""
    map_sha256: str = ""


def progress(moments: Sequence[TrackSample]) -> list[float]:
    """For each sample the share of the time plus the share of the distance, in [0, 2], as a measure for `choose`."""
    metres = [0.0]
    for a, b in pairwise(moments):
        metres.append(metres[-1] + math.dist((a.x, a.y), (b.x, b.y)))
    seconds = [m.t - moments[0].t for m in moments]
    return [s / max(seconds[-1], 1e-9) + d / max(metres[-1], 1e-9) for s, d in zip(seconds, metres, strict=True)]


def reply_lines(reply: dict[str, Any]) -> list[str]:
    """Texts of the models as lines: the answer to each task, what was read in it or the slow system's reply, errors."""
    texts = reply.get("texts") or {}
    lines = [f"{task}: {text}" for task, text in texts.items()]
    if reply.get("meaning"):
        lines.append(f"read as: {reply['meaning']}")
    elif reply.get("raw") and reply["raw"] not in texts.values():
        lines.append(f"{reply.get('mode') or 'reply'}: {reply['raw']}")
    if "asked_s" in reply and "arrived_s" in reply:
        lines.append(f"asked at {reply['asked_s']:.1f} s, applied from {reply['arrived_s']:.1f} s")
    return lines + [f"{name}: {reply[name]}" for name in ("reason", "error") if reply.get(name)]


def read_track(file: Path) -> EpisodeTrack:
    """Read a file with the result of TrackLog.to_json."""
    try:
        raw = load(file, finite=False)
    except FileNotFoundError:
        raise Ad2Error(f"{file}: no such track file") from None
    except (ValueError, OSError) as exc:
        raise Ad2Error(f"{file}: not a track file: {exc}") from exc
    return parse_track(raw, file)


def parse_track(raw: Any, file: object = "track") -> EpisodeTrack:
    """The track of a JSON value."""
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        found = raw.get("format") if isinstance(raw, dict) else type(raw).__name__
        raise DataError(file, None, "format", f"{FORMAT}, of `ad2 drive run`", found)
    try:
        road = raw.get("road") or {}
        samples = raw["samples"]
        track = EpisodeTrack(
            moments=tuple(_moment(s) for s in samples),
            bodies=_bodies(raw["bodies"], samples),
            signals=tuple((float(s["t"]), str(k), str(v)) for s in samples for k, v in s.get("signals", {}).items()),
            events=tuple((float(t), str(name)) for t, name in raw.get("events", ())),
            route=tuple((float(x), float(y)) for x, y in road.get("route", ())),
            stop_lines=tuple(
                {
                    **{name: float(line[name]) for name in ("x", "y", "yaw", "width")},
                    **{name: str(line[name]) for name in ("id", "control")},
                    "on_route": bool(line.get("on_route")),
                }
                for line in road.get("stop_lines", ())
            ),
            places=tuple(place_of(p) for p in raw.get("places", ())),
            result=dict(raw.get("result", {})),
            ego_size=(float(raw["ego"].get("length", 4.5)), float(raw["ego"].get("width", 1.9))),
            map_file=str(road.get("file", "")),
            map_sha256=str(road.get("sha256", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise DataError(file, None, "samples", "a track as `ad2 drive run` writes it", str(exc)) from exc
    numbers = [v for m in track.moments for v in (m.t, m.x, m.y, m.yaw, m.speed)]
    if not track.moments or not all(map(math.isfinite, numbers)):
        raise DataError(file, None, "samples", "at least one sample, and finite numbers")
    return track


def _moment(sample: dict[str, Any]) -> TrackSample:
    x, y, yaw, speed = (float(v) for v in sample["ego"])
    steer, throttle, brake = (float(v) for v in sample["control"])
    return TrackSample(
        t=float(sample["t"]),
        tick=int(sample["tick"]),
        x=x,
        y=y,
        yaw=yaw,
        speed=speed,
        control=(steer, throttle, brake),
        reply=dict(sample.get("said") or {}),
    )


def _bodies(known: dict[str, Any], samples: list[dict[str, Any]]) -> tuple[ActorTrack, ...]:
    """Poses of each actor. A pose holds until the next one, or until the sample at which the actor is gone."""
    pieces: dict[str, list[list[Pose]]] = {name: [] for name in known}
    here: dict[str, list[Pose]] = {}
    t = -math.inf
    for sample in samples:
        before, t = t, float(sample["t"])
        for name, pose in sample.get("actors", {}).items():
            if pose is None:
                here.pop(name, None)
                continue
            x, y, yaw = (float(v) for v in pose)
            if name not in here or math.dist(here[name][-1][1:3], (x, y)) > FASTEST * (t - before):
                here[name] = []
                pieces[name].append(here[name])
            here[name].append((t, x, y, yaw))
    return tuple(
        ActorTrack(
            id=name,
            kind=str(about["kind"]),
            role=str(about["role"]),
            length=float(about["length"]),
            width=float(about["width"]),
            pieces=tuple(tuple(piece) for piece in pieces[name]),
        )
        for name, about in known.items()
    )


def place_of(raw: dict[str, Any]) -> dict[str, Any]:
    """An infraction to draw: kind, text, time_s, x, y."""
    numbers = {name: float(raw[name]) for name in ("time_s", "x", "y")}
    return {**numbers, "kind": str(raw["kind"]), "text": str(raw.get("text", ""))}
