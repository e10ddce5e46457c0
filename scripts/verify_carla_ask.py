"""Queries of verify_carla.py to a CARLA server, one per process, since the native client may crash.

python scripts/verify_carla_ask.py QUERY '{"argument": value, ...}'      prints one line of JSON
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

SMALL = ("Town01", "Town02", "Town10HD")  # part of every server; small, with traffic lights
LOAD_S, ANSWER_S = 300.0, 20.0
STEP_M = 2.0  # distance of the points of a route
LIGHT = "1000001"  # OpenDRIVE type of a traffic light
AHEAD_M, BEHIND_M = 60.0, 30.0  # length of a junction's route before its lights, and after the junction
OURS = ("vehicle.", "walker.", "sensor.", "controller.")  # types of actors that episodes create


def client_of(host: str, port: int, timeout_s: float = ANSWER_S) -> Any:
    import carla

    client = carla.Client(host, port)
    client.set_timeout(timeout_s)
    return client


def load(host: str, port: int, town: str) -> dict[str, Any]:
    """List the towns of the server and load one of them: `town`, or a small one."""
    client = client_of(host, port, LOAD_S)
    maps = sorted({name.rsplit("/", 1)[-1] for name in client.get_available_maps()})
    chosen = town or next((name for name in SMALL if name in maps), "")
    if chosen not in maps:
        raise RuntimeError(f"the server has no map {town or 'of ' + ', '.join(SMALL)}; it has {', '.join(maps)}")
    world = client.get_world()
    settings = world.get_settings()
    settings.synchronous_mode = False  # a former client may have left it on: the server then waits and loads nothing
    world.apply_settings(settings)
    started = time.monotonic()
    client.load_world(chosen)
    return {"maps": maps, "town": chosen, "load_s": round(time.monotonic() - started, 1)}


def lights(host: str, port: int) -> dict[str, Any]:
    """Number of traffic lights in the town's OpenDRIVE file, and the ids that the server does not find."""
    world = client_of(host, port).get_world()
    ids = sorted({mark.id for mark in world.get_map().get_all_landmarks_of_type(LIGHT)})
    unknown = [id_ for id_ in ids if world.get_traffic_light_from_opendrive_id(id_) is None]
    return {"lights": len(ids), "unknown": unknown}


def clean(host: str, port: int) -> dict[str, Any]:
    """Actors that the episodes left behind, and whether the server is still in synchronous mode."""
    world = client_of(host, port).get_world()
    synchronous = bool(world.get_settings().synchronous_mode)
    if not synchronous:
        world.wait_for_tick(ANSWER_S)  # an asynchronous server ticks without a client
    left = [actor.type_id for actor in world.get_actors() if actor.type_id.startswith(OURS)]
    return {"left": left, "synchronous": synchronous}


def speed(host: str, port: int, routes: str, folder: str, ticks: int, width: int, height: int) -> dict[str, Any]:
    """Simulated steps per second: without a camera, and with one that is read at every tick."""
    from closedloop_plugin.carla.world.world import CarlaWorld
    from closedloop_plugin.core.camera import Camera
    from closedloop_plugin.core.routes import read_routes
    from closedloop_plugin.core.state import Control
    from closedloop_plugin.worlds.base import EpisodeSetup

    world = CarlaWorld(Path(folder), f"{host}:{port}", any_version=True)
    found: dict[str, Any] = {}
    for name, cameras in (("bare", ()), ("camera", (Camera("front", width, height, 70.0, 0.8, 0.0, 1.6),))):
        world.reset(EpisodeSetup(read_routes(Path(routes))[0], seed=0, cameras=cameras))
        started = time.monotonic()
        for _ in range(ticks):
            observation = world.step(Control(throttle=0.3))
            for camera in cameras:
                observation.images(camera.name)
        found[name] = round(ticks / (time.monotonic() - started), 1)
    world.close()
    return found


def routes(xodr: str, town: str, out: str, length: float) -> dict[str, Any]:
    """Trace two paths on the town's map and write a route file with four scenarios on them."""
    import carla

    town_map = carla.Map(town, Path(xodr).read_text("utf-8"))
    starts = [a for a, _ in town_map.get_topology() if not a.is_junction and a.lane_type == carla.LaneType.Driving]
    straight = max((_straight(start, length) for start in starts), key=len)
    crossing: list[Any] = next(filter(None, map(_through_lights, starts)), [])
    paths = [straight, straight, straight] + ([crossing] if crossing else [])
    if len(straight) * STEP_M < 0.9 * length:
        raise RuntimeError(f"{town} has no straight lane of {length:g} m; name another with --town")
    kinds = (
        ("HardBreakRoute", ""),
        ("DynamicObjectCrossing", '<distance value="30"/><direction value="right"/>'),
        ("ParkedObstacleTwoWays", '<distance value="30"/><frequency from="40" to="60"/>'),
        ("VanillaSignalizedTurnEncounterRedLight", ""),
    )
    parts = [_route(str(901 + i), town, *kinds[i], path) for i, path in enumerate(paths)]
    Path(out).write_text(f"<routes>{''.join(parts)}</routes>\n", "utf-8")
    found = {"routes": len(parts), "straight_m": round(len(straight) * STEP_M), "lights": bool(crossing)}
    return {**found, "far_edge_m": _far_edge(straight[len(straight) // 2])}


def _straight(start: Any, length: float) -> list[Any]:
    """Waypoints from the start of a lane as long as it is straight (within 3 degrees)."""
    path = [start]
    for waypoint in _along(start):
        if len(path) * STEP_M > length or waypoint.is_junction or abs(_turn(start, waypoint)) > 3:
            break
        path.append(waypoint)
    return path


def _far_edge(waypoint: Any) -> float:
    """Distance from the middle of a lane to the left edge of the road's driving lanes, oncoming ones included, m."""
    import carla

    width, lane = waypoint.lane_width / 2, waypoint.get_left_lane()
    while lane is not None and lane.lane_type == carla.LaneType.Driving:
        width += lane.lane_width
        lane = lane.get_left_lane() if lane.lane_id * waypoint.lane_id > 0 else lane.get_right_lane()
    return float(width)


def _through_lights(start: Any) -> list[Any]:
    """Waypoints through the junction at the lane's end, with the smallest turn; empty if short or without lights."""
    path: list[Any] = [start]
    entered = left = 0
    for waypoint in _along(start):
        path.append(waypoint)
        entered = entered or (len(path) if waypoint.is_junction else 0)
        left = left or (len(path) if entered and not waypoint.is_junction else 0)
        if left and (len(path) - left) * STEP_M > BEHIND_M:
            break
        if len(path) > 200:
            return []
    first = max(0, entered - round(AHEAD_M / STEP_M))
    short = entered * STEP_M < 0.6 * AHEAD_M or (len(path) - left) * STEP_M < BEHIND_M
    if not left or short or any(waypoint.is_junction for waypoint in path[left:]):
        return []
    return path[first:] if path[entered - 5].get_landmarks_of_type(30.0, LIGHT) else []


def _along(waypoint: Any) -> Iterator[Any]:
    """The next waypoints of the lane; at a fork, the one with the smallest turn."""
    while following := waypoint.next(STEP_M):
        waypoint = min(following, key=lambda candidate: abs(_turn(waypoint, candidate)))
        yield waypoint


def _turn(a: Any, b: Any) -> float:
    """Angle between the directions of two waypoints, in degrees, -180 to 180."""
    return float(math.remainder(b.transform.rotation.yaw - a.transform.rotation.yaw, 360.0))


def _route(id_: str, town: str, kind: str, parameters: str, path: list[Any]) -> str:
    points = [waypoint.transform for waypoint in path]
    listed = "".join(f"<position {_xyz(p)}/>" for p in points)
    trigger = points[5]
    return (
        f'<route id="{id_}" town={quoteattr(town)}><waypoints>{listed}</waypoints><scenarios>'
        f'<scenario name="{kind}_1" type="{kind}"><trigger_point {_xyz(trigger)} yaw="{trigger.rotation.yaw:.2f}"/>'
        f"{parameters}</scenario></scenarios></route>\n"
    )


def _xyz(at: Any) -> str:
    return f'x="{at.location.x:.2f}" y="{at.location.y:.2f}" z="{at.location.z:.2f}"'


QUERIES: dict[str, Callable[..., dict[str, Any]]] = {
    "load": load, "lights": lights, "clean": clean, "speed": speed, "routes": routes,
}  # fmt: skip

if __name__ == "__main__":
    try:
        answer = QUERIES[sys.argv[1]](**json.loads(sys.argv[2]))
    except Exception as exc:  # every error becomes one line of the report
        answer = {"error": f"{type(exc).__name__}: {' '.join(str(exc).split())[:300]}"}
    print("\n" + json.dumps(answer))  # the client may have printed a warning without a newline
