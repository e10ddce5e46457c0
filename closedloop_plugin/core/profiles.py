"""Profile: the rules of a benchmark (rates, limits, penalties, post-processing).

A result names its profile; results of different profiles are never averaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.state import Control
from lmms_eval_ad2.core.errors import Ad2Error


@dataclass(frozen=True)
class InfractionPenalties:
    """Penalty of one infraction of each kind.

    rule "multiplicative": penalty = product of the factors; "additive": penalty = 1 / (1 + sum of the weights).
    """

    rule: str = "multiplicative"
    collisions_pedestrian: float = 0.5
    collisions_vehicle: float = 0.6
    collisions_layout: float = 0.65
    red_light: float = 0.7
    stop_infraction: float = 0.8
    scenario_timeouts: float = 0.7
    yield_emergency_vehicle_infractions: float = 0.7
    min_speed_infractions: float = 1.0


@dataclass(frozen=True)
class Profile:
    """All constants of one benchmark; sources in docs/closed-loop.md."""

    name: str
    penalties: InfractionPenalties = InfractionPenalties()
    hz: float = 20.0  # simulation
    decision_hz: float = 20.0
    max_ticks: int = 4000
    complete_percent: float = 99.0  # route completed above this, and within complete_m of its end
    complete_m: float = 10.0
    off_route_m: float = 30.0
    blocked_s: float = 60.0
    blocked_speed: float = 0.1  # m/s
    same_actor_s: float = 5.0
    same_actor_m: float = 5.0
    timeout_base_s: float = 300.0
    timeout_limit_share: float = 0.1  # of the speed limit
    stop_speed: float = 0.1
    stop_reach_m: float = 4.0
    # Post-processing of an interpreted control (public code of Bench2ADVLM); None: not applied.
    min_brake: float | None = None  # a weaker brake is set to 0
    max_speed: float | None = None  # m/s; above it throttle is 0
    max_throttle: float | None = None
    cameras: tuple[Camera, ...] = ()
    situation: str = "full"  # told to the slow system: none | speed | full (speed, limit, navigation, next point)
    throttle_set: tuple[float, ...] = (0.0, 0.3, 0.6, 0.9)
    steer_set: tuple[float, ...] = (-1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0)
    brake_set: tuple[float, ...] = (0.0, 0.3, 0.6, 0.9)

    def post(self, control: Control, speed: float) -> Control:
        """`control` after the profile's post-processing, in the published order. `speed` in m/s."""
        c = control.checked()
        if self.min_brake is not None:
            if c.brake < self.min_brake:
                c = replace(c, brake=0.0)
            if c.throttle > c.brake:
                c = replace(c, brake=0.0)
        if self.max_speed is not None and speed > self.max_speed:
            c = replace(c, throttle=0.0)
        if self.max_throttle is not None:
            c = replace(c, throttle=min(c.throttle, self.max_throttle))
        return c.checked()


def surround(width: int = 1600, height: int = 900) -> tuple[Camera, ...]:
    """Bench2Drive's six cameras; field of view 70 degrees, back 110."""
    place = {
        "front": (0.80, 0.0, 0.0, 70.0),
        "front_left": (0.27, -0.55, -55.0, 70.0),
        "front_right": (0.27, 0.55, 55.0, 70.0),
        "back": (-2.0, 0.0, 180.0, 110.0),
        "back_left": (-0.32, -0.55, -110.0, 70.0),
        "back_right": (-0.32, 0.55, 110.0, 70.0),
    }
    return tuple(
        Camera(name=n, width=width, height=height, fov=fov, forward=f, right=r, up=1.60, yaw=yaw)
        for n, (f, r, yaw, fov) in place.items()
    )


PROFILES: Mapping[str, Profile] = {
    "bench2drive": Profile("bench2drive", cameras=surround()),
    "bench2advlm": Profile(
        "bench2advlm",
        hz=10.0,  # public code: simulation, decisions and metric_info at 10 Hz
        decision_hz=10.0,
        max_ticks=1250,  # 125 s
        min_brake=0.05,
        max_speed=5.0,
        max_throttle=0.75,
        cameras=surround(),
        situation="none",  # words and image only: paper, section 3.1, and public code
    ),
    "leaderboard-2.0": Profile("leaderboard-2.0", InfractionPenalties(min_speed_infractions=0.7), max_ticks=10**9),
    # Multiplicative penalties; stop signs are not counted (page of Longest6), nor the minimum speed, which it lacks.
    "longest6": Profile("longest6", InfractionPenalties(stop_infraction=1.0), max_ticks=10**9, cameras=surround()),
    "leaderboard-2.1": Profile(
        "leaderboard-2.1",
        InfractionPenalties(
            rule="additive",
            collisions_pedestrian=1.0,
            collisions_vehicle=0.7,
            collisions_layout=0.6,
            red_light=0.4,
            stop_infraction=0.25,
            scenario_timeouts=0.4,
            yield_emergency_vehicle_infractions=0.4,
            min_speed_infractions=0.4,
        ),
        max_ticks=10**9,
    ),
}


def profile(name: str) -> Profile:
    """The profile with this name. Raises Ad2Error, which lists the names, for an unknown one."""
    if name not in PROFILES:
        raise Ad2Error(f"no profile {name!r}; known: {', '.join(PROFILES)}")
    return PROFILES[name]
