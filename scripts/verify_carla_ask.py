"""What verify_carla.py asks a CARLA server, each question in a process of its own: the client may die natively.

python scripts/verify_carla_ask.py QUESTION '{"argument": value, ...}'      the answer is one line of JSON
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

SMALL = ("Town01", "Town02", "Town10HD")  # with every server; small, with lights
LOAD_S, ANSWER_S = 300.0, 20.0
STEP_M = 2.0  # between the points of a route
LIGHT, AHEAD_M, BEHIND_M = "1000001", 60.0, 30.0  # of a junction's route: before its lights, and after it
OURS = ("vehicle.", "walker.", "sensor.", "controller.")


def client_of(host: str, port: int, timeout_s: float = ANSWER_S) -> Any:
    import carla

    client = carla.Client(host, port)
    client.set_timeout(timeout_s)
    return client


def names() -> dict[str, Any]:
    """Every class, method and argument that our code uses, compared with the installed client's own signatures."""
    tests = Path(__file__).resolve().parent.parent / "tests"
    if not (tests / "fake_carla").is_dir():
        return {"skip": "tests/ is not there: run this from a checkout"}
    sys.path.insert(0, str(tests))
    import carla  # noqa: F401 (fake_carla wants it to be there first)
    import fake_carla
    from fake_carla import strict

    real = {**fake_carla.REAL, **fake_carla.REAL_COMMANDS}
    used = {**fake_carla.REPLACED, **fake_carla.COMMANDS}
    wrong = [f"{name}.{why}" for name, one in used.items() for why in strict.misfits(one, real[name])]
    return {"classes": len(used), "wrong": wrong}


def load(host: str, port: int, town: str) -> dict[str, Any]:
    """Which towns there are, and one of them loaded: `town`, or a small one."""
    client = client_of(host, port, LOAD_S)
    there = sorted({name.rsplit("/", 1)[-1] for name in client.get_available_maps()})
    chosen = town or next((name for name in SMALL if name in there), "")
    if chosen not in there:
        raise RuntimeError(f"the server has no map {town or 'of ' + ', '.join(SMALL)}; it has {', '.join(there)}")
    world = client.get_world()
    settings = world.get_settings()
    settings.synchronous_mode = False  # somebody may have left it waiting for ticks: then it loads nothing
    world.apply_settings(settings)
    begun = time.monotonic()
    client.load_world(chosen)
    return {"maps": there, "town": chosen, "load_s": round(time.monotonic() - begun, 1)}


def lights(host: str, port: int) -> dict[str, Any]:
    """Lights of the town's OpenDRIVE file, and those that the server does not know by their id there."""
    world = client_of(host, port).get_world()
    ids = sorted({mark.id for mark in world.get_map().get_all_landmarks_of_type(LIGHT)})
    unknown = [id_ for id_ in ids if world.get_traffic_light_from_opendrive_id(id_) is None]
    return {"lights": len(ids), "unknown": unknown}


def clean(host: str, port: int) -> dict[str, Any]:
    """What the episodes left behind."""
    world = client_of(host, port).get_world()
    synchronous = bool(world.get_settings().synchronous_mode)
    if not synchronous:
        world.wait_for_tick(ANSWER_S)  # by itself: nobody ticks for it any more
    left = [actor.type_id for actor in world.get_actors() if actor.type_id.startswith(OURS)]
    return {"left": left, "synchronous": synchronous}


def speed(host: str, port: int, routes: str, folder: str, ticks: int, width: int, height: int) -> dict[str, Any]:
    """Simulated steps per second of our world: without a camera, and with one that is read at every tick."""
    from closedloop_plugin.carla.world.world import CarlaWorld
    from closedloop_plugin.core.camera import Camera
    from closedloop_plugin.core.routes import read_routes
    from closedloop_plugin.core.state import Control
    from closedloop_plugin.worlds.base import EpisodeSetup

    world = CarlaWorld(Path(folder), f"{host}:{port}", any_version=True)
    found: dict[str, Any] = {}
    for name, cameras in (("bare", ()), ("camera", (Camera("front", width, height, 70.0, 0.8, 0.0, 1.6),))):
        world.reset(EpisodeSetup(read_routes(Path(routes))[0], seed=0, cameras=cameras))
        begun = time.monotonic()
        for _ in range(ticks):
            seen = world.step(Control(throttle=0.3))
            for camera in cameras:
                seen.images(camera.name)
        found[name] = round(ticks / (time.monotonic() - begun), 1)
    world.close()
    return found


def routes(xodr: str, town: str, out: str, length: float) -> dict[str, Any]:
    """Two ways traced on the town's own map, and a route file with four scenarios on them."""
    import carla

    town_map = carla.Map(town, Path(xodr).read_text("utf-8"))
    starts = [a for a, _ in town_map.get_topology() if not a.is_junction and a.lane_type == carla.LaneType.Driving]
    straight = max((_straight(start, length) for start in starts), key=len)
    crossing: list[Any] = next(filter(None, map(_through_lights, starts)), [])
    ways = [straight, straight, straight] + ([crossing] if crossing else [])
    if len(straight) * STEP_M < 0.9 * length:
        raise RuntimeError(f"{town} has no straight lane of {length:g} m; name another with --town")
    kinds = (
        ("HardBreakRoute", ""),
        ("DynamicObjectCrossing", '<distance value="30"/><direction value="right"/>'),
        ("ParkedObstacleTwoWays", '<distance value="30"/><frequency from="40" to="60"/>'),
        ("VanillaSignalizedTurnEncounterRedLight", ""),
    )
    parts = [_route(str(901 + i), town, *kinds[i], way) for i, way in enumerate(ways)]
    Path(out).write_text(f"<routes>{''.join(parts)}</routes>\n", "utf-8")
    return {"routes": len(parts), "straight_m": round(len(straight) * STEP_M), "lights": bool(crossing)}


def _straight(start: Any, length: float) -> list[Any]:
    """From a lane's start on, as long as it does not bend."""
    run = [start]
    for place in _along(start):
        if len(run) * STEP_M > length or place.is_junction or abs(_turn(start, place)) > 3:
            break
        run.append(place)
    return run


def _through_lights(start: Any) -> list[Any]:
    """Through the junction at the lane's end, with the least turn; empty where it is near, or has no lights."""
    run: list[Any] = [start]
    entered = left = 0
    for place in _along(start):
        run.append(place)
        entered = entered or (len(run) if place.is_junction else 0)
        left = left or (len(run) if entered and not place.is_junction else 0)
        if left and (len(run) - left) * STEP_M > BEHIND_M:
            break
        if len(run) > 200:
            return []
    first = max(0, entered - round(AHEAD_M / STEP_M))
    near = entered * STEP_M < 0.6 * AHEAD_M or (len(run) - left) * STEP_M < BEHIND_M
    if not left or near or any(place.is_junction for place in run[left:]):
        return []
    return run[first:] if run[entered - 5].get_landmarks_of_type(30.0, LIGHT) else []


def _along(place: Any) -> Iterator[Any]:
    """The lane's next places, straight on where it forks."""
    while following := place.next(STEP_M):
        place = min(following, key=lambda p: abs(_turn(place, p)))
        yield place


def _turn(a: Any, b: Any) -> float:
    """Degrees between two places' directions, -180 to 180."""
    return float(math.remainder(b.transform.rotation.yaw - a.transform.rotation.yaw, 360.0))


def _route(id_: str, town: str, kind: str, parameters: str, way: list[Any]) -> str:
    points = [place.transform for place in way]
    listed = "".join(f"<position {_xyz(p)}/>" for p in points)
    trigger = points[5]
    return (
        f'<route id="{id_}" town={quoteattr(town)}><waypoints>{listed}</waypoints><scenarios>'
        f'<scenario name="{kind}_1" type="{kind}"><trigger_point {_xyz(trigger)} yaw="{trigger.rotation.yaw:.2f}"/>'
        f"{parameters}</scenario></scenarios></route>\n"
    )


def _xyz(at: Any) -> str:
    return f'x="{at.location.x:.2f}" y="{at.location.y:.2f}" z="{at.location.z:.2f}"'


QUESTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    "names": names, "load": load, "lights": lights, "clean": clean, "speed": speed, "routes": routes,
}  # fmt: skip

if __name__ == "__main__":
    try:
        answer = QUESTIONS[sys.argv[1]](**json.loads(sys.argv[2]))
    except Exception as exc:  # the report wants the reason in a line, whatever it is
        answer = {"error": f"{type(exc).__name__}: {' '.join(str(exc).split())[:300]}"}
    print("\n" + json.dumps(answer))  # the client may have printed a warning without a line's end
