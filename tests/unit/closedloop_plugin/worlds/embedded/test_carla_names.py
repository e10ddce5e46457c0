"""Names of Scenic's CARLA model in the embedded world: all exist, act as in CARLA, or are refused by name."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from closedloop_plugin.core.state import FULL_BRAKE, ActorKind, Control, GroundTruth
from closedloop_plugin.scenarios.suites.lookup import route_of
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.embedded.world import EmbeddedWorld
from lmms_eval_ad2.core.errors import Ad2Error

pytestmark = pytest.mark.integration

HEAD = """param route = "demo:104"
model scenic.simulators.carla.model
stage = globalParameters.stage
ego = new Car at stage.spot(0), facing stage.heading(0)
"""
REFUSED = {
    "SetAngularVelocityAction(1)": "the road here is flat",
    "SetManualGearShiftAction(True)": "gears are automatic",
    "SetManualFirstGearShiftAction()": "gears are automatic",
    "SetJumpAction(True)": "nobody leaves the ground",
    "CarlaSimulator()": "its own simulator",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedWorld]:
    world = EmbeddedWorld(tmp_path_factory.mktemp("names") / "maps")
    yield world
    world.close()


def play(world: EmbeddedWorld, folder: Path, text: str, ticks: int, control: Control = FULL_BRAKE) -> list[GroundTruth]:
    """The states of a program that replaces the standard scenario, without traffic."""
    file = folder / "p.scenic"
    file.write_text(HEAD + text)
    world.reset(EpisodeSetup(route_of(file), 1, program=file, alone=True, traffic=False))
    truths = [world.truth()]
    for _ in range(ticks):
        world.step(control)
        truths.append(world.truth())
    return truths


def events(truths: list[GroundTruth]) -> list[str]:
    return [name for _, name in truths[-1].events]


def names_of_scenic() -> set[str]:
    """Public names that the installed model, its behaviours and its actions define, from their text."""
    import scenic

    folder = Path(scenic.__file__).parent / "simulators" / "carla"
    text = "\n".join((folder / name).read_text() for name in ("model.scenic", "behaviors.scenic"))
    found = set(re.findall(r"^(?:class|def|behavior) (\w+)", text, re.M))
    found |= {"map_town", "blueprints", "Color", "RGBSensor", "SSSensor", "SetLocationAction"}
    actions = ast.parse((folder / "actions.py").read_text())
    found |= {node.name for node in actions.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    return {name for name in found if not name.startswith("_")}


def test_every_public_name_of_scenics_carla_model_exists(world: EmbeddedWorld, tmp_path: Path) -> None:
    names = sorted(names_of_scenic())
    assert len(names) > 55 and {"CrossingBehavior", "Gnome", "freezeTrafficLights", "TrackWaypointsAction"} <= set(
        names
    )
    play(world, tmp_path, "".join(f"x{k} = {name}\n" for k, name in enumerate(names)), 1)


def test_every_property_and_parameter_of_scenics_carla_model_exists(world: EmbeddedWorld, tmp_path: Path) -> None:
    import scenic

    text = (Path(scenic.__file__).parent / "simulators/carla/model.scenic").read_text()
    text = re.sub(r'""".*?"""', "", text, flags=re.S)
    params = set(re.findall(r"^param (\w+) =", text, re.M))
    properties = set(re.findall(r"^    (\w+):", text, re.M)) - {"carlaActor", "carlaController", "else", "try"}
    assert params >= {"carla_map", "weather", "port"} and properties >= {"blueprint", "rolename", "physics"}
    read = [f"globalParameters.{name}" for name in sorted(params)] + [f"ego.{name}" for name in sorted(properties)]
    play(world, tmp_path, "".join(f"x{k} = {name}\n" for k, name in enumerate(read)), 1)
    with pytest.raises(Ad2Error, match=r"line 5: .*carlaActor.*; only --world carla has it"):
        play(world, tmp_path, "x = ego.carlaActor\n", 1)


@pytest.mark.parametrize("call", REFUSED)
def test_what_has_no_meaning_here_is_refused_by_name(call: str, world: EmbeddedWorld, tmp_path: Path) -> None:
    text = f"behavior B():\n    x = {call}\n    wait\nnew Car at stage.spot(20), with behavior B()\n"
    with pytest.raises(
        Ad2Error, match=rf"p.scenic, line 6: OnlyInCarla: {call.split('(')[0]}: .*{REFUSED[call]}.*--world carla"
    ):
        play(world, tmp_path, text, 2)


def test_lights_are_read_set_and_frozen(world: EmbeddedWorld, tmp_path: Path) -> None:
    text = """
lights = [s for crossing in network.intersections for s in crossing.signals if s.isTrafficLight]
behavior B():
    stage.event(f"near {withinDistanceToTrafficLight(ego, 500)} {withinDistanceToTrafficLight(ego, 1)}")
    setClosestTrafficLightStatus(ego, "red", 500)
    stage.event(f"ahead {getClosestTrafficLightStatus(ego, 500)} {withinDistanceToRedYellowTrafficLight(ego, 500)}")
    stage.event(f"none {getClosestTrafficLightStatus(ego, 1)}")
    take SetTrafficLightAction("green", 500)
    stage.event(f"then {getClosestTrafficLightStatus(ego, 500)}")
    for crossing in network.intersections:
        setAllIntersectionTrafficLightsStatus(crossing, "yellow")
    stage.event("all " + " ".join(getTrafficLightStatus(s) for s in lights))
    setTrafficLightStatus(lights[0], "green")
    stage.event(f"one {getTrafficLightStatus(lights[0])}")
    freezeTrafficLights()
    for k in range(700):
        wait
    stage.event(f"frozen {getTrafficLightStatus(lights[0])}")
    unfreezeTrafficLights()
    for k in range(700):
        wait
        if getTrafficLightStatus(lights[0]) == "red":
            stage.event("free")
new Car behind ego by 3, with behavior B(), with regionContainedIn None
"""
    found = events(play(world, tmp_path, text, 1300))
    assert found[:4] == ["near True False", "ahead red True", "none None", "then green"]
    assert set(found[4].split()[1:]) == {"yellow"} and found[5:] == ["one green", "frozen green", "free"]
    with pytest.raises(Ad2Error, match="signal state 'blue': no such state"):
        play(world, tmp_path, 'behavior B():\n    setClosestTrafficLightStatus(ego, "blue", 500)\n    wait\n'
             "new Car at stage.spot(20), with behavior B()\n", 2)  # fmt: skip


def test_a_held_light_is_the_worlds(world: EmbeddedWorld, tmp_path: Path) -> None:
    text = """
behavior B(colour):
    setClosestTrafficLightStatus(ego, colour, 500)
    while True:
        wait
new Car at stage.spot(20), with behavior B("%s")
"""
    for colour in ("red", "green"):
        truths = play(world, tmp_path, text % colour, 3)
        line = next(line for line in world.road.stop_lines if line.on_route)
        assert str(truths[-1].signals[line.id]) == colour


def test_a_car_on_autopilot_keeps_its_lane_and_its_distance(world: EmbeddedWorld, tmp_path: Path) -> None:
    text = """
behavior B():
    do AutopilotBehavior(speed=6, ignore_lights_percentage=100)
    for k in range(160):
        wait
    take SetAutopilotAction(False), SetBrakeAction(1.0)
    while True:
        wait
new Car at stage.spot(8), facing stage.heading(8), with behavior B()
"""
    truths = play(world, tmp_path, text, 300)
    car = [t.actors[0] for t in truths]
    assert 5.0 < max(a.speed for a in car) <= 6.0
    assert car[-1].speed == 0.0 and 25 < math.dist((car[0].x, car[0].y), (car[-1].x, car[-1].y)) < 45
    with pytest.raises(Ad2Error, match=r"line 6: TypeError: SetAutopilotAction: no option 'sped' .known: speed"):
        play(world, tmp_path, "behavior B():\n    take SetAutopilotAction(True, sped=3)\n"
             "new Car at stage.spot(20), with behavior B()\n", 2)  # fmt: skip


def test_a_pedestrian_crosses_to_meet_the_ego(world: EmbeddedWorld, tmp_path: Path) -> None:
    text = """
ped = new Pedestrian at stage.spot(30, -5), facing stage.heading(30, 90), with regionContainedIn None, \\
    with behavior CrossingBehavior(ego, 1.0, 24)
"""
    standing = play(world, tmp_path, text, 40)
    assert standing[-1].actors[0].speed == 0.0, "the ego is farther than 24 m away"
    truths = play(world, tmp_path, text, 200, Control(throttle=0.4))
    walker = [t.actors[0] for t in truths]
    begun = next(t for t in truths if t.actors[0].speed > 0)
    assert math.dist((begun.ego.x, begun.ego.y), (begun.actors[0].x, begun.actors[0].y)) == pytest.approx(24, abs=0.6)
    assert max(a.speed for a in walker) > 1.0, "it hurries to meet a fast ego"
    assert math.dist((walker[0].x, walker[0].y), (walker[-1].x, walker[-1].y)) > 3


def test_walkers_walk_and_vehicles_reverse_jump_and_signal(world: EmbeddedWorld, tmp_path: Path) -> None:
    text = """
behavior Back():
    take SetGearAction(-1), SetThrottleAction(0.5), SetVehicleLightStateAction(2 | 16 | 32)
    while True:
        wait
behavior Jump():
    take SetTransformAction(stage.spot(60, 3.5), stage.heading(60))
    while True:
        wait
new Car at stage.spot(25, 0), facing stage.heading(25), with behavior Back()
new Car at stage.spot(40, 0), facing stage.heading(40), with behavior Jump()
new Pedestrian at stage.spot(20, -8), facing stage.heading(20), with regionContainedIn None, \\
    with behavior WalkBehavior(1.5)
new Pedestrian at stage.spot(20, 9), facing stage.heading(20), with regionContainedIn None, \\
    with behavior WalkForwardBehavior(0.8)
new Gnome at stage.spot(50, -9), with regionContainedIn None
"""
    truths = play(world, tmp_path, text, 60)
    first, last = truths[0].actors, truths[-1].actors
    moved = [math.dist((a.x, a.y), (b.x, b.y)) for a, b in zip(first, last, strict=True)]
    assert (last[0].x - first[0].x) * math.cos(last[0].yaw) + (last[0].y - first[0].y) * math.sin(last[0].yaw) < -1
    assert last[0].lamps >= {"headlights", "hazard"}
    assert moved[1] > 19 and last[1].speed == 0.0
    assert moved[2] == pytest.approx(4.4, abs=0.6) and moved[3] == pytest.approx(0.8 * 60 * 0.05, abs=0.1)
    assert last[4].kind is ActorKind.DEBRIS and moved[4] == 0.0


def test_a_vehicle_tracks_waypoints(world: EmbeddedWorld, tmp_path: Path) -> None:
    text = """
points = [stage.spot(s, 3.0 if s > 10 else 0.0) for s in range(5, 70, 5)]
behavior B():
    while True:
        take TrackWaypointsAction(points, 7.0)
new Car at stage.spot(8), facing stage.heading(8), with behavior B(), with regionContainedIn None
"""
    truths = play(world, tmp_path, text, 140)
    path = world.road.path
    offsets = {round(path.locate(a.x, a.y)[0]): path.locate(a.x, a.y)[1] for a in (t.actors[0] for t in truths)}
    assert abs(offsets[8]) < 0.2 and offsets[27] == pytest.approx(3.0, abs=0.4)
    assert truths[-1].actors[0].speed == pytest.approx(7.0, abs=0.5)
