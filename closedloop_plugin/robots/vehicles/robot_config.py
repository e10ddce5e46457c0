"""Reads configs/robots/NAME.yaml: a vehicle with its topics, limits and calibration, and the connection to it.

Every key is checked: unknown keys are refused with the nearest known name, and limits above the manufacturer's too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from closedloop_plugin.robots.vehicles.vehicle import (
    CONVERSIONS,
    RosTopics,
    Vehicle,
    VehicleCalibration,
    VehicleLimits,
)
from lmms_eval_ad2.core.errors import Ad2Error, DataError, yaml_fault
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.storage import user_yaml

FOLDER = Path(__file__).resolve().parents[3] / "configs" / "robots"
T = TypeVar("T", VehicleLimits, VehicleCalibration, RosTopics, "LinkSettings", "CameraSettings", "OnboardSettings")


@dataclass(frozen=True)
class LinkSettings:
    """How the lab machine reaches the vehicle by ssh; the tunnel ends at planner_port on the vehicle's loopback."""

    host: str = ""  # "" for a robot that is only simulated on this machine
    user: str = ""
    port: int = 22
    key: str = ""  # private key file, relative to the YAML's folder; "": ssh's default
    planner_port: int = 47010
    folder: str = "ad2_robot"  # on the vehicle, relative to the user's home
    ssh_options: tuple[str, ...] = ()  # Name=value, before ours: ssh uses the first value


@dataclass(frozen=True)
class CameraSettings:
    jpeg_quality: int = 80
    frame_max_bytes: int = 1 << 20


@dataclass(frozen=True)
class OnboardSettings:
    """Settings of the on-board client, with the names of its settings file."""

    python: str = "python3"
    setup: str = ""  # shell files that bring ROS into the environment, joined by ":", in this order; ~/ is the home
    backend: str = ""  # ros1 | ros2 | MODULE:CLASS; "": the vehicle's ROS version
    relay: bool = True
    motion_s: float = 0.5
    rate_hz: float = 20.0
    max_age_s: float = 5.0
    heartbeat_hz: float = 50.0
    reconnect_s: float = 0.5
    camera_stall_s: float = 0.1
    link_silence_s: float = 0.3


@dataclass(frozen=True)
class RobotConfig:
    """A robot. `name`: the stem of its file."""

    name: str
    file: Path
    vehicle: Vehicle
    link: LinkSettings
    camera: CameraSettings
    onboard: OnboardSettings

    @property
    def backend(self) -> str:
        return self.onboard.backend or f"ros{self.vehicle.ros}"


# Ranges of numbers that are not limited by the vehicle's ceiling.
_RANGES: dict[str, tuple[float, float]] = {
    "speed_gain": (0.2, 5.0),
    "yaw_gain": (0.2, 5.0),
    "steer_offset": (-0.5, 0.5),
    "steer_limit_deg": (1.0, 60.0),
    "turn_s": (0.02, 0.5),
    "port": (1, 65535),
    "planner_port": (1024, 65535),
    "jpeg_quality": (1, 95),
    "frame_max_bytes": (1024, 4 << 20),
    "motion_s": (0.05, 0.5),
    "rate_hz": (20.0, 100.0),
    "max_age_s": (0.1, 120.0),
    "heartbeat_hz": (1.0, 200.0),
    "reconnect_s": (0.05, 60.0),
    "camera_stall_s": (0.02, 5.0),
    "link_silence_s": (0.05, 5.0),
}
_SECTIONS = ("vehicle", "topics", "limits", "calibration", "link", "camera", "onboard")


def find_robot(text: str) -> RobotConfig:
    """Read a robot by file, or by name from configs/robots."""
    file = Path(text).expanduser()
    if file.suffix in (".yaml", ".yml") or file.is_file():
        return read_robot(file)
    known = sorted(path.stem for path in FOLDER.glob("*.yaml"))
    if text in known:
        return read_robot(FOLDER / f"{text}.yaml")
    hint = _near(text, known) if known else "configs/robots in the repository has one for each vehicle"
    raise Ad2Error(f"no robot {text!r}: name a YAML file; {hint}")


def read_robot(file: Path) -> RobotConfig:
    """Read and check a robot's file. DataError names the invalid field and the expected value."""
    data = _yaml(file)
    for key in data:
        if key not in _SECTIONS:
            raise DataError(file, None, str(key), "a known section", None, _near(key, _SECTIONS))
    name = data.get("vehicle")
    if not isinstance(name, str) or name not in VEHICLES:
        raise DataError(file, None, "vehicle", "a vehicle's name", name, _near(name, VEHICLES))
    kind = VEHICLES[name]
    limits = _section(file, data, "limits", kind.limits)
    _within_ceiling(file, limits, kind)
    vehicle = replace(
        kind,
        limits=limits,
        calibration=_section(file, data, "calibration", kind.calibration),
        topics=_section(file, data, "topics", kind.topics),
    )
    link = _section(file, data, "link", LinkSettings())
    if link.key:
        link = replace(link, key=str(file.parent / Path(link.key).expanduser()))
    onboard = _section(file, data, "onboard", OnboardSettings())
    _consistent(file, vehicle, onboard)
    return RobotConfig(
        name=file.stem,
        file=file,
        vehicle=vehicle,
        link=link,
        camera=_section(file, data, "camera", CameraSettings()),
        onboard=onboard,
    )


def _yaml(file: Path) -> dict[Any, Any]:
    try:
        data = user_yaml.parse(user_yaml.read_text(file))
    except OSError as exc:
        raise Ad2Error(f"cannot read the robot's file {file}: {exc}") from exc
    except yaml.YAMLError as exc:
        raise DataError(file, None, "file", "valid YAML", yaml_fault(exc)) from exc
    if not isinstance(data, dict):
        raise DataError(file, None, "file", f"a mapping of {', '.join(_SECTIONS)}", data)
    return data


def _section(file: Path, data: dict[Any, Any], section: str, default: T) -> T:
    """`default` with the values of a section of the file."""
    values = data.get(section)
    if values is None:
        return default
    if not isinstance(values, dict):
        raise DataError(file, None, section, "a mapping", values)
    known = [f.name for f in fields(default)]
    for key in values:
        if key not in known:
            raise DataError(file, None, f"{section}.{key}", "a known key", None, _near(key, known))
    return replace(default, **{k: _value(file, f"{section}.{k}", v, getattr(default, k)) for k, v in values.items()})


def _value(file: Path, field: str, value: Any, like: Any) -> Any:
    """`value` with the type of the default that it replaces, checked against its range."""
    if isinstance(like, tuple):
        if not isinstance(value, list) or not all(isinstance(v, str) and "=" in v and v.isprintable() for v in value):
            raise DataError(file, None, field, "a list of Name=value", value)
        return tuple(value)
    if isinstance(like, bool | str):
        if type(value) is not type(like) or (isinstance(value, str) and not value.isprintable()):
            raise DataError(file, None, field, "a text" if isinstance(like, str) else "true or false", value)
        return value
    whole = isinstance(like, int)
    low, high = _RANGES.get(field.partition(".")[2], (0.0, 100.0))
    if not is_number(value) or not low <= value <= high or (whole and value != int(value)):
        raise DataError(file, None, field, f"a {'whole ' if whole else ''}number from {low:g} to {high:g}", value)
    return type(like)(value)


def _within_ceiling(file: Path, limits: VehicleLimits, kind: Vehicle) -> None:
    ceiling = kind.ceiling
    for name in ("speed", "yaw_rate", "accel", "lateral"):
        most, found = getattr(ceiling, name), getattr(limits, name)
        if found > most or (found <= 0.0 and name != "lateral"):
            raise DataError(file, None, f"limits.{name}", f"above 0 and at most {most:g} for {kind.name}", found)
    if limits.turning_radius < ceiling.turning_radius:
        least = f"at least {ceiling.turning_radius:.4g} m for {kind.name}"
        raise DataError(file, None, "limits.turning_radius", least, limits.turning_radius)
    if limits.reverse and not ceiling.reverse:
        raise DataError(file, None, "limits.reverse", "false: no camera looks behind the vehicle", True)


def _consistent(file: Path, vehicle: Vehicle, onboard: OnboardSettings) -> None:
    if vehicle.topics.camera_type not in ("raw", "compressed"):
        raise DataError(file, None, "topics.camera_type", "raw or compressed", vehicle.topics.camera_type)
    for name in ("cmd", "camera"):
        if not getattr(vehicle.topics, name):
            raise DataError(file, None, f"topics.{name}", "a topic, which driving requires", "")
    if vehicle.mode is not None and not vehicle.topics.status:
        need = f"a topic: {vehicle.name} is only driven in mode {vehicle.mode}"
        raise DataError(file, None, "topics.status", need, "")
    if vehicle.watchdog_s is None and not onboard.relay:
        raise DataError(file, None, "onboard.relay", f"true: {vehicle.name} does not stop by itself", False)
    for part in filter(None, onboard.setup.split(":")):
        if not re.fullmatch(r"(~?/)[A-Za-z0-9_.+/-]+", part):
            raise DataError(file, None, "onboard.setup", "absolute paths, or below ~/, joined by ':'", onboard.setup)
    backend = onboard.backend
    if backend not in ("", "ros1", "ros2") and not all(p.strip() for p in backend.partition(":")):
        raise DataError(file, None, "onboard.backend", "ros1, ros2 or MODULE:CLASS", backend)


def _near(word: Any, known: Any) -> str:
    near = difflib.get_close_matches(str(word), list(known), 1)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"


def _supported() -> dict[str, Vehicle]:
    """The vehicles of vehicles.yaml."""
    vehicles = {}
    for name, row in yaml.safe_load(Path(__file__).with_name("vehicles.yaml").read_text("utf-8")).items():
        made = {
            "ceiling": VehicleLimits(**row["ceiling"]),
            "limits": VehicleLimits(**{**row["ceiling"], **row["limits"]}),
            "topics": RosTopics(**row["topics"]),
            "convert": CONVERSIONS[row["convert"]],
        }
        vehicles[name] = Vehicle(name=name, calibration=VehicleCalibration(), **{**row, **made})
    return vehicles


# All supported vehicles by name.
VEHICLES: Mapping[str, Vehicle] = _supported()
