"""Recorder of one snapshot per episode for the gallery, taken just after the scenario acts.

    <folder>/<route>_rep<k>.jpg    a frame of the front camera, rendered only for this purpose
    <folder>/<route>_rep<k>.json   {"format": 1, "time_s", "of": "act" | "end", "ego": {...}, "actors": [{...}],
                                    "route": [[x, y], ...]}: kind, x, y, yaw, length, width, role of each body; "sight":
                                    {"act_s", "first": {id: s}} of programs that may hide an actor, see sight.py

Map frame, metres, radians, seconds. If nothing acts, it shows the last tick. Both files are written atomically.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import Actor
from closedloop_plugin.runner.episode import EpisodeTick
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.threats.sight import SightBeforeAct
from closedloop_plugin.threats.verdicts import is_scenario_actor
from closedloop_plugin.worlds.base import WorldError
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write, atomic_write_bytes

FORMAT = 1
AFTER_S = 0.3  # delay after "act", so that the actor has begun to move
RADIUS_M = 60.0  # of the area recorded for the top view
STEP_M = 2.0  # distance of route points
QUALITY = 85


class SnapshotRecorder:
    """Recorder of one episode. A repeated episode removes the files of the previous one.

    `hidden`: of programs that may hide an actor, the event with which it acts, by the program's name.
    """

    def __init__(self, folder: Path, camera: str, task: EpisodeTask, hidden: Mapping[str, str] | None = None) -> None:
        self.folder, self.camera, self.task = Path(folder), camera, task
        act = (hidden or {}).get(task.route_id)
        self._sight = SightBeforeAct(camera, act) if act else None
        self._last: EpisodeTick | None = None
        self._kept: dict[str, Any] | None = None  # the facts of the snapshot
        for file in self._files():
            file.unlink(missing_ok=True)

    def __call__(self, tick: EpisodeTick) -> None:
        if self._sight is not None:
            self._sight(tick)
        if self._kept is not None:
            return
        self._last = tick
        acted = next((time for time, name in tick.truth.events if name == "act"), None)
        if acted is not None and tick.truth.time_s >= acted + AFTER_S - 1e-9:
            self._keep(tick, "act")

    def close(self, record: EpisodeRecord | None) -> None:
        """Write the snapshot, of the last tick if there is none yet; the world can still render it."""
        last = self._last
        if last is None:
            return
        if self._kept is None:
            self._keep(last, "act" if any(name == "act" for _, name in last.truth.events) else "end")
        sight = self._sight.to_json() if self._sight else None
        with atomic_write(self._files()[1]) as handle:
            json.dump({**(self._kept or {}), **({"sight": sight} if sight else {})}, handle, sort_keys=True)

    def _files(self) -> tuple[Path, Path]:
        return self.folder / f"{self.task.key}.jpg", self.folder / f"{self.task.key}.json"

    def _keep(self, tick: EpisodeTick, of: str) -> None:
        self._kept = {"format": FORMAT, "of": of, **self._scene(tick)}
        try:
            image = Image.fromarray(tick.observation.images(self.camera))
        except (Ad2Error, WorldError):  # a failed world renders no image; the record has the reason
            image = None
        if image is not None:
            write_jpeg(self._files()[0], image, QUALITY)

    def _scene(self, tick: EpisodeTick) -> dict[str, Any]:
        ego = tick.truth.ego
        near = [a for a in tick.truth.actors if math.hypot(a.x - ego.x, a.y - ego.y) <= RADIUS_M]
        return {
            "time_s": round(tick.truth.time_s, 3),
            "ego": _body(ego),
            "actors": [_body(a) for a in near],
            "route": self._line(ego),
        }

    def _line(self, ego: Actor) -> list[list[float]]:
        """Route points around the ego; [] for a program without a route."""
        route = self.task.setup.route
        if route is None or len(route.points) < 2:
            return []
        path = RoutePath(route.points)
        s, _ = path.locate(ego.x, ego.y)
        first, last = max(0.0, s - RADIUS_M), min(path.length, s + RADIUS_M)
        steps = max(1, round((last - first) / STEP_M))
        line = [path.pose(first + (last - first) * i / steps) for i in range(steps + 1)]
        return [[round(x, 2), round(y, 2)] for x, y, _ in line]


def _body(actor: Actor) -> dict[str, Any]:
    numbers = {name: round(float(getattr(actor, name)), 3) for name in ("x", "y", "yaw", "length", "width", "speed")}
    role = "scenario" if is_scenario_actor(actor.id, actor.role) else actor.role
    return {"kind": str(actor.kind), "role": role, **numbers}


def write_jpeg(file: Path, image: Image.Image, quality: int) -> None:
    """Write a JPEG atomically."""
    data = BytesIO()
    image.save(data, "JPEG", quality=quality)
    atomic_write_bytes(file, data.getvalue())
