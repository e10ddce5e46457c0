"""EmbeddedWorld: Scenic programs with our own physics, traffic lights, background traffic and camera."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.core.perception import PERCEPTION_CONDITIONS
from closedloop_plugin.core.routes import Route, Weather
from closedloop_plugin.core.state import EgoContact
from closedloop_plugin.core.visibility import VisibleExtent
from closedloop_plugin.maps.base import RoadLayout, RoadMap
from closedloop_plugin.worlds.bridge.compiled_scene import CompiledScene, scenic
from closedloop_plugin.worlds.bridge.ground import NetworkGround
from closedloop_plugin.worlds.bridge.stage import ScenarioStage
from closedloop_plugin.worlds.bridge.world import ScenicWorld

MODEL = "closedloop_plugin.worlds.embedded.model"


class EmbeddedWorld(ScenicWorld):
    """One simulator, main thread, one episode at a time. `folder`: where corridor maps are written."""

    backend = "embedded"
    model = MODEL
    shown = PERCEPTION_CONDITIONS

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, f"1 (scenic {version('scenic')})")
        self._renderer: Any = None
        scenic()
        # Imported now, so that a world process excludes them from garbage collection.
        from closedloop_plugin.worlds.embedded import collisions, simulation, traffic  # noqa: F401

    def _road_for(self, route: Route, layout: RoadLayout, town: Path | None) -> RoadMap:
        from closedloop_plugin.maps.build import road_for

        return road_for(route, layout, town=town, folder=self._folder)

    def _begin(self, compiled: CompiledScene, stage: ScenarioStage) -> None:
        from closedloop_plugin.worlds.embedded.collisions import BuildingObstacles
        from closedloop_plugin.worlds.embedded.simulation import EmbeddedSimulationContext, EmbeddedSimulator
        from closedloop_plugin.worlds.embedded.traffic import BackgroundTraffic

        seed = self._setup.seed
        self._ground = NetworkGround(self._network)
        objects = compiled.scene.objects
        traffic = BackgroundTraffic(stage, self._network, objects, seed, self._ground) if stage.traffic else None
        obstacles = BuildingObstacles(self._network, self.road, self._ground, seed)
        context = EmbeddedSimulationContext(stage, grip(self._weather), self._lights, traffic, obstacles)
        self._renderer = None
        self._start_simulation(compiled, EmbeddedSimulator(self._network, context))

    def _contacts(self) -> tuple[EgoContact, ...]:
        contacts = []
        for t in self._simulation.contacts:
            if self._ego in (t.a, t.b):
                other = t.b if t.a is self._ego else t.a
                contacts.append(EgoContact(other.id, other.kind, t.x, t.y, t.impulse))
        return tuple(contacts)

    def visible_bodies(self, name: str) -> Mapping[str, VisibleExtent]:
        """Extents of each actor, sign and signal in the picture of a camera at this tick, by id. For observers, not for
        agents: they are derived from the truth."""
        camera = self._camera(name)
        self._pictures[name], extents = self._scene_renderer().render_measured(camera, self._view())
        return extents

    def _render(self, camera: Any) -> np.ndarray:
        return self._scene_renderer().render(camera, self._view())

    def _scene_renderer(self) -> Any:
        from closedloop_plugin.worlds.embedded.camera.network_scenery import scenery_of
        from closedloop_plugin.worlds.embedded.camera.render import CameraRenderer

        if self._renderer is None:
            seed, conditions = self._setup.seed, self._perception
            plate = conditions.contradictory_sign
            scenery = scenery_of(self._network, self.road, seed, plate, self._stage.trigger_s)
            self._renderer = CameraRenderer(scenery, conditions, seed)
        return self._renderer

    def _view(self) -> Any:
        from closedloop_plugin.worlds.embedded.camera.render import SceneView

        truth, ego = self.truth(), self.truth().ego
        return SceneView(
            x=ego.x, y=ego.y, yaw=ego.yaw, actors=truth.actors, signals=truth.signals, weather=self._weather,
            time_s=truth.time_s,
        )  # fmt: skip


def grip(weather: Weather) -> float:
    """Tyre grip as a share of the dry limit: 1.0 on a dry road, 0.6 in standing water."""
    wet = max(_share(weather.wetness), 0.6 * _share(weather.precipitation))
    return max(0.6, 1.0 - 0.2 * wet - 0.2 * _share(weather.precipitation_deposits))


def _share(percent: float) -> float:
    return min(max(percent, 0.0), 100.0) / 100 if math.isfinite(percent) else 0.0
