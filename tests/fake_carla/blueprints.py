"""The blueprint library: Scenic's list for CARLA 0.9.16 (ids and box sizes), sensors, and the walkers' controller."""

from __future__ import annotations

import fnmatch
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import carla

from closedloop_plugin.core.state import ActorKind

_T = carla.ActorAttributeType
_BOOL, _INT, _FLOAT, _STRING, _COLOUR = _T.Bool, _T.Int, _T.Float, _T.String, _T.RGBColor
CAMERAS = ("sensor.camera.rgb", "sensor.camera.semantic_segmentation")
EVENTS = ("sensor.other.collision", "sensor.other.lane_invasion")
GNSS, IMU = "sensor.other.gnss", "sensor.other.imu"
CONTROLLER = "controller.ai.walker"
MESH = "static.prop.mesh"
_KINDS = {
    "carModels": ActorKind.CAR, "vanModels": ActorKind.VAN, "truckModels": ActorKind.TRUCK, "busModels": ActorKind.BUS,
    "motorcycleModels": ActorKind.MOTORCYCLE, "bicycleModels": ActorKind.BICYCLE, "walkerModels": ActorKind.PEDESTRIAN,
}  # fmt: skip
VERSION = "0.9.16"


def _data() -> ModuleType:
    """Load only Scenic's table: importing Scenic takes a second."""
    scenic = importlib.util.find_spec("scenic")
    assert scenic is not None and scenic.submodule_search_locations
    file = Path(scenic.submodule_search_locations[0], "simulators", "carla", "_blueprintData.py")
    spec = importlib.util.spec_from_file_location("fake_carla_blueprint_data", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ids: dict[str, list[str]] = _data()._IDS[VERSION]
dims: dict[str, dict[str, float]] = _data()._DIMS[VERSION]
_BASE_TYPES = {ActorKind.POLICE: "car", ActorKind.AMBULANCE: "van", ActorKind.FIRETRUCK: "truck"}
# ends of ids; all of generation 2 have lights, of generation 1 most have not (CARLA's catalogue of vehicles)
_SECOND_GENERATION = (
    "_2020", "_2021", ".crown", ".ambulance", ".firetruck", ".sprinter", ".fusorosa", ".european_hgv",
)  # fmt: skip
_NOISE = {
    GNSS: [f"noise_{value}_{kind}" for value in ("alt", "lat", "lon") for kind in ("bias", "stddev")],
    IMU: [f"noise_{name}_{axis}" for name in ("accel_stddev", "gyro_bias", "gyro_stddev") for axis in "xyz"],
}
_WHEELS = {ActorKind.MOTORCYCLE: 2, ActorKind.BICYCLE: 2}
_DEFAULT_DIMS = {"length": 1.0, "width": 1.0, "height": 1.0}


class ActorAttribute:
    """A named text with a type, which determines its conversions."""

    def __init__(self, id: str, type: object, value: str, choices: tuple[str, ...] = (), free: bool = True) -> None:
        self._id, self._type, self._value, self._choices, self._free = id, type, value, choices, free

    id = property(lambda self: self._id)
    type = property(lambda self: self._type)
    is_modifiable = property(lambda self: self._free)
    recommended_values = property(lambda self: list(self._choices))

    def as_bool(self) -> bool:
        return self._typed(_BOOL) == "true"

    def as_int(self) -> int:
        return int(self._typed(_INT))

    def as_float(self) -> float:
        return float(self._typed(_FLOAT))

    def as_str(self) -> str:
        return self._typed(_STRING)

    def as_color(self) -> carla.Color:
        return carla.Color(*map(int, self._typed(_COLOUR).split(",")))

    def _typed(self, kind: object) -> str:
        if self._type != kind:
            raise RuntimeError(f"bad attribute cast: cannot convert to {kind}")
        return self._value

    def __str__(self) -> str:
        return f"ActorAttribute(id={self._id},type={str(self._type).lower()},value={self._value})"


class ActorBlueprint:
    """Blueprint of an actor, with its own copy of the attributes."""

    def __init__(self, id: str, attributes: dict[str, ActorAttribute]) -> None:
        self._id, self._attributes = id, attributes

    id = property(lambda self: self._id)
    tags = property(lambda self: self._id.split("."))

    def has_tag(self, tag: str, /) -> bool:
        return tag in self.tags

    def match_tags(self, wildcard_pattern: str, /) -> bool:
        return fnmatch.fnmatchcase(self._id, wildcard_pattern) or any(
            fnmatch.fnmatchcase(tag, wildcard_pattern) for tag in self.tags
        )

    def has_attribute(self, id: str, /) -> bool:
        return id in self._attributes

    def get_attribute(self, id: str, /) -> ActorAttribute:
        if id not in self._attributes:
            raise IndexError(f"attribute '{id}' not found")
        return self._attributes[id]

    def set_attribute(self, id: str, value: str, /) -> None:
        attribute = self.get_attribute(id)
        if not attribute.is_modifiable:
            raise ValueError(f"attribute '{id}' is not modifiable")
        if attribute.type == _BOOL:
            if value.lower() not in ("true", "false"):
                raise RuntimeError(f"bad attribute cast: {value} is no bool")
            value = value.lower()
        self._attributes[id] = ActorAttribute(id, attribute.type, value, attribute._choices)
        if attribute.type in (_INT, _FLOAT):
            float(value)

    def __iter__(self) -> Iterator[ActorAttribute]:
        return iter(self._attributes.values())

    def __len__(self) -> int:
        return len(self._attributes)

    def __str__(self) -> str:
        return f"ActorBlueprint(id={self._id},tags={self.tags})"


class BlueprintLibrary:
    """find() returns copies: setting an attribute of one does not change the next."""

    def __init__(self, names: list[str]) -> None:
        self._ids = names

    def find(self, id: str) -> ActorBlueprint:
        if id not in self._ids:
            raise IndexError(f"blueprint '{id}' not found")
        return blueprint(id)

    def filter(self, wildcard_pattern: str) -> BlueprintLibrary:
        return BlueprintLibrary([i for i in self._ids if blueprint(i).match_tags(wildcard_pattern)])

    def filter_by_attribute(self, name: str, value: str) -> BlueprintLibrary:
        pairs = ((i, blueprint(i)._attributes.get(name)) for i in self._ids)
        return BlueprintLibrary([i for i, a in pairs if a and (a._value == value or value in a._choices)])

    def __getitem__(self, pos: int, /) -> ActorBlueprint:
        return blueprint(self._ids[pos])

    def __iter__(self) -> Iterator[ActorBlueprint]:
        return map(blueprint, self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __str__(self) -> str:
        return str(self._ids)


def library() -> BlueprintLibrary:
    """All blueprints."""
    listed = {name for models in ids.values() for name in models} | set(dims)
    return BlueprintLibrary([*sorted({*listed, MESH}), *CAMERAS, *EVENTS, GNSS, IMU, CONTROLLER])


def blueprint(id: str) -> ActorBlueprint:
    """A new copy."""
    attributes = [ActorAttribute("role_name", _STRING, "front" if id.startswith("sensor.") else "autopilot")]
    if id.startswith("vehicle."):
        attributes += [
            ActorAttribute("color", _COLOUR, "180,180,180", ("180,180,180", "60,10,10", "10,10,60")),
            ActorAttribute("sticky_control", _BOOL, "true"),
            ActorAttribute("terramechanics", _BOOL, "false"),
            ActorAttribute("number_of_wheels", _INT, str(_WHEELS.get(kind_of(id), 4)), free=False),
            ActorAttribute("base_type", _STRING, _BASE_TYPES.get(kind_of(id), str(kind_of(id))), free=False),
            ActorAttribute("special_type", _STRING, _special_type(id), free=False),
            ActorAttribute("generation", _INT, "2" if id.endswith(_SECOND_GENERATION) else "1", free=False),
            ActorAttribute("has_lights", _BOOL, str(id.endswith(_SECOND_GENERATION)).lower(), free=False),
        ]
    elif id.startswith("walker."):
        attributes += [
            ActorAttribute("is_invincible", _BOOL, "true"),
            ActorAttribute("speed", _FLOAT, "1.4", ("0.0", "1.4", "2.8")),
            ActorAttribute("gender", _STRING, "female", free=False),
            ActorAttribute("age", _STRING, "adult", free=False),
            ActorAttribute("generation", _INT, "1", free=False),
        ]
    elif id.startswith("sensor."):
        attributes += [ActorAttribute("sensor_tick", _FLOAT, "0.0")]
        if id in CAMERAS:
            attributes += [
                ActorAttribute("image_size_x", _INT, "800"),
                ActorAttribute("image_size_y", _INT, "600"),
                ActorAttribute("fov", _FLOAT, "90.0"),
            ]
        if id in _NOISE:
            attributes += [ActorAttribute(name, _FLOAT, "0.0") for name in _NOISE[id]]
            attributes.append(ActorAttribute("noise_seed", _INT, "0"))
    elif id == MESH:
        attributes += [ActorAttribute("mesh_path", _STRING, ""), ActorAttribute("scale", _FLOAT, "1.0")]
    return ActorBlueprint(id, {a.id: a for a in attributes})


def _special_type(id: str) -> str:
    if kind_of(id) in _BASE_TYPES:
        return "emergency"
    electric = ("tesla", "etron", "micro.microlino")
    return "taxi" if "taxi" in id else "electric" if any(word in id for word in electric) else ""


@cache
def kind_of(id: str) -> ActorKind:
    """Kind of a vehicle or walker, by Scenic's lists and its name; a prop is a blocker."""
    if id.startswith("vehicle."):
        for word, kind in (
            ("police", ActorKind.POLICE),
            ("ambulance", ActorKind.AMBULANCE),
            ("firetruck", ActorKind.FIRETRUCK),
        ):
            if word in id:
                return kind
    return next((kind for name, kind in _KINDS.items() if id in ids[name]), ActorKind.BLOCKER)


def half_size(id: str) -> tuple[float, float, float]:
    """Half of length, width and height of its box, m."""
    size = {**_DEFAULT_DIMS, **dims.get(id, {})}
    return size["length"] / 2, size["width"] / 2, size["height"] / 2
