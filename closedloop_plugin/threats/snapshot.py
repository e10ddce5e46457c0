"""Recorder of one snapshot per episode for the gallery, taken just after the scenario acts.

    <folder>/<route>_rep<k>.jpg    a frame of the front camera, rendered only for this purpose
    <folder>/<route>_rep<k>.json   {"time_s", "of": "act" | "end"}, and "sight": {"act_s", "first": {id: s}} of programs
                                    that may hide an actor, see SightBeforeAct

If nothing acts, it shows the last tick. Both files are written atomically.

An actor that something hides is a threat to a driver's attention only if the pictures do not show it before it acts.
What counts as shown: core/visibility.py. Only worlds that measure their pictures (the embedded one) can tell.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import STATIC
from closedloop_plugin.runner.episode import EpisodeTick
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.verdicts import is_scenario_actor
from closedloop_plugin.worlds.base import WorldError
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write, atomic_write_bytes

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


AFTER_S = 0.3  # delay after "act", so that the actor has begun to move
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
        self._kept = {"of": of, "time_s": round(tick.truth.time_s, 3)}
        try:
            image = Image.fromarray(tick.observation.images(self.camera))
        except (Ad2Error, WorldError):  # a failed world renders no image; the record has the reason
            return
        data = BytesIO()
        image.save(data, "JPEG", quality=QUALITY)
        atomic_write_bytes(self._files()[0], data.getvalue())
