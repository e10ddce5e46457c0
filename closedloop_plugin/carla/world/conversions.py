"""Conversions between our values and CARLA's: poses, velocities, actor snapshots, lamps, doors, kinds, weather.

Map frame: right-handed, x east, y north, yaw counter-clockwise in rad. CARLA's (Unreal): left-handed, y south, yaw
clockwise in degrees. So y and yaw change sign (core/frames.py); z (up) is the same.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import carla

from closedloop_plugin.core.frames import from_carla, to_carla
from closedloop_plugin.core.routes import Weather
from closedloop_plugin.core.state import ActorKind
from closedloop_plugin.worlds.bodies.body import SimulatedBody

HIDDEN_Z = -200.0  # m: height of actors that are removed from the scene


def transform(x: float, y: float, z: float, yaw: float, pitch_deg: float = 0.0) -> Any:
    """carla.Transform of a pose in the map frame (m, m, m, radians)."""
    cx, cy, cyaw = to_carla(x, y, yaw)
    return carla.Transform(carla.Location(cx, cy, z), carla.Rotation(pitch=pitch_deg, yaw=cyaw, roll=0.0))


def vector(x: float, y: float) -> Any:
    """carla.Vector3D of a velocity in the map frame."""
    cx, cy, _ = to_carla(x, y)
    return carla.Vector3D(cx, cy, 0.0)


def read(body: SimulatedBody, snapshot: Any, offset: float) -> None:
    """Set the body's motion from an actor's snapshot. `offset`: its box's centre ahead of the actor's origin, m."""
    m = body.motion
    pose, velocity, acceleration, angular = (
        snapshot.get_transform(),
        snapshot.get_velocity(),
        snapshot.get_acceleration(),
        snapshot.get_angular_velocity(),
    )
    x, y, m.yaw = from_carla(pose.location.x, pose.location.y, pose.rotation.yaw)
    c, s = math.cos(m.yaw), math.sin(m.yaw)
    m.x, m.y = x + offset * c, y + offset * s
    m.vx, m.vy, _ = from_carla(velocity.x, velocity.y)
    m.ax, m.ay, _ = from_carla(acceleration.x, acceleration.y)
    m.v = m.vx * c + m.vy * s
    m.yaw_rate = -math.radians(angular.z)  # CARLA: degrees per second, clockwise


_L = carla.VehicleLightState
LAMPS = {
    "brake": _L.Brake,
    "left": _L.LeftBlinker,
    "right": _L.RightBlinker,
    "hazard": _L(_L.LeftBlinker | _L.RightBlinker),
    "siren": _L.Special1,
    "headlights": _L(_L.Position | _L.LowBeam),
    "reverse": _L.Reverse,
}
DOORS = {"left": carla.VehicleDoor.FL, "right": carla.VehicleDoor.FR}


def light_state(lamps: frozenset[str]) -> Any:
    """carla.VehicleLightState of the lamps that are on."""
    bits = 0
    for lamp in lamps:
        bits |= int(LAMPS[lamp])
    return _L(bits)


def kind_of(actor: Any) -> ActorKind:
    """Kind of an actor that is not part of the scene: of the town or the traffic."""
    name = str(actor.type_id)
    if name.startswith("walker."):
        return ActorKind.PEDESTRIAN
    if not name.startswith("vehicle."):
        return ActorKind.BLOCKER
    known = {"car", "van", "truck", "bus", "motorcycle", "bicycle"}
    base = str(actor.attributes.get("base_type", "")).lower()
    return ActorKind(base) if base in known else ActorKind.CAR


NAMES = tuple(f.name for f in fields(Weather))
LOW_SUN, CLOUDS, FOG, CLOSE = 15.0, 80.0, 40.0, 10.0  # degrees, then percent: as the leaderboard's automatic lights


def parameters(weather: Weather) -> Any:
    """carla.WeatherParameters; fields that a route does not have (fog distance, dust) keep CARLA's defaults."""
    return carla.WeatherParameters(**{name: getattr(weather, name) for name in NAMES})


def needs_headlights(weather: Weather) -> bool:
    """Whether headlights are on: one condition is met, or two are within CLOSE of it."""
    margins = weather.sun_altitude_angle - LOW_SUN, CLOUDS - weather.cloudiness, FOG - weather.fog_density
    return min(margins) < 0 or sum(margin < CLOSE for margin in margins) >= 2
