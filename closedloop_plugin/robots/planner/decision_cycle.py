"""One decision cycle on a vehicle: observation, agent, interpreter, actuation.

Agents see a full-size car: speeds and distances of the vehicle are multiplied by its `scale`. Decisions are evaluated
as by the runner's `ControlScheduler`, except that the vehicle stands, instead of coasting, if there is no usable
decision.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from closedloop_plugin.core.kept_texts import NAME, KeptTexts
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import COAST, Control, Decision, InterpretedControl, Observation, RouteCommand
from closedloop_plugin.driver.agent import Agent, DecisionRequest
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.driver.interpreters.applied_control import verdict
from closedloop_plugin.robots.vehicles.vehicle import Actuation, Vehicle
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.image_files import open_image
from lmms_eval_ad2.storage.redaction import environment_keys, without_keys
from lmms_eval_ad2.storage.shown_image import shown_rgb

CAMERA = "front"  # name of the vehicle's only camera for agents and interpreters
AHEAD_M = 8.0  # distance of the default target point straight ahead, without a course; full-size metres
MOST_PIXELS = 4_000_000
FAILURES_MAX = 10  # failures in a row after which the vehicle is stopped until released
_REASONS = 20  # different "unparsed" reasons counted by name


@dataclass(frozen=True)
class VehicleObservation:
    """An `obs` frame of the vehicle (onboard/wire.py), in the robot's metres and seconds."""

    seq: int
    stamp: float  # s, the vehicle's clock
    jpeg: bytes
    odom: Mapping[str, float] | None = None  # x, y in m, yaw in rad, v in m/s, w in rad/s, ROS axes


@dataclass(frozen=True, kw_only=True)
class CycleResult:
    """The outcome of one cycle. `error`: no usable decision; `unparsed`: why the text could not be interpreted.

    Its texts are those that logs keep (core/kept_texts.py); `cut`: whole lengths of the cut ones, by field of `log()`.
    """

    seq: int
    observation: Observation
    decision: Decision
    interpreted: InterpretedControl | None
    control: Control
    actuation: Actuation
    error: str | None = None
    unparsed: str | None = None
    thinking_s: float = 0.0  # wall time of agent and interpreter
    cut: Mapping[str, int] = field(default_factory=dict)

    def order(self) -> dict[str, Any]:
        """Control and actuation, as in a `cmd` frame and in the logs."""
        return {**vars(self.control), **self.actuation.to_onboard()}

    def log(self) -> dict[str, Any]:
        """The cycle as JSON values, without the image."""
        seen, interpreted = self.observation, self.interpreted
        return {
            "seq": self.seq, "tick": seen.tick, "time_s": round(seen.time_s, 4), "speed": seen.speed,
            "command": str(seen.command), "target": list(seen.target), "texts": dict(self.decision.texts),
            "raw": interpreted.raw if interpreted else "", "mode": interpreted.mode if interpreted else "",
            "error": self.error, "unparsed": self.unparsed, **self.order(), "thinking_s": round(self.thinking_s, 5),
            "meaning": interpreted.meaning if interpreted else "", "fast": _cost(self.decision),
            "slow": _cost(interpreted) if interpreted else None, **({"cut": dict(self.cut)} if self.cut else {}),
        }  # fmt: skip


def _cost(system: Decision | InterpretedControl) -> dict[str, Any]:
    """Wall seconds, prompt and tokens of one system, with the names of docs/decisions-file.md; null: not reported."""
    usage = system.usage
    return {
        "prompt_sha256": usage.prompt_sha256, "seconds": round(system.latency_s, 6) or None,
        "tokens_in": usage.tokens_in or None, "tokens_out": usage.tokens_out or None,
    }  # fmt: skip


class RouteHint(Protocol):
    """The navigator of the vehicle; a course derives it from its planned path."""

    def command(self, odometry: Mapping[str, float] | None) -> tuple[RouteCommand, tuple[float, float]]:
        """The command and a point of the route: metres forward and to the LEFT of the vehicle, not scaled."""
        ...


@dataclass
class DecisionCycle:
    """Runs an agent on one vehicle, from one thread. An episode is one drive; it continues if the link is lost."""

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
    _applied: Control | None = None  # of the last cycle

    def __post_init__(self) -> None:
        if others := [c.name for c in self.agent.cameras if c.name != CAMERA]:
            raise Ad2Error(
                f"the agent needs the cameras {', '.join(others)}; a vehicle has one: --config camera={CAMERA}"
            )

    def begin(self, episode: str) -> None:
        """Start an episode; the previous one ends."""
        self.finish()
        digest = hashlib.sha256(f"{self.seed}:{episode}".encode()).digest()
        self.agent.start(episode, int.from_bytes(digest[:4], "big") >> 1)
        self._episode, self._tick, self._time, self._stamp, self.failures = episode, 0, 0.0, None, 0
        self._applied = None

    def finish(self) -> None:
        if self._episode is not None:
            self.agent.end(self._episode)
            self._episode = None

    def decide(self, obs: VehicleObservation) -> CycleResult:
        """Never raises because of an agent, model or image: the vehicle stands then, and the failure is counted."""
        if self._episode is None:
            self.begin("drive")
        request = DecisionRequest(self._episode or "", self._observation(obs), applied=self._applied)
        started = time.perf_counter()
        decision, interpreted, cut = self._decision(request)
        spent = time.perf_counter() - started
        control, error, unparsed = verdict(decision, interpreted, self.profile, request.observation.speed)
        self._count(error, unparsed, interpreted)
        self._applied = control or COAST
        return CycleResult(
            seq=obs.seq,
            observation=request.observation,
            decision=decision,
            interpreted=interpreted,
            control=self._applied,
            actuation=self.vehicle.actuation(self._applied),
            error=error,
            unparsed=unparsed,
            thinking_s=spent,
            cut=cut,
        )

    def _observation(self, obs: VehicleObservation) -> Observation:
        """Scaled to a full-size car. Time is monotonic even if the vehicle's clock restarts with its client."""
        scale, tick = self.vehicle.scale, self._tick
        if self._stamp is not None:
            self._time += max(obs.stamp - self._stamp, 0.0)
        self._stamp, self._tick = obs.stamp, tick + 1
        if obs.odom is None and self.vehicle.topics.odom:
            self.counts["without odometry"] += 1  # speed and route hint are wrong
        ahead = RouteCommand.FOLLOW, (AHEAD_M / scale, 0.0)
        command, (forward, left) = self.hint.command(obs.odom) if self.hint else ahead
        speed = obs.odom["v"] * scale if obs.odom else 0.0  # without odometry: the vehicle stands between motions
        return Observation(
            tick=tick,
            time_s=self._time,
            speed=speed,
            command=command,
            target=(forward * scale, left * scale),
            images=LazyCameraImages(obs.jpeg),
            speed_limit=self.vehicle.limits.speed * scale,
        )

    def _decision(self, request: DecisionRequest) -> tuple[Decision, InterpretedControl | None, dict[str, int]]:
        """Decision and reading with the texts that logs keep, and the lengths of those that were cut."""
        try:
            (decision,) = self.agent.decide([request])
            decision = decision.storable()
            if decision.error is not None or decision.control is not None or self.interpreter is None:
                return _kept(decision, None)
            (interpreted,) = self.interpreter.interpret([(request, decision)])
            return _kept(decision, interpreted.storable())
        except Exception as exc:  # any failure must become a command to stand
            text = without_keys(" ".join(str(exc).split()), environment_keys())[:200]
            return Decision(error=f"{type(exc).__name__}: {text}").storable(), None, {}

    def _count(self, error: str | None, unparsed: str | None, interpreted: InterpretedControl | None) -> None:
        self.counts["decisions"] += 1
        self.failures = self.failures + 1 if error else 0
        if interpreted is not None and interpreted.mode:
            self.counts[f"mode {interpreted.mode}"] += 1
        if error:
            self.counts["agent_errors"] += 1
        if unparsed:
            self.counts["unparsed"] += 1
            name = f"unparsed: {unparsed.splitlines()[0][:60]}"
            known = [k for k in self.counts if k.startswith("unparsed: ")]
            self.counts[name if name in known or len(known) < _REASONS else "unparsed: other"] += 1


def _kept(
    decision: Decision, interpreted: InterpretedControl | None
) -> tuple[Decision, InterpretedControl | None, dict[str, int]]:
    kept = KeptTexts(environment_keys())
    decision = replace(
        decision, texts=kept.answers("texts", decision.texts), error=kept.optional("error", decision.error)
    )
    if interpreted is not None:
        interpreted = replace(
            interpreted,
            raw=kept.text("raw", interpreted.raw),
            reason=kept.optional("unparsed", interpreted.reason),
            meaning=interpreted.meaning[:NAME],
        )
    return decision, interpreted, kept.cut


class LazyCameraImages:
    """Observation.images of a vehicle: the JPEG of its camera, untrusted, decoded on first use."""

    def __init__(self, jpeg: bytes) -> None:
        self.jpeg = jpeg
        self._image: np.ndarray | None = None

    def __call__(self, camera: str) -> np.ndarray:
        """(H, W, 3) uint8 RGB. ValueError if it is not a complete JPEG of at most MOST_PIXELS."""
        if camera != CAMERA:
            raise ValueError(f"a vehicle has no camera {camera!r}, only {CAMERA}")
        if self._image is None:
            try:
                with open_image(self.jpeg, formats=("JPEG",), most_pixels=MOST_PIXELS) as image:
                    self._image = np.asarray(shown_rgb(image))
            except OSError as exc:
                raise ValueError(f"no whole JPEG: {str(exc)[:120]}") from None
        return self._image
