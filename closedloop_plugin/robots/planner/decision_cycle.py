"""One cycle of the loop on a vehicle: what it sees, what agent and interpreter say, what the wheels are told.

The agents are asked at a car's size: speeds and distances are the vehicle's times its `scale`. What they answer is
judged as the runner's Pilot does, except that a vehicle without a usable answer stands instead of coasting.
"""

from __future__ import annotations

import hashlib
import io
import struct
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from closedloop_plugin.agents.base import Agent, DecisionRequest
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import COAST, Control, Decision, InterpretedControl, Observation, RouteCommand
from closedloop_plugin.interpreters.applied_control import verdict
from closedloop_plugin.interpreters.base import Interpreter
from closedloop_plugin.robots.vehicles.base import Actuation, Vehicle
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.strict_pillow import strictly

CAMERA = "front"  # the one that a vehicle has, by the name that agents and interpreters know
AHEAD_M = 8.0  # the route hint without a course, at a car's size: straight ahead
MOST_PIXELS = 4_000_000
PATIENCE = 10  # failures in a row after which the vehicle is stopped for good
_REASONS = 20  # different reasons counted by name


@dataclass(frozen=True)
class VehicleObservation:
    """What the vehicle sent: an `obs` frame (onboard/wire.py). Robot's own metres and seconds."""

    seq: int
    stamp: float  # s, the vehicle's clock
    jpeg: bytes
    odom: Mapping[str, float] | None = None  # x, y in m, yaw in rad, v in m/s, w in rad/s, ROS axes
    status: Mapping[str, Any] | None = None
    motion: Mapping[str, Any] | None = None  # how the one before ended


@dataclass(frozen=True)
class CycleResult:
    """What came of it. `error`: no answer, or none that can be driven; `unparsed`: words that could not be read."""

    seq: int
    tick: int  # of the episode, from 0
    time_s: float
    observation: Observation
    decision: Decision
    reading: InterpretedControl | None
    control: Control
    actuation: Actuation
    error: str | None = None
    unparsed: str | None = None
    thinking_s: float = 0.0  # wall time of agent and interpreter

    def told(self) -> dict[str, Any]:
        """The order, as a `cmd` frame and the logs have it."""
        return {**asdict(self.control), **self.actuation.to_onboard()}

    def log(self) -> dict[str, Any]:
        """For a line of JSON: everything but the picture."""
        seen, reading = self.observation, self.reading
        return {
            "seq": self.seq, "tick": self.tick, "time_s": round(self.time_s, 4), "speed": seen.speed,
            "command": str(seen.command), "target": list(seen.target), "texts": dict(self.decision.texts),
            "raw": reading.raw if reading else "", "mode": reading.mode if reading else "", "error": self.error,
            "unparsed": self.unparsed, **self.told(), "thinking_s": round(self.thinking_s, 5),
        }  # fmt: skip


class RouteHint(Protocol):
    """What a navigator on the vehicle says; a course has one from its planned path."""

    def command(self, odometry: Mapping[str, float] | None) -> tuple[RouteCommand, tuple[float, float]]:
        """The command, and a point of the route: metres forward and to the LEFT of the vehicle, in ITS metres."""
        ...


@dataclass
class DecisionCycle:
    """An agent that drives one vehicle. One thread; an episode is one drive, whatever becomes of the link meanwhile."""

    agent: Agent
    interpreter: Interpreter | None
    profile: Profile
    vehicle: Vehicle
    hint: RouteHint | None = None
    seed: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: int = 0  # in a row
    _episode: str | None = None
    _tick: int = 0
    _time: float = 0.0
    _stamp: float | None = None

    def __post_init__(self) -> None:
        if others := [c.name for c in self.agent.cameras if c.name != CAMERA]:
            raise Ad2Error(f"the agent wants the cameras {', '.join(others)}; a vehicle has one: --camera {CAMERA}")

    def begin(self, episode: str) -> None:
        """A new drive; the one before ends."""
        self.finish()
        digest = hashlib.sha256(f"{self.seed}:{episode}".encode()).digest()
        self.agent.start(episode, int.from_bytes(digest[:4], "big") >> 1)
        self._episode, self._tick, self._time, self._stamp, self.failures = episode, 0, 0.0, None, 0

    def finish(self) -> None:
        if self._episode is not None:
            self.agent.end(self._episode)
            self._episode = None

    def decide(self, sight: VehicleObservation) -> CycleResult:
        """Never raises for what an agent, a model or a picture did: then the vehicle stands, and the counts say why."""
        if self._episode is None:
            self.begin("drive")
        ask = DecisionRequest(self._episode or "", self._observation(sight))
        started = time.perf_counter()
        decision, reading = self._asked(ask)
        spent = time.perf_counter() - started
        control, error, unparsed = verdict(decision, reading, self.profile, ask.observation.speed)
        self._count(error, unparsed, reading)
        tick = ask.observation.tick
        actuation = self.vehicle.actuation(control or COAST)
        return CycleResult(
            sight.seq, tick, self._time, ask.observation, decision, reading, control or COAST, actuation, error,
            unparsed, spent,
        )  # fmt: skip

    def _observation(self, sight: VehicleObservation) -> Observation:
        """At a car's size. The vehicle's clock may start anew (its client was restarted): ours goes on."""
        scale, tick = self.vehicle.scale, self._tick
        if self._stamp is not None:
            self._time += max(sight.stamp - self._stamp, 0.0)
        self._stamp, self._tick = sight.stamp, tick + 1
        if sight.odom is None and self.vehicle.topics.odom:
            self.counts["without odometry"] += 1  # speed and route hint are wrong then
        ahead = RouteCommand.FOLLOW, (AHEAD_M / scale, 0.0)
        command, (forward, left) = self.hint.command(sight.odom) if self.hint else ahead
        speed = sight.odom["v"] * scale if sight.odom else 0.0  # without odometry: it stands between two motions
        return Observation(
            tick, self._time, speed, command, (forward * scale, left * scale), LazyCameraImages(sight.jpeg),
            self.vehicle.limits.speed * scale,
        )  # fmt: skip

    def _asked(self, ask: DecisionRequest) -> tuple[Decision, InterpretedControl | None]:
        try:
            (decision,) = self.agent.decide([ask])
            if decision.error is not None or decision.control is not None or self.interpreter is None:
                return decision, None
            (reading,) = self.interpreter.interpret([(ask, decision)])
            return decision, reading
        except Exception as exc:  # a wheel is turning meanwhile: whatever it was, the vehicle must be told to stand
            return Decision(error=f"{type(exc).__name__}: {' '.join(str(exc).split())[:200]}"), None

    def _count(self, error: str | None, unparsed: str | None, reading: InterpretedControl | None) -> None:
        self.counts["decisions"] += 1
        self.failures = self.failures + 1 if error else 0
        if reading is not None and reading.mode:
            self.counts[f"mode {reading.mode}"] += 1
        if error:
            self.counts["agent_errors"] += 1
        if unparsed:
            self.counts["unparsed"] += 1
            name = f"unparsed: {unparsed.splitlines()[0][:60]}"
            known = [k for k in self.counts if k.startswith("unparsed: ")]
            self.counts[name if name in known or len(known) < _REASONS else "unparsed: other"] += 1


class LazyCameraImages:
    """Observation.images of a vehicle: its one camera's JPEG, unpacked when it is looked at. Not to be trusted."""

    def __init__(self, jpeg: bytes) -> None:
        self.jpeg = jpeg
        self._image: np.ndarray | None = None

    def __call__(self, camera: str) -> np.ndarray:
        """(H, W, 3) uint8 RGB; ValueError where it is no whole JPEG of a sane size."""
        if camera != CAMERA:
            raise ValueError(f"a vehicle has no camera {camera!r}, only {CAMERA}")
        if self._image is None:
            self._image = _unpacked(self.jpeg)
        return self._image


def _unpacked(jpeg: bytes) -> np.ndarray:
    from PIL import Image

    try:
        with strictly(), Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
            if image.width * image.height > MOST_PIXELS:
                raise ValueError(f"{image.width}x{image.height} pixels, more than {MOST_PIXELS:,}")
            return np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError) as exc:
        raise ValueError(f"no whole JPEG: {type(exc).__name__}: {str(exc)[:120]}") from None
