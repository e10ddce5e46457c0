"""ScenarioStage and compilation: interface of programs, and sessions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import Control, SignalState, StopLine
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.worlds.base import WorldError
from closedloop_plugin.worlds.bridge.compiled_scene import CompiledScene, scene_for
from closedloop_plugin.worlds.bridge.session import ScenicSession
from closedloop_plugin.worlds.bridge.stage import ScenarioStage
from lmms_eval_ad2.core.errors import Ad2Error

LINES = (
    StopLine("own", 40, 0, 0, 3.5, "signal", on_route=True, route_s=40.0),
    StopLine("cross", 50, 10, -1.57, 3.5, "signal"),
    StopLine("sign", 50, -10, 1.57, 3.5, "stop"),
)


def stage(**params) -> ScenarioStage:
    road = RoadMap(Path(), "corridor", "", "", RoutePath([(0, 0), (100, 0)]), (), stop_lines=LINES)
    return ScenarioStage(road, params, "Accident", 20.0, 5)


def test_places_and_parameters() -> None:
    s = stage(distance=40.0, frequency=(20.0, 100.0), one=3.0)
    assert s.spot(10, 2) == pytest.approx((10, 2))
    assert s.heading(10) == pytest.approx(-1.5708, abs=1e-4)  # Scenic: 0 is north, east is -90 degrees
    assert s.lane(2) == 7.0
    assert (s.number("distance", 1), s.number("speed", 30)) == (40.0, 30.0)
    assert (s.interval("frequency", (1, 2)), s.interval("one", (1, 2))) == ((20.0, 100.0), (3.0, 3.0))


def test_an_event_is_recorded_once() -> None:
    s = stage()
    s.time_s = 1.23456
    s.event("trigger")
    s.time_s = 2.0
    s.event("trigger")
    assert s.events == [(1.235, "trigger")] and s.happened("trigger") and not s.happened("act")


def with_standard() -> tuple[ScenarioStage, ScenarioStage]:
    """The stages of a program and of the standard scenario under it."""
    s = stage()
    base = replace(s, base=True, signals={})
    s.parts = (base,)
    return s, base


def test_events_of_the_standard_scenario_are_told_apart_but_for_those_that_the_referee_counts() -> None:
    own, base = with_standard()
    base.event("trigger")
    base.event("act")
    own.event("trigger")
    base.event("yield failed")
    base.event("scenario timeout")
    assert [name for _, name in own.events] == [
        "base trigger", "base act", "trigger", "yield failed", "scenario timeout"
    ]  # fmt: skip
    assert base.happened("act") and not own.happened("act")
    assert (base.role, own.role) == ("standard", "scenario")


def test_the_lights_of_the_program_precede_those_of_the_standard_scenario() -> None:
    own, base = with_standard()
    base.hold_signals("green", SignalState.RED)
    assert own.held_signals == base.signals and not own.signals
    own.hold_signals(route="red")
    assert own.held_signals == {"own": SignalState.RED, "cross": SignalState.RED}
    own.free_signals()
    assert own.held_signals == {"own": SignalState.GREEN, "cross": SignalState.RED}


def test_scenarios_of_one_route_have_their_own_events_and_are_in_the_scene_near_their_trigger() -> None:
    s = stage()
    first, second = (replace(s, label=f"A_{i}", trigger_s=600.0 * i, signals={}, streams=[], parts=()) for i in (0, 1))
    s.parts = (first, second)
    first.event("trigger")
    second.event("trigger")
    first.event("scenario timeout")
    assert not second.happened("scenario timeout"), "the flow of the other goes on"
    second.event("scenario timeout")
    names = ["A_0 trigger", "A_1 trigger", "scenario timeout", "scenario timeout"]
    assert [name for _, name in s.events] == names
    second.hold_signals("red", "green")
    second.streams.append("flow")
    assert (first.in_scene, second.in_scene) == (True, False)
    assert s.held_signals == {} and s.all_streams == []
    first.ego_s = second.ego_s = 450.0
    assert (first.in_scene, second.in_scene) == (False, True)
    assert s.held_signals == second.signals and s.all_streams == ["flow"]
    second.road = replace(second.road, junctions=((430.0, 440.0),))
    assert s.held_signals == {}, "behind its junction"


def test_the_oncoming_lane_and_noise_of_both_apply() -> None:
    own, base = with_standard()
    assert not own.lends_oncoming
    base.oncoming_allowed = True
    assert own.lends_oncoming
    base.noise = (0.5, 0.0)
    assert own.disturbed(Control(0.0, 0.5)).steer != 0.0
    own.move_ego(30.0, 1.0, 7)
    assert (base.ego_s, base.ego_d, base.time_s) == (own.ego_s, own.ego_d, own.time_s) == (30.0, 1.0, 7 * own.timestep)


def test_noise_is_seeded_and_stays_in_range() -> None:
    one, two = stage(), stage()
    one.noise = two.noise = (2.0, 0.5)
    controls = [one.disturbed(Control(0.0, 0.5)) for _ in range(50)]
    assert controls == [two.disturbed(Control(0.0, 0.5)) for _ in range(50)]
    assert all(abs(c.steer) <= 1 and 0 <= c.throttle <= 1 for c in controls) and len(set(controls)) > 20
    assert stage().disturbed(Control(0.1)) == Control(0.1)


def test_a_bias_moves_the_mean_of_the_disturbance() -> None:
    s = stage()
    s.bias, s.noise = (0.055, -0.03), (0.015, 0.01)
    controls = [s.disturbed(Control(0.1, 0.5)) for _ in range(400)]
    assert sum(c.steer for c in controls) / 400 == pytest.approx(0.155, abs=0.004)  # 0.015 / sqrt(400) = 0.00075
    assert sum(c.throttle for c in controls) / 400 == pytest.approx(0.47, abs=0.003)


@pytest.mark.integration
def test_any_scenic_simulator_is_stepped_from_outside(tmp_path: Path) -> None:
    """Scenic's own Newtonian simulator behind the same session."""
    from closedloop_plugin.core.routes import Route
    from closedloop_plugin.maps.base import RoadLayout
    from closedloop_plugin.maps.build import road_for

    points = tuple((2.0 * i, 0.0) for i in range(50))
    road = road_for(Route("1", "T", points, "", "", (20.0, 0.0, 0.0)), RoadLayout(), folder=tmp_path)
    program = tmp_path / "p.scenic"
    program.write_text("model scenic.domains.driving.model\nego = new Car at (5, 0), facing -90 deg\n")
    options = {"writeCache": False, "useCache": False}
    params = {"map": str(road.file), "map_options": options, "render": False, "timestep": 0.05}
    compiled = scene_for(program, "scenic.simulators.newtonian.driving_model", params, 1)
    assert isinstance(compiled, CompiledScene)
    s = ScenarioStage(road, {}, "", 20.0, 0)
    session = ScenicSession(compiled, compiled.scenario.getSimulator(), s, 40)
    session.start()
    assert (s.ego_s, s.ego_speed) == (pytest.approx(5.0, abs=0.1), 0.0)
    for _ in range(40):
        session.advance(Control(throttle=1.0))
    # 5.6 m/s2 for 2 s; the stage last observed tick 39.
    assert s.ego_speed == pytest.approx(5.6 * 1.95, abs=0.01) and s.time_s == pytest.approx(1.95)
    assert session.done is not None
    with pytest.raises(WorldError):
        session.advance(Control())
    session.close()


@pytest.mark.integration
def test_a_missing_map_is_an_ad2_error(tmp_path: Path) -> None:
    program = tmp_path / "p.scenic"
    program.write_text("model scenic.domains.driving.model\nego = new Car\n")
    with pytest.raises(Ad2Error, match="map"):
        scene_for(program, "scenic.simulators.newtonian.driving_model", {"render": False}, 0)
