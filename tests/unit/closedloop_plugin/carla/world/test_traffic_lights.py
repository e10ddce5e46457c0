"""Traffic lights in CARLA, running a red light, and custom Scenic behaviours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import carla
import pytest
from support.carla.rig import EGO, FREE, Rig, infractions, junction_route, rig_on

from closedloop_plugin.core.state import COAST, Control, SignalState

pytestmark = pytest.mark.system

GO = Control(throttle=0.7)


@pytest.fixture(scope="module")
def module_rig(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig_on("Town01", data_dir / "opendrive", tmp_path_factory.mktemp("lights")) as rig:
        yield rig


@pytest.fixture
def rig(module_rig: Rig) -> Iterator[Rig]:
    yield module_rig
    module_rig.clear()


# -- lights ------------------------------------------------------------------------------------------------------------
def states(rig: Rig) -> dict[str, Any]:
    return {name: lamp.state for name, lamp in rig.stage.lights.lamps.items()}


def test_lights_of_the_map_follow_our_cycle_others_are_frozen_and_all_resume_afterwards(rig: Rig) -> None:
    rig.play(EGO, seed=5)
    lines = {line.id for line in rig.world.road.stop_lines if line.control == "signal"}
    assert lines
    names = {
        SignalState.RED: carla.TrafficLightState.Red,
        SignalState.YELLOW: carla.TrafficLightState.Yellow,
        SignalState.GREEN: carla.TrafficLightState.Green,
    }
    first, cycle = states(rig), []
    for _ in range(400):
        (truth,) = rig.ticks(1)
        now = states(rig)
        assert all(now[line] == names[truth.signals[line]] for line in lines)
        assert all(now[name] == first[name] for name in now if name not in lines)
        cycle.append(dict(truth.signals))
    assert len({str(c) for c in cycle}) > 1
    rig.play(EGO, seed=5)
    assert [dict(t.signals) for t in rig.ticks(400)] == cycle
    rig.clear()
    assert not any(lamp.group.frozen for lamp in rig.stage.lights.lamps.values())


def test_a_light_set_by_scenic_is_shown_and_reported_to_the_referee(rig: Rig) -> None:
    behaviour = """behavior Sets():
    ours = {l.id for l in stage.road.stop_lines if l.control == "signal"}
    signal = [s for i in network.intersections for s in i.signals if str(s.openDriveID) in ours][0]
    stage.event(str(signal.openDriveID))
    setTrafficLightStatus(signal, "yellow")
    while True:
        wait
"""
    other = f"new Car at stage.spot(20, 3), facing stage.heading(20), {FREE}, with behavior Sets()\n"
    rig.play(behaviour + EGO + other)
    seen = rig.ticks(300)
    line = seen[-1].events[0][1]
    for truth in seen[2:]:
        assert truth.signals[line] == SignalState.YELLOW  # the signals that the referee reads
    assert states(rig)[line] == carla.TrafficLightState.Yellow


@pytest.mark.parametrize("town", ["Town02", "Town10HD"])
@pytest.mark.parametrize(("held", "found"), [(SignalState.RED, {"red_light"}), (SignalState.GREEN, set())])
def test_running_a_red_light_of_a_real_town_is_an_infraction(
    rig: Rig, data_dir: Path, town: str, held: SignalState, found: set[str]
) -> None:
    original, rig.route = rig.route, junction_route(town, data_dir / "opendrive")
    try:
        first = rig.play(EGO)
        stage, road = rig.simulation.context.stage, rig.world.road
        assert any(line.on_route and line.control == "signal" for line in road.stop_lines)
        stage.hold_signals(held)
        seen = [first, *rig.ticks(61), *rig.ticks(110, GO)]  # 3 s of yellow come first
        assert road.path.locate(seen[-1].ego.x, seen[-1].ego.y)[0] > 40
        assert infractions(rig, seen) == found
    finally:
        rig.route = original


# -- custom behaviours -------------------------------------------------------------------------------------------------
def test_a_car_follows_its_lane(rig: Rig) -> None:
    rig.play(EGO + "new Car at stage.spot(30), facing stage.heading(30), with behavior FollowLaneBehavior(6)\n")
    (car,) = rig.ticks(120, COAST)[-1].actors
    s, d = rig.world.road.path.locate(car.x, car.y)
    assert s > 40
    assert abs(d) < 1.0


def test_a_car_drives_on_carla_s_autopilot(rig: Rig) -> None:
    rig.play(EGO + "new Car at stage.spot(30), facing stage.heading(30), with behavior AutopilotBehavior(speed=5)\n")
    (car,) = rig.ticks(100)[-1].actors
    assert car.speed == pytest.approx(5.0, abs=1.0)


@pytest.mark.parametrize(
    "behaviour", ["WalkBehavior(1.2)", "WalkForwardBehavior(1.2)", "CrossingBehavior(ego, 1.2, 100)"]
)
def test_a_walker_walks_with_scenic_s_behaviours(rig: Rig, behaviour: str) -> None:
    walker = f"new Pedestrian at stage.spot(30, -6), facing stage.heading(30), {FREE}, with behavior {behaviour}\n"
    (first,) = rig.play(EGO + walker).actors
    seen = rig.ticks(40)
    (last,) = seen[-1].actors
    assert math.dist((first.x, first.y), (last.x, last.y)) > 1.0
