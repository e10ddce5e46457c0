"""Reading of track files (track_log.py). A malformed file raises DataError with file and field."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from closedloop_plugin.report.track_log import FORMAT
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.storage.untrusted_json import load

Pose = tuple[float, float, float, float]  # t, x, y, yaw
FASTEST = 40.0  # m/s; an actor that is farther away was put there, as a stream's car is at its start again


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
            stop_lines=tuple(_stop_line(line) for line in road.get("stop_lines", ())),
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


def _stop_line(raw: dict[str, Any]) -> dict[str, Any]:
    numbers = {name: float(raw[name]) for name in ("x", "y", "yaw", "width")}
    texts = {"id": str(raw["id"]), "control": str(raw["control"])}
    return {**numbers, **texts, "on_route": bool(raw.get("on_route"))}


def place_of(raw: dict[str, Any]) -> dict[str, Any]:
    """An infraction to draw: kind, text, time_s, x, y."""
    numbers = {name: float(raw[name]) for name in ("time_s", "x", "y")}
    return {**numbers, "kind": str(raw["kind"]), "text": str(raw.get("text", ""))}
