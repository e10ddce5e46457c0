"""A stand-in for a Bench2Drive checkout: loads an agent and runs it as the leaderboard does, without CARLA.

Written from the documented interface (Bench2Drive 0.0.4), not from its code. Runs as a separate program, under any
Python from 3.7, so that the fake modules affect no other test:

    python stand_in.py AGENT_FILE AGENT_CONFIG RECORDING        prints one JSON object per route

`install` puts `carla` and `leaderboard` into sys.modules; `evaluate` does the work of the evaluator.
"""

from __future__ import annotations

import enum
import importlib
import json
import math
import sys
import traceback
import types
from pathlib import Path
from typing import Any

EARTH_M = 6378137.0


class RoadOption(enum.Enum):
    VOID = -1
    LEFT = 1
    RIGHT = 2
    STRAIGHT = 3
    LANEFOLLOW = 4
    CHANGELANELEFT = 5
    CHANGELANERIGHT = 6


class Track(enum.Enum):
    SENSORS = "SENSORS"
    MAP = "MAP"


class Vector:
    def __init__(self, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> None:
        self.x, self.y, self.z = x, y, z


class Rotation:
    def __init__(self, pitch: float = 0.0, yaw: float = 0.0, roll: float = 0.0) -> None:
        self.pitch, self.yaw, self.roll = pitch, yaw, roll


class Transform:
    def __init__(self, location: Vector, rotation: Rotation) -> None:
        self.location, self.rotation = location, rotation


class VehicleControl:
    """Like carla.VehicleControl (a Boost class): accepts known names only, and for pedals and steering only floats."""

    NAMES = ("throttle", "steer", "brake", "hand_brake", "reverse", "manual_gear_shift", "gear")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.NAMES:
            raise AttributeError(name)
        if name in self.NAMES[:3] and type(value) is not float:
            raise TypeError(f"{name}: {value!r} is no float")
        object.__setattr__(self, name, value)


class Hero:
    """The ego vehicle, at the recorded pose."""

    attributes = {"role_name": "hero"}  # noqa: RUF012 - there is one instance

    def __init__(self) -> None:
        self.x = self.y = self.yaw_deg = 0.0

    def get_acceleration(self) -> Vector:
        return Vector(0.5, 0.0, 0.0)

    def get_angular_velocity(self) -> Vector:
        return Vector()

    def get_transform(self) -> Any:
        turn = math.radians(self.yaw_deg)
        found: Any = Transform(Vector(self.x, self.y), Rotation(yaw=self.yaw_deg))
        found.get_forward_vector = lambda: Vector(math.cos(turn), math.sin(turn))
        found.get_right_vector = lambda: Vector(-math.sin(turn), math.cos(turn))
        return found


HERO = Hero()


class AutonomousAgent:
    """The base class that agents derive from."""

    def __init__(self, carla_host: str, carla_port: int, debug: bool = False) -> None:
        self.track = Track.SENSORS
        self._global_plan: Any = None
        self._global_plan_world_coord: Any = None
        self.hero_actor = HERO

    def setup(self, path_to_conf_file: str) -> None:
        raise NotImplementedError

    def destroy(self) -> None:
        raise NotImplementedError

    @staticmethod
    def get_ros_version() -> int:
        return -1

    def set_global_plan(self, global_plan_gps: Any, global_plan_world_coord: Any) -> None:
        """Keep a point every 50 m, at each change of the option and at the end; also keep the full GPS plan."""
        kept, since = [], 0.0
        for i, (transform, option) in enumerate(global_plan_world_coord):
            before = global_plan_world_coord[i - 1] if i else None
            if before:
                here, there = transform.location, before[0].location
                since += math.hypot(here.x - there.x, here.y - there.y)
            if before is None or option != before[1] or since > 50.0 or i == len(global_plan_world_coord) - 1:
                kept.append(i)
                since = 0.0
        self._global_plan_world_coord = [global_plan_world_coord[i] for i in kept]
        self._global_plan = [global_plan_gps[i] for i in kept]
        self._plan_gps_HACK = global_plan_gps

    def get_metric_info(self) -> dict[str, list[float]]:
        def three(v: Any) -> list[float]:
            return [v.x, v.y, v.z]

        t, hero = self.hero_actor.get_transform(), self.hero_actor
        return {
            "acceleration": three(hero.get_acceleration()),
            "angular_velocity": three(hero.get_angular_velocity()),
            "forward_vector": three(t.get_forward_vector()),
            "right_vector": three(t.get_right_vector()),
            "location": three(t.location),
            "rotation": [t.rotation.roll, t.rotation.pitch, t.rotation.yaw],
        }


class Pixels:
    """A CARLA image, (H, W, 4) uint8 BGRA, without numpy: only the operations that the agent needs."""

    def __init__(self, height: int, width: int, data: bytes) -> None:
        self.shape, self._data = (height, width, 4), data

    def __getitem__(self, key: Any) -> Pixels:
        assert key == (slice(None), slice(None), slice(2, None, -1)), "the stand-in can only turn BGRA into RGB"
        data = self._data
        rgb = b"".join(bytes((data[i + 2], data[i + 1], data[i])) for i in range(0, len(data), 4))
        return Pixels(self.shape[0], self.shape[1], rgb)

    def tobytes(self) -> bytes:
        return self._data


def image(width: int, height: int, bgra: bytes) -> Any:
    """An image of one colour."""
    data = bgra * (width * height)
    try:
        np = importlib.import_module("numpy")
    except ImportError:
        return Pixels(height, width, data)
    return np.frombuffer(data, dtype="uint8").reshape(height, width, 4)


def install() -> None:
    """Install the modules that an agent file may import."""

    def module(name: str, **content: Any) -> None:
        sys.modules[name] = created = types.ModuleType(name)
        created.__dict__.update(content)
        created.__path__ = []  # type: ignore[attr-defined] - a package

    module("carla", VehicleControl=VehicleControl, Transform=Transform, Location=Vector, Rotation=Rotation)
    for name in ("leaderboard", "leaderboard.autoagents"):
        module(name)
    module("leaderboard.autoagents.autonomous_agent", AutonomousAgent=AutonomousAgent, Track=Track)


def gps(x: float, y: float, lat_ref: float, lon_ref: float) -> dict[str, float]:
    """CARLA's Mercator projection of a map point (m, y is south) to degrees."""
    scale = math.cos(math.radians(lat_ref)) * EARTH_M
    east = scale * math.radians(lon_ref) + x
    north = scale * math.log(math.tan(math.pi / 4 + math.radians(lat_ref) / 2)) - y
    return {
        "lat": math.degrees(2 * math.atan(math.exp(north / scale)) - math.pi / 2),
        "lon": math.degrees(east / scale),
        "z": 0.0,
    }


def plan_of(points: Any, lat_ref: float, lon_ref: float) -> tuple[list[Any], list[Any]]:
    """(gps, world) plans of [[x, y, RoadOption's name], ...], as RouteScenario makes them."""
    world = [(Transform(Vector(x, y), Rotation()), RoadOption[name]) for x, y, name in points]
    return [(gps(x, y, lat_ref, lon_ref), RoadOption[name]) for x, y, name in points], world


def readings(frame: Any, number: int, agent: Any, rear_m: float = -1.4) -> dict[str, Any]:
    """The sensors' data of one recorded frame: [time, x, y, yaw in degrees, speed]."""
    _, x, y, yaw, speed = frame
    turn = math.radians(yaw)
    position = gps(x + rear_m * math.cos(turn), y + rear_m * math.sin(turn), *agent["reference"])
    compass = (turn + math.pi / 2) % (2 * math.pi)
    data: dict[str, Any] = {
        "GPS": (number, [position["lat"], position["lon"], 0.0]),
        "IMU": (number, [0.5, 0.0, 9.81, 0.0, 0.0, 0.0, compass]),
        "SPEED": (number, {"speed": speed}),
    }
    for sensor in agent["sensors"]:
        if sensor["type"] == "sensor.camera.rgb":
            data[sensor["id"]] = (number, image(sensor["width"], sensor["height"], b"\x0a\x14\x1e\xff"))
    return data


def drive(agent: Any, config: str, recording: Any, result: dict[str, Any]) -> None:
    """Drive one route; `result` is filled step by step, so that it is valid after an exception."""
    result["status"] = "Agent couldn't be set up"
    agent.set_global_plan(*plan_of(recording["plan"], *recording["reference"]))
    agent.setup(config)
    result["sensors"] = agent.sensors()
    ids = [s["id"] for s in result["sensors"]]
    assert len(set(ids)) == len(ids) and agent.track == Track.SENSORS
    result["status"] = "Agent crashed"
    for number, frame in enumerate(recording["frames"]):
        HERO.x, HERO.y, HERO.yaw_deg = frame[1:4]
        data = readings(frame, number, {"reference": recording["reference"], "sensors": result["sensors"]})
        control = agent.run_step(data, frame[0])
        control.manual_gear_shift = False
        result["controls"].append([control.steer, control.throttle, control.brake])
    result["status"] = "Completed"


def evaluate(agent_file: str, config: str, recording: Any) -> None:
    """Load an agent and run routes as the leaderboard does: each route appends a save name to the configuration."""
    file = Path(agent_file)
    sys.path.insert(0, str(file.parent))
    module = importlib.import_module(file.name.split(".")[0])
    for save_name in recording["routes"]:
        result: dict[str, Any] = {"save_name": save_name, "controls": [], "error": ""}
        agent = getattr(module, module.get_entry_point())("localhost", 2000, 0)
        config = f"{config}+{save_name}"
        try:
            drive(agent, config, recording, result)
        except Exception as exc:
            result["error"] = f"{type(exc).__name__}: {exc}"
            traceback.print_exc()
        agent.destroy()
        print("RESULT " + json.dumps(result), flush=True)


if __name__ == "__main__":
    install()
    evaluate(sys.argv[1], sys.argv[2], json.loads(Path(sys.argv[3]).read_text("utf-8")))
