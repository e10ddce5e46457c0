"""FrameCollector: a recorder of pictures with labels from the truth.

    <folder>/<route>_rep<k>/frames.jsonl            one frame per line, in order of time; written at the end
    <folder>/<route>_rep<k>/<camera>_<tick>.jpg

A frame is complete only together with the positions of the following seconds, so the file is written when the episode
has ended; a killed episode leaves pictures without it, and is driven again.

Positions are in the ego's frame at the frame's tick: metres forward, metres to the LEFT.
"""

from __future__ import annotations

import io
import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from PIL import Image

from closedloop_plugin.core.frames import to_ego, wrap
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import FAILED, Actor, GroundTruth, Observation
from closedloop_plugin.core.visibility import FAR_HEAD, VisibleExtent
from closedloop_plugin.learn.collection import FRAMES_FILE
from closedloop_plugin.learn.expert_labels import ExpertLabels, KnownTruth
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.runner.episode import EpisodeTick
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.worlds.base import WorldError
from lmms_eval_ad2.storage.files import atomic_write

FUTURE_S = tuple(0.5 * k for k in range(1, 7))  # as the points of a trajectory answer
TWO_WAYS = "TwoWays"  # end of the names of the scenario types in which the oncoming lane is used
STANDING_M_S = 0.1
# Frames of a standing car with an unchanged label are alike: one is taken when that has lasted for 2 s, and then for
# 1.5 times as long as at the last one. A car that is stuck to the end gives ten frames instead of a hundred.
STANDING_FROM_S, STANDING_FACTOR = 2.0, 1.5
JPEG_QUALITY = 90
FASTEST_M_S = 60.0  # what moves faster between two ticks was put elsewhere: traffic that left the scene comes back


class StandingFrames:
    """Which frames of a car that may stand are taken."""

    def __init__(self) -> None:
        self._action, self._since, self._next_s = "", 0.0, 0.0
        self._stands = False

    def takes(self, speed: float, action: str, time_s: float) -> bool:
        """Whether a frame is taken at this time, in order of time. action: of its label."""
        same = self._stands and action == self._action
        self._stands = abs(speed) <= STANDING_M_S
        if not self._stands or not same:
            self._action, self._since, self._next_s = action, time_s, STANDING_FROM_S
            return True
        lasted = time_s - self._since
        if lasted + 1e-9 < self._next_s:
            return False
        self._next_s = STANDING_FACTOR * lasted
        return True


class FrameCollector:
    """Collects a frame every `every_s`. max_speed: of the profile, m/s, for the expert that makes the labels.

    An unfinished episode leaves no frames file. A retried one begins with an empty folder.
    """

    def __init__(
        self, folder: Path, camera: str, task: EpisodeTask, every_s: float = 0.5, max_speed: float | None = None
    ) -> None:
        self.folder, self.camera, self.task, self.every_s = Path(folder) / task.key, camera, task, every_s
        self._labels = ExpertLabels(max_speed)
        scenario = task.setup.route.scenario if task.setup.route else ""
        self._known = KnownTruth(two_ways=scenario.endswith(TWO_WAYS))
        self._next = 0.0
        self._frames: list[dict[str, Any]] = []
        self._times: list[float] = []  # of the ticks so far, s
        self._poses: list[dict[str, tuple[float, float, float]]] = []  # id -> x, y, yaw of all actors at these ticks
        self._since: list[dict[str, int]] = []  # id -> tick of these since which it has moved as bodies do
        self._standing = StandingFrames()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def __call__(self, tick: EpisodeTick) -> None:
        truth = tick.truth
        self._note(truth.time_s, {a.id: (a.x, a.y, a.yaw) for a in (truth.ego, *truth.actors)})
        if self._frames:
            self._frames[-1].setdefault("disturbed", _disturbed(tick))
        if truth.time_s + 1e-9 >= self._next and tick.road is not None:
            self._next += self.every_s
            self._collect(tick)

    def close(self, record: EpisodeRecord | None) -> None:
        """Write the frames of a finished episode; one that failed is left out."""
        if record is None:
            return
        if record.end in FAILED:
            shutil.rmtree(self.folder)
            return
        with atomic_write(self.folder / FRAMES_FILE) as file:
            for frame in self._frames:
                frame.setdefault("disturbed", False)
                self._add_future(frame)
                file.write(json.dumps(frame, ensure_ascii=False) + "\n")

    def _collect(self, tick: EpisodeTick) -> None:
        assert tick.road is not None
        truth, seen = tick.truth, tick.observation
        if tick.visible is None:
            raise WorldError("this world cannot measure what its pictures show; collect in the embedded world")
        visible = tick.visible(self.camera)  # also draws the picture
        label = self._labels.label(seen, self._known.of(truth, visible), tick.road)
        if not self._standing.takes(truth.ego.speed, str(label["action"]), truth.time_s):
            return
        name = f"{self.camera}_{truth.tick:05d}.jpg"
        self._write_picture(name, seen)
        s = tick.road.path.locate(truth.ego.x, truth.ego.y)[0]
        self._frames.append({
            "id": f"{self.task.key}/{truth.tick}",
            "image": name,
            "route": self.task.route_id,
            "scenario": self.task.setup.route.scenario if self.task.setup.route else "",
            **_situation(seen),
            "label": label,
            "objects": objects_of(truth, tick.road, visible, s),
            "signals": signals_of(truth, tick.road, visible, s),
            "weather": asdict(self.task.setup.route.weather) if self.task.setup.route else {},
            "moment": len(self._times) - 1,
        })  # fmt: skip

    def _write_picture(self, name: str, seen: Observation) -> None:
        encoded = io.BytesIO()
        Image.fromarray(seen.images(self.camera)).save(encoded, "JPEG", quality=JPEG_QUALITY)
        (self.folder / name).write_bytes(encoded.getvalue())

    def _add_future(self, frame: dict[str, Any]) -> None:
        """Positions of the ego and of each object at the following FUTURE_S, in the ego's frame of this frame."""
        moment = frame.pop("moment")
        poses = self._poses[moment]
        ego = next(iter(poses.values()))
        ego_id = next(iter(poses))
        later = [self._moment_at(self._times[moment] + s) for s in FUTURE_S]
        frame["future"] = [_place(self._poses[k][ego_id], ego) for k in later if k is not None]
        for row in frame["objects"]:
            # None, or since a later tick: it left the scene, or was put elsewhere.
            moved = [k for k in later if k is not None and self._since[k].get(row["id"], k) <= moment]
            row["future"] = [_place(self._poses[k][row["id"]], ego) for k in moved]

    def _note(self, time_s: float, poses: dict[str, tuple[float, float, float]]) -> None:
        """The places of a tick."""
        now = len(self._times)
        most = FASTEST_M_S * (time_s - self._times[-1]) if now else 0.0
        before, since = (self._poses[-1], self._since[-1]) if now else ({}, {})
        self._since.append({
            id_: since[id_] if id_ in before and math.dist(pose[:2], before[id_][:2]) <= most else now
            for id_, pose in poses.items()
        })  # fmt: skip
        self._times.append(time_s)
        self._poses.append(poses)

    def _moment_at(self, time_s: float) -> int | None:
        """Index of the tick at a time; None after the end of the episode."""
        if time_s > self._times[-1] + 1e-6 or len(self._times) < 2:
            return None
        step = self._times[1] - self._times[0]
        return min(round((time_s - self._times[0]) / step), len(self._times) - 1)


def _situation(seen: Observation) -> Mapping[str, Any]:
    """What the driver's prompts say."""
    return {
        "tick": seen.tick,
        "time_s": round(seen.time_s, 3),
        "speed": round(seen.speed, 3),
        "speed_limit": round(seen.speed_limit, 3),
        "command": str(seen.command),
        "target": [round(v, 3) for v in seen.target],
        "route_offset": None if seen.route_offset is None else round(seen.route_offset, 3),
    }


def _disturbed(tick: EpisodeTick) -> bool:
    return bool(tick.decision and tick.decision.response.decision.thought.get("disturbed"))


def _place(pose: tuple[float, float, float], ego: tuple[float, float, float]) -> list[float]:
    return [round(v, 2) for v in to_ego(pose[0], pose[1], *ego)]


REACH_M = 60.0  # objects farther away are left out, unless the picture shows them
UNSEEN = VisibleExtent()


def objects_of(
    truth: GroundTruth, road: RoadMap, visible: Mapping[str, VisibleExtent], s: float
) -> list[dict[str, Any]]:
    """All actors within REACH_M or in the picture, the nearest first. `s`: of the ego along the route, m."""
    ego = truth.ego
    near = [a for a in truth.actors if a.id in visible or math.hypot(a.x - ego.x, a.y - ego.y) <= REACH_M]
    places = road.path.locate_all([(a.x, a.y) for a in near], s, 2 * REACH_M) if near else []
    rows = [
        _object(a, ego, visible.get(a.id, UNSEEN), lane_of(d, road)) for a, (_, d) in zip(near, places, strict=True)
    ]
    return sorted(rows, key=lambda row: math.hypot(row["forward"], row["left"]))


def _object(actor: Actor, ego: Actor, seen: VisibleExtent, lane: str) -> dict[str, Any]:
    forward, left = to_ego(actor.x, actor.y, ego.x, ego.y, ego.yaw)
    return {
        "id": actor.id,
        "kind": actor.kind.value,
        "forward": round(forward, 2),
        "left": round(left, 2),
        "yaw": round(wrap(actor.yaw - ego.yaw), 3),
        "speed": round(actor.speed, 2),
        "length": round(actor.length, 2),
        "width": round(actor.width, 2),
        "height": round(actor.height, 2),
        "lamps": sorted(actor.lamps),
        "doors": sorted(actor.doors),
        "colour": list(actor.colour),
        "lane": lane,
        **_seen(seen),
    }


def lane_of(d: float, road: RoadMap) -> str:
    """The lane of a place `d` m to the left of the route, seen from the route's: own, left, right, oncoming or off."""
    lanes = road.facts.get("lanes", {})
    left, right, oncoming = (int(lanes.get(name, 0)) for name in ("left", "right", "oncoming"))
    number = round(d / road.lane_width)
    if number == 0:
        return "own"
    if number < 0:
        return "right" if -number <= right else "off"
    return "left" if number <= left else "oncoming" if number <= left + oncoming else "off"


def signals_of(
    truth: GroundTruth, road: RoadMap, visible: Mapping[str, VisibleExtent], s: float
) -> list[dict[str, Any]]:
    """Signals and signs within REACH_M or in the picture, the nearest first."""
    rows = []
    for line in road.stop_lines:
        forward, left = to_ego(line.x, line.y, truth.ego.x, truth.ego.y, truth.ego.yaw)
        heads = (visible.get(line.id, UNSEEN), visible.get(line.id + FAR_HEAD, UNSEEN))
        if math.hypot(forward, left) > REACH_M and not any(head.box for head in heads):
            continue
        seen, state = max(heads, key=lambda e: (e.state_pixels, e.pixels)), truth.signals.get(line.id)
        along = line.on_route and line.route_s is not None
        rows.append({
            "id": line.id,
            "control": line.control,
            "state": state.value if state is not None else None,
            "on_route": line.on_route,
            "forward": round(forward, 2),
            "left": round(left, 2),
            "distance": round(line.route_s - s, 2) if along and line.route_s is not None else None,
            **_seen(seen),
            "state_pixels": seen.state_pixels,
        })  # fmt: skip
    return sorted(rows, key=lambda row: math.hypot(row["forward"], row["left"]))


def _seen(seen: VisibleExtent) -> dict[str, Any]:
    return {
        "box": list(seen.box) if seen.box else None,
        "pixels": seen.pixels,
        "visible": round(seen.share, 3),
        "shown": seen.shown,
    }
