"""EmbeddedWorld: the World interface over Scenic with our own physics, lights, traffic and camera."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path as File
from typing import Any

import numpy as np

from closedloop_plugin.frames import to_ego, yaw_of_heading
from closedloop_plugin.maps.base import Layout, Piece, RoadMap
from closedloop_plugin.path import Path, commands
from closedloop_plugin.routes import Route, Weather
from closedloop_plugin.state import Contact, Control, Observation, Surface, Truth
from closedloop_plugin.worlds.base import Domain, InvalidScene, Setup, WorldError
from closedloop_plugin.worlds.bridge.compile import Compiled, scene_for, space_for
from closedloop_plugin.worlds.bridge.params import weather_of
from closedloop_plugin.worlds.bridge.session import Session, close_running
from closedloop_plugin.worlds.bridge.stage import Stage
from closedloop_plugin.worlds.embedded import weather as weathers
from closedloop_plugin.worlds.embedded.ground import OWN_WAY_M, Ground, way_ahead
from closedloop_plugin.worlds.embedded.lights import Lights
from lmms_eval_ad2.errors import Ad2Error

MODEL = "closedloop_plugin.worlds.embedded.model"
AHEAD_M = 8.0  # Observation.target lies so far along the route
TOWN_ROUTE_M = 200.0  # a user's program without a route: straight on for so long


class EmbeddedWorld:
    """One simulator, main thread, one episode at a time. `folder`: where corridor maps are written."""

    backend = "embedded"

    def __init__(self, folder: File) -> None:
        self.version = f"1 (scenic {version('scenic')})"
        self._folder = File(folder)
        self._session: Session | None = None
        self._road: RoadMap | None = None
        self._simulation: Any = None  # Scenic's, with our bodies in it
        self._renderer: Any = None
        self._truth: Truth | None = None
        self._pictures: dict[str, np.ndarray] = {}
        self._tick = 0
        self._drawn: Mapping[str, Any] = {}

    # -- the interface ---------------------------------------------------------------------------------------------
    def reset(self, setup: Setup) -> Observation:
        self.close()
        close_running()  # another world's, that was dropped without a word
        self._setup = setup
        self._weather = setup.weather or (setup.route.weather if setup.route else Weather())
        road, program = _plan(setup, self._folder)
        stage = _stage(setup, road)
        compiled = scene_for(program, MODEL, _params(setup, road, stage), setup.seed, setup.values)
        if compiled.scene.egoObject is None:
            raise Ad2Error(f"{program}: the program states no ego; it needs a line like: ego = new Car")
        self._weather = weather_of(compiled.scene, self._weather)
        self._drawn = compiled.drawn
        network = compiled.scene.workspace.network
        if road is None:
            stage.road = road = _straight_on(compiled, network, self._folder)
        self._road, self._network = road, network
        self._start(compiled, stage)
        return self._observe()

    def step(self, control: Control) -> Observation:
        if self._session is None:
            raise WorldError("step before reset")
        if self._session.done:
            raise WorldError(f"step after the end: {self._session.done}")
        self._session.advance(control.checked())
        self._tick = self._simulation.currentTime
        if self._session.done:  # the ego's behaviour was not asked again: the stage has not seen the last state
            m = self._ego.motion
            self._stage.time_s = self._tick * self._setup.timestep
            self._stage.ego_s, self._stage.ego_d = self.road.path.locate(m.x, m.y, self._stage.ego_s)
        return self._observe()

    def truth(self) -> Truth:
        if self._session is None:
            raise WorldError("no truth before reset")
        if self._truth is None:
            self._truth = self._look()
        return self._truth

    @property
    def road(self) -> RoadMap:
        if self._road is None:
            raise WorldError("no road before reset")
        return self._road

    @property
    def done(self) -> str | None:
        return self._session.done if self._session else None

    @property
    def drawn(self) -> Mapping[str, Any]:
        return self._drawn

    @property
    def weather(self) -> Weather:
        """As it is in this episode, with what the program says of it."""
        return self._weather

    def space(self, setup: Setup) -> Mapping[str, Domain]:
        self.close()
        close_running()
        road, program = _plan(setup, self._folder)
        return space_for(program, MODEL, _params(setup, road, _stage(setup, road)))

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = self._road = None

    # -- within an episode -----------------------------------------------------------------------------------------
    def _start(self, compiled: Compiled, stage: Stage) -> None:
        from closedloop_plugin.worlds.embedded.simulation import EmbeddedSimulator, Surroundings
        from closedloop_plugin.worlds.embedded.traffic import Background
        from closedloop_plugin.worlds.embedded.walls import Walls

        road, setup = self.road, self._setup
        self._stage, self._tick = stage, 0
        self._ground = Ground(self._network)
        self._lights = Lights(road.stop_lines, setup.seed)
        self._command = commands(road.path, road.junctions, road.changes)
        objects = compiled.scene.objects
        traffic = Background(stage, self._network, objects, setup.seed, self._ground) if stage.traffic else None
        walls = Walls(self._network, road, self._ground, setup.seed)
        around = Surroundings(stage, weathers.grip(self._weather), self._lights, traffic, walls)
        simulator = EmbeddedSimulator(self._network, around)
        self._session = Session(compiled, simulator, stage, setup.max_ticks)
        self._under: tuple[float, float, Surface] | None = None
        self._renderer = None
        self._simulation = self._session.start()
        if self._session.done:
            raise InvalidScene(f"the scenario ended before it began: {self._session.done}")
        self._ego = self._simulation.bodies[0]

    def _observe(self) -> Observation:
        self._truth, self._pictures = None, {}
        stage, m, tick = self._stage, self._ego.motion, self._tick
        x, y, _ = self.road.path.pose(stage.ego_s + AHEAD_M)
        return Observation(
            tick,
            tick * self._setup.timestep,
            abs(m.v),
            self._command(stage.ego_s),
            to_ego(x, y, m.x, m.y, m.yaw),
            lambda name: self._picture(tick, name),
            self.road.speed_limit,
        )

    def _look(self) -> Truth:
        simulation, stage = self._simulation, self._stage
        ego, *others = simulation.bodies
        contacts = []
        for t in simulation.touches:
            if ego in (t.a, t.b):
                other = t.b if t.a is ego else t.a
                contacts.append(Contact(other.id, other.kind, t.x, t.y, t.impulse))
        return Truth(
            self._tick,
            self._tick * self._setup.timestep,
            ego.actor(),
            tuple(body.actor() for body in others if not body.gone),
            dict(self._lights.state),
            tuple(contacts),
            self._surface(),
            stage.oncoming_allowed,
            tuple(stage.events),
        )

    def _surface(self) -> Surface:
        """Under the ego's centre; looked up again once it has moved 5 cm."""
        m = self._ego.motion
        if self._under is None or abs(m.x - self._under[0]) + abs(m.y - self._under[1]) > 0.05:
            near = abs(self._stage.ego_d) < OWN_WAY_M
            way = self.road.path.pose(self._stage.ego_s)[2] if near else m.yaw
            self._under = m.x, m.y, self._ground.surface(m.x, m.y, way)
        return self._under[2]

    def _picture(self, tick: int, name: str) -> np.ndarray:
        if self._session is None or tick != self._tick:
            raise WorldError(f"the picture of tick {tick} was not asked for before the world moved on")
        if name not in self._pictures:
            camera = next((c for c in self._setup.cameras if c.name == name), None)
            if camera is None:
                raise Ad2Error(f"no camera {name!r}; this episode has: {[c.name for c in self._setup.cameras]}")
            self._pictures[name] = self._render(camera)
        return self._pictures[name]

    def _render(self, camera: Any) -> np.ndarray:
        from closedloop_plugin.worlds.embedded.camera.render import Renderer, View
        from closedloop_plugin.worlds.embedded.camera.scenery import scenery_of

        if self._renderer is None:
            self._renderer = Renderer(scenery_of(self._network, self.road, self._setup.seed))
        truth = self.truth()
        ego = truth.ego
        view = View(ego.x, ego.y, ego.yaw, truth.actors, truth.signals, self._weather, truth.time_s)
        return self._renderer.render(camera, view)


def _plan(setup: Setup, folder: File) -> tuple[RoadMap | None, File]:
    """The map and the program of an episode; no map yet for a user's program on a town or on its own map."""
    if setup.route is None and setup.program is None:
        raise Ad2Error("an episode needs a route or a program")
    if setup.program is not None and not File(setup.program).is_file():
        raise Ad2Error(f"{setup.program}: no such scenario program")
    if setup.town is not None and not File(setup.town).is_file():
        raise Ad2Error(f"{setup.town}: no such map file; give an OpenDRIVE file (.xodr)")
    if setup.route is None:
        assert setup.program is not None
        return None, File(setup.program)
    from closedloop_plugin.maps.build import road_for

    layout, program = _known(setup.route, setup.program)
    return road_for(setup.route, layout, town=setup.town, folder=folder), program


def _known(route: Route, program: File | None) -> tuple[Layout, File]:
    """Layout and program of a route's scenario type; a user's program needs no known type."""
    from closedloop_plugin.scenarios.catalogue import CATALOGUE

    info = CATALOGUE.get(route.scenario)
    if program is not None:
        return info.layout if info else Layout(), File(program)
    if info is None:
        raise Ad2Error(f"route {route.id}: no program for scenario type {route.scenario!r}; known: {sorted(CATALOGUE)}")
    lacking = [name for name in info.needs if name not in route.params]
    if lacking:
        raise Ad2Error(f"route {route.id}: a {route.scenario} needs {' and '.join(lacking)} (x, y, z) in its scenario")
    return info.layout, File(info.program)


def _stage(setup: Setup, road: RoadMap | None) -> Stage:
    route = setup.route
    params = route.params if route else {}
    nowhere = RoadMap(File(), "town", "", "", Path([(0.0, 0.0), (1.0, 0.0)]), ())
    trigger = road.path.locate(*route.trigger[:2])[0] if route and road else 0.0
    kind = route.scenario if route and setup.program is None else ""
    return Stage(road or nowhere, params, kind, trigger, setup.seed, setup.timestep, setup.traffic)


def _params(setup: Setup, road: RoadMap | None, stage: Stage) -> dict[str, Any]:
    map_file = road.file if road else setup.town
    params: dict[str, Any] = {
        "map_options": {"writeCache": False, "useCache": False},  # a cache beside the map is a pickle of unknown origin
        "stage": stage,
        "render": False,
        "timestep": setup.timestep,
    }
    return {**params, "map": str(map_file)} if map_file else params


def _straight_on(compiled: Compiled, network: Any, folder: File) -> RoadMap:
    """The road of a user's program without a route: from its ego straight on."""
    from closedloop_plugin.maps.build import road_for

    ego = compiled.scene.egoObject
    x, y, yaw = float(ego.position[0]), float(ego.position[1]), yaw_of_heading(float(ego.heading))
    path = way_ahead(network, x, y, yaw, TOWN_ROUTE_M)
    file = File(compiled.scene.params["map"])
    points = tuple((float(px), float(py)) for px, py in path.xy[::4])
    try:
        return road_for(Route("program", file.stem, points, "", "", (x, y, yaw)), Layout(), town=file, folder=folder)
    except Ad2Error:  # the ego stands where no route can be traced: off the road, against the traffic
        sha = hashlib.sha256(file.read_bytes()).hexdigest()
        return RoadMap(file, "town", file.stem, sha, path, (Piece(0.0, path.length, "measured"),))
