"""The world and its frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import carla

from fake_carla.actors import Actor, ActorList, actor_of
from fake_carla.blueprints import ActorBlueprint, BlueprintLibrary, library
from fake_carla.bodies import Body, FrameState
from fake_carla.scenery import DebugHelper, LabelledPoint, LightManager, ground_below
from fake_carla.signals import TrafficLight, TrafficSign
from fake_carla.stage import Stage, copied, copied_settings, pose_of, transform_at

_SIDEWALK = carla.LaneType.Sidewalk


class ActorSnapshot:
    """One actor in one frame."""

    def __init__(self, number: int, state: FrameState) -> None:
        self._id, self._state = number, state

    id = property(lambda self: self._id)

    def get_transform(self) -> carla.Transform:
        return self._state.transform()

    def get_velocity(self) -> carla.Vector3D:
        return carla.Vector3D(*self._state.velocity)

    def get_acceleration(self) -> carla.Vector3D:
        return carla.Vector3D(*self._state.acceleration)

    def get_angular_velocity(self) -> carla.Vector3D:
        return carla.Vector3D(*self._state.spin)


class WorldSnapshot:
    """One frame; it does not change."""

    def __init__(self, stage: Stage) -> None:
        self._episode, self._states = stage.episode, stage.snapshot
        self._time = carla.Timestamp(stage.frame, stage.elapsed, stage.delta, stage.elapsed)

    id = property(lambda self: self._episode)
    frame = property(lambda self: self._time.frame)
    timestamp = property(lambda self: self._time)

    def find(self, actor_id: int) -> ActorSnapshot | None:
        return ActorSnapshot(actor_id, self._states[actor_id]) if actor_id in self._states else None

    def has_actor(self, actor_id: int) -> bool:
        return actor_id in self._states

    def __iter__(self) -> Iterator[ActorSnapshot]:
        return (ActorSnapshot(number, state) for number, state in self._states.items())

    def __len__(self) -> int:
        return len(self._states)


class World:
    """A handle of the episode in which it was requested; invalid after another load_world."""

    def __init__(self, stage: Stage) -> None:
        self._current, self._episode = stage, stage.episode

    @property
    def _stage(self) -> Stage:
        if self._episode != self._current.episode:
            raise RuntimeError(
                "trying to operate on a destroyed actor; an actor's function was called, but the actor is already "
                "destroyed."
            )
        return self._current

    def _round_trip(self) -> Stage:
        """Make one round trip, as the real client does for these requests."""
        self._stage.wire.rpc("ask")
        return self._stage

    id = property(lambda self: self._episode)
    debug = property(lambda self: DebugHelper(self._stage))

    # -- the clock -------------------------------------------------------------------------------------------------
    def tick(self, seconds: float = 0.0) -> int:
        return self._stage.tick(seconds)

    def wait_for_tick(self, seconds: float = 0.0) -> WorldSnapshot:
        if self._stage.settings.synchronous_mode:
            self._stage.wait_for_tick(seconds or self._stage.wire.timeout_s)
        else:
            self._stage.tick(seconds)
        return WorldSnapshot(self._stage)

    def on_tick(self, callback: Callable[[WorldSnapshot], Any]) -> int:
        number = max(self._stage.observers, default=0) + 1
        self._stage.observers[number] = callback
        return number

    def remove_on_tick(self, callback_id: int) -> None:
        self._stage.observers.pop(callback_id, None)

    def get_snapshot(self) -> WorldSnapshot:
        return WorldSnapshot(self._stage)

    def get_settings(self) -> carla.WorldSettings:
        return copied_settings(self._round_trip().settings)

    def apply_settings(self, settings: carla.WorldSettings, seconds: float = 0.0) -> int:
        copy = copied_settings(settings)
        answer = self._stage.wire.rpc(
            "settings", seconds, synchronous=copy.synchronous_mode, delta=copy.fixed_delta_seconds or 0.0
        )
        self._stage.settings = copy
        return int(answer["frame"])

    # -- the town --------------------------------------------------------------------------------------------------
    def get_map(self) -> carla.Map:
        return self._round_trip().town

    def get_weather(self) -> carla.WeatherParameters:
        return copied(self._round_trip().weather)

    def set_weather(self, weather: carla.WeatherParameters, /) -> None:
        self._round_trip().weather = copied(weather)

    def get_lightmanager(self) -> LightManager:
        return LightManager(self._round_trip())

    def ground_projection(self, location: carla.Location, search_distance: float = 10000.0) -> LabelledPoint | None:
        return ground_below(self._round_trip(), location, search_distance)

    def get_spectator(self) -> Actor:
        return Actor(self._round_trip(), self._stage.spectator)

    def get_random_location_from_navigation(self) -> carla.Location | None:
        """A place on a pavement."""
        waypoints = self._round_trip().town.generate_waypoints(20.0)
        for _ in range(50):
            waypoint = self._stage.rng.choice(waypoints)
            while waypoint is not None and waypoint.lane_type != _SIDEWALK:
                waypoint = waypoint.get_right_lane()
            if waypoint is not None:
                place = waypoint.transform.location
                return carla.Location(place.x, place.y, place.z + 0.2)
        return None

    def set_pedestrians_seed(self, seed: int) -> None:
        self._round_trip().rng.seed(seed)

    def set_pedestrians_cross_factor(self, percentage: float) -> None:
        self._round_trip()

    # -- lights and signs ------------------------------------------------------------------------------------------
    def get_traffic_light(self, landmark: carla.Landmark) -> TrafficLight | None:
        return self.get_traffic_light_from_opendrive_id(landmark.id)

    def get_traffic_light_from_opendrive_id(self, traffic_light_id: str) -> TrafficLight | None:
        lamp = self._stage.lights.lamps.get(traffic_light_id)
        return TrafficLight(self._stage, lamp.body) if lamp else None

    def get_traffic_lights_in_junction(self, junction_id: int) -> list[TrafficLight]:
        group = self._stage.lights.groups.get(junction_id)
        return [TrafficLight(self._stage, lamp.body) for lamp in group.lamps] if group else []

    def get_traffic_sign(self, landmark: carla.Landmark) -> TrafficSign | None:
        sign = self._stage.lights.signs.get(landmark.id)
        return TrafficSign(self._stage, sign) if sign else self.get_traffic_light(landmark)

    def freeze_all_traffic_lights(self, frozen: bool) -> None:
        self._round_trip().lights.freeze(bool(frozen))

    def reset_all_traffic_lights(self) -> None:
        for group in self._round_trip().lights.groups.values():
            group.reset()

    # -- the actors ------------------------------------------------------------------------------------------------
    def get_blueprint_library(self) -> BlueprintLibrary:
        self._round_trip()
        return library()

    def get_actors(self, actor_ids: list[int] | None = None) -> ActorList:
        """Actors of the last frame; one that was spawned since is included only if requested by id."""
        stage = self._stage
        with stage.lock:
            _ = stage.lights
            numbers = list(stage.snapshot) if actor_ids is None else actor_ids
            return ActorList([actor_of(stage, stage.bodies[n]) for n in numbers if n in stage.bodies])

    def get_actor(self, actor_id: int) -> Actor | None:
        body = self._stage.bodies.get(actor_id)
        return actor_of(self._stage, body) if body else None

    def get_vehicles_light_states(self) -> dict[int, carla.VehicleLightState]:
        stage = self._round_trip()
        with stage.lock:
            vehicles = [b for b in stage.bodies.values() if b.group == "vehicle"]
        return {b.id: carla.VehicleLightState(b.lamps) for b in vehicles}

    def spawn_actor(
        self,
        blueprint: ActorBlueprint,
        transform: carla.Transform,
        attach_to: Actor | None = None,
        attachment_type: carla.AttachmentType = carla.AttachmentType.Rigid,
        bone: str = "",
    ) -> Any:
        return actor_of(self._stage, spawn(self._stage, blueprint, transform, attach_to._body if attach_to else None))

    def try_spawn_actor(
        self,
        blueprint: ActorBlueprint,
        transform: carla.Transform,
        attach_to: Actor | None = None,
        attachment_type: carla.AttachmentType = carla.AttachmentType.Rigid,
        bone: str = "",
    ) -> Any:
        try:
            return self.spawn_actor(blueprint, transform, attach_to, attachment_type, bone)
        except RuntimeError:  # as in the real client, also if the server is dead
            return None

    def __str__(self) -> str:
        return f"World(id={self._episode})"


def spawn(stage: Stage, blueprint: ActorBlueprint, transform: carla.Transform, parent: Body | None) -> Body:
    """Spawn a body; clients see it from the next tick. RuntimeError if there is no room."""
    with stage.lock:
        if parent is None and stage.blocked(blueprint.id, transform):
            stage.wire.rpc("ask")
            raise RuntimeError("Spawn failed because of collision at spawn position")
        answer = stage.wire.rpc("spawn", type_id=blueprint.id, pose=pose_of(transform))
        body = stage.add(int(answer["id"]), blueprint.id, transform)
        body.attributes = {attribute.id: attribute._value for attribute in blueprint}
        if parent is not None:
            body.parent, body.offset = parent, transform_at(pose_of(transform))
        return body
