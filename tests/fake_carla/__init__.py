"""A fake `carla` package with its own server; README.md describes what it implements.

with fake_carla.installed(maps) as server: ...            in this process, its server in a thread
fake_carla.worker_environment(maps)                       for subprocesses: their `import carla` is the fake
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import carla

from fake_carla import (
    actors,
    blueprints,
    client,
    commands,
    measurements,
    scenery,
    sensor_data,
    sensors,
    signals,
    strict,
    towns,
    traffic_manager,
    world,
)
from fake_carla.server import Mode, Server

HERE = Path(__file__).resolve().parent
SITE = HERE / "site"
REPLACED: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        client.Client, world.World, world.WorldSnapshot, world.ActorSnapshot, blueprints.BlueprintLibrary,
        blueprints.ActorBlueprint, blueprints.ActorAttribute, actors.ActorList, actors.Actor, actors.Vehicle,
        actors.Walker, actors.WalkerAIController, signals.TrafficSign, signals.TrafficLight, sensors.Sensor,
        sensors.ServerSideSensor, sensors.ClientSideSensor, sensors.LaneInvasionSensor, sensor_data.SensorData,
        measurements.GnssMeasurement, measurements.IMUMeasurement,
        sensors.Image, sensors.CollisionEvent, sensors.LaneInvasionEvent, traffic_manager.TrafficManager,
        scenery.DebugHelper, scenery.LightManager, scenery.LabelledPoint,
    )
}  # fmt: skip
COMMANDS: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        commands.ApplyTransform, commands.ApplyTargetVelocity, commands.ApplyVehicleControl,
        commands.ApplyWalkerControl, commands.SetSimulatePhysics, commands.SetAutopilot,
        commands.SetVehicleLightState, commands.DestroyActor, commands.SpawnActor, commands.Response,
    )
}  # fmt: skip
REAL = {name: getattr(carla, name) for name in REPLACED}
REAL_COMMANDS = {name: getattr(carla.command, name) for name in COMMANDS}
if any(isinstance(cls, type) and cls.__module__.startswith("fake_carla") for cls in REAL.values()):
    raise ImportError("fake_carla must see the real carla first")
for _name, _cls in (*REPLACED.items(), *COMMANDS.items()):
    strict.guard(_cls, REAL.get(_name) or REAL_COMMANDS[_name])


def install() -> Callable[[], None]:
    """Replace the real classes by the fake ones; the returned function restores them."""
    modules: list[tuple[Any, dict[str, type]]] = [
        (carla, REPLACED), (carla.libcarla, REPLACED), (carla.command, COMMANDS),
    ]  # fmt: skip
    before = [(module, name, getattr(module, name)) for module, names in modules for name in names]
    for module, names in modules:
        for name, cls in names.items():
            setattr(module, name, cls)

    def undo() -> None:
        for module, name, old in before:
            setattr(module, name, old)
        for stage in client.STAGES.values():
            stage.streams.close()
        client.STAGES.clear()

    return undo


@contextmanager
def installed(maps: Path, mode: Mode | None = None) -> Iterator[Server]:
    """The fake in this process, with a server in a thread. `maps`: folder of <Town>.xodr."""
    before = os.environ.get(towns.FOLDER)
    os.environ[towns.FOLDER] = str(maps)
    towns.town_map.cache_clear()
    undo = install()
    try:
        with Server(mode=mode) as server:
            yield server
    finally:
        undo()
        os.environ.pop(towns.FOLDER)
        if before is not None:
            os.environ[towns.FOLDER] = before


def worker_environment(maps: Path) -> dict[str, str]:
    """Environment variables with which the `carla` of a subprocess is the fake."""
    path = [str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {towns.FOLDER: str(maps), "PYTHONPATH": os.pathsep.join(path)}
