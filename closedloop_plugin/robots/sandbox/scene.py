"""Simulates a vehicle on the track: motion, collisions, events and camera. No ROS, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from closedloop_plugin.robots.sandbox.body import Pose, SandboxBody
from closedloop_plugin.robots.sandbox.camera import FloorCamera, FloorCameraMount
from closedloop_plugin.robots.sandbox.track import SandboxTrack, sandbox
from closedloop_plugin.robots.vehicles.base import Actuation, Vehicle

# By platform, all estimated. JetBot's lens has 160 degrees with strong distortion; the pinhole model uses less.
VIEWS = {
    "limo": FloorCameraMount(ahead=0.10, up=0.18, fov=68.0),
    "jetbot_pro": FloorCameraMount(ahead=0.04, up=0.12, fov=105.0, pitch=10.0),
    "jetbot_words": FloorCameraMount(ahead=0.04, up=0.12, fov=105.0, pitch=10.0),
    "jetbot_wheels": FloorCameraMount(ahead=0.04, up=0.12, fov=105.0, pitch=10.0),
}
PLACED, WALL = "placed", "hit wall"


@dataclass(frozen=True)
class SandboxEvent:
    """`what`: placed, or the new state: inside, crossed line, hit obstacle:NAME, hit wall. x, y in m, yaw in rad."""

    t: float  # simulated time, s
    what: str
    x: float
    y: float
    yaw: float


class SandboxScene:
    """`step` moves the vehicle and returns events. Obstacles and walls stop it; crossed lines are only reported."""

    def __init__(self, vehicle: Vehicle, track: SandboxTrack | None = None) -> None:
        self.track = track or sandbox()
        self.body = SandboxBody(vehicle)
        self.t = 0.0
        self.verdict = ""
        self.body.place(*self.track.segments[0].start)

    def place(self, x: float, y: float, yaw: float) -> list[SandboxEvent]:
        self.body.place(x, y, yaw)
        self.verdict = ""
        return [self._event(PLACED), *self._changes(self._verdict())]

    def command(self, actuation: Actuation) -> None:
        self.body.command(actuation)

    def step(self, dt: float) -> list[SandboxEvent]:
        before = self.body.pose
        self.body.step(dt)
        self.t += dt
        verdict = self._verdict()
        if verdict.startswith("hit"):
            self.body.block(before)
        return self._changes(verdict)

    def jpeg(self, pose: Pose | None = None, quality: int = 80) -> bytes:
        """The camera image at the current pose, or at `pose`."""
        return self._camera.jpeg(*(pose or self.body.pose), quality=quality)

    def picture(self, pose: Pose | None = None) -> np.ndarray:
        """The same image as (height, width, 3) uint8 RGB."""
        return self._camera.picture(*(pose or self.body.pose))

    @cached_property
    def _camera(self) -> FloorCamera:
        return FloorCamera(self.track, VIEWS[self.body.vehicle.platform])

    def _verdict(self) -> str:
        pose, footprint = self.body.pose, self.body.footprint
        if not self.track.on_floor(*pose, footprint):
            return WALL
        return self.track.contains(*pose, footprint)

    def _changes(self, verdict: str) -> list[SandboxEvent]:
        if verdict == self.verdict:
            return []
        self.verdict = verdict
        return [self._event(verdict)]

    def _event(self, what: str) -> SandboxEvent:
        return SandboxEvent(self.t, what, *self.body.pose)
