"""ScenicWorld: base class of worlds that run Scenic programs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from closedloop_plugin.core.boxes import corners
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.frames import to_ego, yaw_of_heading
from closedloop_plugin.core.path import RoutePath, commands
from closedloop_plugin.core.routes import Route, Weather
from closedloop_plugin.core.state import Control, DrivingSurface, EgoContact, GroundTruth, Observation
from closedloop_plugin.maps.base import RoadLayout, RoadMap
from closedloop_plugin.worlds.base import EpisodeSetup, InvalidScene, ParameterDomain, WorldError
from closedloop_plugin.worlds.bodies.body import SimulatedBody
from closedloop_plugin.worlds.bodies.traffic_lights import TrafficLightCycle
from closedloop_plugin.worlds.bridge.compiled_scene import CompiledScene, scene_for, space_for
from closedloop_plugin.worlds.bridge.faults.place import at_its_param, map_of
from closedloop_plugin.worlds.bridge.ground import ON_ROUTE_M
from closedloop_plugin.worlds.bridge.params import perception_of, weather_of
from closedloop_plugin.worlds.bridge.program_setup import not_played, params_for, program_of, road_ahead, stage_for
from closedloop_plugin.worlds.bridge.scenic_patches import use_disk_cache
from closedloop_plugin.worlds.bridge.session import ScenicSession, close_running
from closedloop_plugin.worlds.bridge.stage import STANDARD, ScenarioStage
from closedloop_plugin.worlds.bridge.standard_scenario import object_box, object_kind
from lmms_eval_ad2.core.errors import Ad2Error

# Whether bodies that stand from the start leave the ego a way along its path. Map frame, metres.

BESIDE_M = 12.0  # to either side of the path
STEP_M = 0.1
ALONG_M = 2.5  # bodies so close to each other along the path stand side by side for a car
TURN_M = 5.5  # least radius of a car
CLEAR_M = 0.4  # between the ego and both sides of a gap, together


class GroundSurfaces(Protocol):
    def surface(self, x: float, y: float, way: float) -> DrivingSurface: ...


def closed_way(path: RoutePath, ground: GroundSurfaces, objects: Sequence[Any], lent: bool = False) -> str:
    """Reason why no car of the ego's size passes, "" if one does. objects: of the Scenic scene, the ego first. lent:
    the program lets the ego use the oncoming lane.

    Only objects of the program that never move count: without a behaviour, a rail and a speed.
    """
    ego, *others = objects
    start = path.locate(float(ego.position[0]), float(ego.position[1]))[0] + 0.5 * float(ego.length)
    standing = []  # (object, first s, last s, least d, largest d) of the boxes along the path
    for obj in filter(_stands, others):
        along, aside = zip(*(path.locate(*corner) for corner in corners(object_box(obj))), strict=True)
        standing.append((obj, min(along), max(along), min(aside), max(aside)))
    ahead = [one for one in standing if start < one[2] < path.length and one[3] < BESIDE_M and one[4] > -BESIDE_M]
    needed = float(ego.width) + CLEAR_M
    if reason := _too_close(ego, [obj for obj, *_ in standing]):
        return reason
    for _, first, last, *_ in ahead:
        s = min(max(0.5 * (first + last), start), path.length)
        beside = [one for one in ahead if one[1] - ALONG_M < s < one[2] + ALONG_M]
        taken = [(low, high) for *_, low, high in beside]
        widest = _widest(path, ground, s, taken, (DrivingSurface.OFF,))
        kinds = _named([one[0] for one in beside])
        if widest < needed:
            return (
                f"no way: {kinds} across the road {s - start:.0f} m ahead; the widest gap is {widest:.1f} m, the ego "
                f"needs {needed:.1f} m"
            )
        if not lent and _widest(path, ground, s, taken, (DrivingSurface.OFF, DrivingSurface.ONCOMING)) < needed:
            return f"no way: {kinds} in its lane {s - start:.0f} m ahead; only the oncoming lane is free"
    return ""


def _too_close(ego: Any, standing: Sequence[Any]) -> str:
    """Reason why the ego, which cannot reverse, cannot leave its place: a body stands too close before it."""
    x, y, yaw = float(ego.position[0]), float(ego.position[1]), yaw_of_heading(float(ego.heading))
    half, front = 0.5 * float(ego.width), 0.5 * float(ego.length)
    for obj in standing:
        ahead, left = zip(*(to_ego(px, py, x, y, yaw) for px, py in corners(object_box(obj))), strict=True)
        free, aside = min(ahead) - front, min(half - min(left), max(left) + half)  # sideways, on the shorter side
        if max(ahead) > front and aside > 0 and free < 0.5 * math.sqrt(2 * TURN_M * aside):
            return f"no way: a {object_kind(obj)} stands {max(free, 0):.1f} m before the ego, too close to drive around"
    return ""


def _named(objects: Sequence[Any]) -> str:
    """The kinds with their numbers, and the verb."""
    counts = Counter(map(object_kind, objects))
    words = [f"a {kind}" if number == 1 else f"{number} {kind}s" for kind, number in counts.items()]
    return " and ".join(words) + (" stands" if len(objects) == 1 else " stand")


def _stands(obj: Any) -> bool:
    moves = getattr(obj, "behavior", None) is not None or getattr(obj, "rail", None) is not None
    other = getattr(obj, "role", "") == STANDARD or moves
    return not other and not getattr(obj, "gone", False) and float(obj.speed or 0.0) == 0.0


def _widest(
    path: RoutePath,
    ground: GroundSurfaces,
    s: float,
    taken: Sequence[tuple[float, float]],
    barred: Sequence[DrivingSurface],
) -> float:
    """Width of the widest free piece of the road across the path at s; BESIDE_M if the bodies leave its middle free."""
    if not any(low < 0.8 and high > -0.8 for low, high in taken):
        return BESIDE_M
    way = path.pose(s)[2]
    widest = run = 0.0
    for d in np.arange(-BESIDE_M, BESIDE_M, STEP_M):
        x, y, _ = path.pose(s, float(d))
        free = not any(low < d < high for low, high in taken)
        run = run + STEP_M if free and ground.surface(x, y, way) not in barred else 0.0
        widest = max(widest, run)
    return widest


AHEAD_M = 8.0  # distance of Observation.target along the route


class ScenicWorld:
    """One simulator, main thread, one episode at a time. `folder`: maps are written there.

    A subclass sets the Scenic `model`, creates maps (`_road_for`), starts its simulator (`_begin`, which ends with
    `_start_simulation`), and returns contacts and pictures. Its simulation has `bodies`, the ego first (worlds/bodies).
    """

    backend = ""
    model = ""
    in_town: bool | None = None  # True: every road is a town's; None: if the setup has its file
    shown: tuple[str, ...] = ()  # names of the perception conditions (core/perception.py) that its pictures show

    def __init__(self, folder: Path, version: str) -> None:
        self.version = version
        self._folder = Path(folder)
        use_disk_cache(self._folder / "parsed")
        self._session: ScenicSession | None = None
        self._road: RoadMap | None = None
        self._simulation: Any = None  # Scenic's, with our bodies in it
        self._lights = TrafficLightCycle((), 0)
        self._ground: Any = None  # has surface(x, y, way) -> Surface
        self._truth: GroundTruth | None = None
        self._pictures: dict[str, np.ndarray] = {}
        self._tick = 0
        self._drawn: Mapping[str, Any] = {}
        self.not_played: Mapping[str, str] = {}  # reasons by the names of the route's scenarios without their actors

    # -- World interface -------------------------------------------------------------------------------------------
    def reset(self, setup: EpisodeSetup) -> Observation:
        self._end()
        close_running()  # of another world that was not closed
        self._setup = setup
        self._weather = setup.weather or (setup.route.weather if setup.route else Weather())
        road, program = self._road_and_program(setup)
        stage = stage_for(setup, road, self.in_town)
        with map_of(setup):
            compiled = scene_for(program, self.model, params_for(setup, road, stage), setup.seed, setup.values)
        if compiled.scene.egoObject is None:
            raise Ad2Error(f"{program}: the program defines no ego; it needs a line like: ego = new Car")
        with at_its_param(program):
            self._weather = weather_of(compiled.scene, self._weather)
            self._perception = perception_of(compiled.scene, self.shown, self.backend)
        self._drawn = compiled.drawn
        self._network = compiled.scene.workspace.network
        if road is None:
            stage.road = road = road_ahead(compiled, self._network, self._road_for)
        self.not_played = not_played(setup, road, self.in_town)
        self._road, self._stage, self._tick = road, stage, 0
        self._surface_cache: tuple[float, float, DrivingSurface] | None = None
        self._lights = TrafficLightCycle(road.stop_lines, setup.seed)
        self._command = commands(road.path, road.junctions, road.changes)
        self._begin(compiled, stage)
        if not stage.kind:  # a user's program: record the event "no way: ..." if it leaves the ego none
            text = program.read_text("utf-8-sig", errors="replace")
            lent = "LendOncomingLane" in text or "oncoming_allowed" in text
            if reason := closed_way(road.path, self._ground, compiled.scene.objects, lent):
                stage.event(reason)
        return self._observe()

    def step(self, control: Control) -> Observation:
        if self._session is None:
            raise WorldError("step before reset")
        if self._session.done:
            raise WorldError(f"step after the end: {self._session.done}")
        self._session.advance(control.checked())
        self._tick = self._simulation.currentTime
        if self._session.done:  # the ego's behaviour did not run again, so the stage lacks the last state
            self._stage.move_ego(self._ego.motion.x, self._ego.motion.y, self._tick)
        return self._observe()

    def truth(self) -> GroundTruth:
        if self._session is None:
            raise WorldError("no truth before reset")
        if self._truth is None:
            self._truth = self._read_truth()
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
        """Weather of this episode, with the changes of its program."""
        return self._weather

    def space(self, setup: EpisodeSetup) -> Mapping[str, ParameterDomain]:
        self._end()
        close_running()
        self._setup = setup
        road, program = self._road_and_program(setup)
        with map_of(setup):
            return space_for(program, self.model, params_for(setup, road, stage_for(setup, road, self.in_town)))

    def close(self) -> None:
        self._end()

    # -- implemented by subclasses ---------------------------------------------------------------------------------
    def _road_for(self, route: Route, layout: RoadLayout, town: Path | None) -> RoadMap:
        raise NotImplementedError

    def _suite_road_for(self, route: Route, layout: RoadLayout, town: Path | None) -> RoadMap:
        """Road of a suite's route; `_road_for` is used for a user's program too."""
        return self._road_for(route, layout, town)

    def _begin(self, compiled: CompiledScene, stage: ScenarioStage) -> None:
        raise NotImplementedError

    def _contacts(self) -> tuple[EgoContact, ...]:
        """Contacts of the ego in this tick."""
        raise NotImplementedError

    def _crossed(self) -> tuple[str, ...]:
        """Kinds of the lane markings that the ego's wheels crossed in this tick, if a sensor reports them."""
        return ()

    def _render(self, camera: Any) -> np.ndarray:
        raise NotImplementedError

    # -- within an episode -----------------------------------------------------------------------------------------
    def _end(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = self._road = None

    def _road_and_program(self, setup: EpisodeSetup) -> tuple[RoadMap | None, Path]:
        """Map and program of an episode. The map is None for a user's program without a route until it is compiled."""
        layout, program = program_of(setup, self.in_town)
        return (self._suite_road_for(setup.route, layout, setup.town) if setup.route else None), program

    def _start_simulation(self, compiled: CompiledScene, simulator: Any) -> None:
        """Start the simulation up to the first request for a control."""
        self._session = ScenicSession(compiled, simulator, self._stage, self._setup.max_ticks)
        self._simulation = self._session.start()
        if self._session.done:
            raise InvalidScene(f"{compiled.program.name}: the scenario ended before it began: {self._session.done}")

    @property
    def _ego(self) -> SimulatedBody:
        return self._simulation.bodies[0]

    def _observe(self) -> Observation:
        self._truth, self._pictures = None, {}
        stage, m, tick = self._stage, self._ego.motion, self._tick
        x, y, _ = self.road.path.pose(stage.ego_s + AHEAD_M)
        return Observation(
            tick=tick,
            time_s=tick * self._setup.timestep,
            speed=abs(m.v),
            command=self._command(stage.ego_s),
            target=to_ego(x, y, m.x, m.y, m.yaw),
            images=lambda name: self._picture(tick, name),
            speed_limit=self.road.speed_limit,
            route_offset=stage.ego_d,
        )

    def _read_truth(self) -> GroundTruth:
        stage = self._stage
        ego, *others = self._simulation.bodies
        return GroundTruth(
            tick=self._tick,
            time_s=self._tick * self._setup.timestep,
            ego=ego.actor(),
            actors=tuple(body.actor() for body in others if not body.gone),
            signals=dict(self._lights.state),
            contacts=self._contacts(),
            surface=self._surface(),
            oncoming_allowed=stage.lends_oncoming,
            streams=tuple(stream for flow in stage.all_streams if (stream := flow.stream()) is not None),
            events=tuple(stage.events),
            crossed=self._crossed(),
        )

    def _surface(self) -> DrivingSurface:
        """Surface under the ego's centre, cached until it has moved 5 cm."""
        m = self._ego.motion
        if self._surface_cache is None or abs(m.x - self._surface_cache[0]) + abs(m.y - self._surface_cache[1]) > 0.05:
            near = abs(self._stage.ego_d) < ON_ROUTE_M
            way = self.road.path.pose(self._stage.ego_s)[2] if near else m.yaw
            self._surface_cache = m.x, m.y, self._ground.surface(m.x, m.y, way)
        return self._surface_cache[2]

    def _picture(self, tick: int, name: str) -> np.ndarray:
        if self._session is None or tick != self._tick:
            raise WorldError(f"the picture of tick {tick} was requested after the next step")
        if name not in self._pictures:
            self._pictures[name] = self._render(self._camera(name))
        return self._pictures[name]

    def _camera(self, name: str) -> Camera:
        camera = next((c for c in self._setup.cameras if c.name == name), None)
        if camera is None:
            raise Ad2Error(f"no camera {name!r}; this episode has: {[c.name for c in self._setup.cameras]}")
        return camera
