"""Traffic light cycle: conflicting greens, yellow, signals held by a program."""

from __future__ import annotations

import math

import pytest

from closedloop_plugin.core.state import SignalState, StopLine
from closedloop_plugin.worlds.bodies.traffic_lights import CYCLE_S, TrafficLightCycle, phase


def cross(x: float = 0.0, name: str = "") -> list[StopLine]:
    """Four approaches of one junction at (x, 0)."""
    return [
        StopLine(f"{name}{i}", x - 10 * math.cos(a), -10 * math.sin(a), a, 3.5, "signal", on_route=not name and i == 0)
        for i, a in enumerate((0.0, math.pi / 2, math.pi, -math.pi / 2))
    ]


def test_phases_of_the_cycle_over_time() -> None:
    # 10 s green, 3 s yellow, 17 s red of 30.
    expected = [
        (0.0, SignalState.GREEN),
        (9.9, SignalState.GREEN),
        (10.0, SignalState.YELLOW),
        (13.0, SignalState.RED),
        (29.9, SignalState.RED),
    ]
    assert [(t, phase(t)) for t, _ in expected] == expected
    assert phase(30.0) is SignalState.GREEN and CYCLE_S == 30.0


@pytest.mark.parametrize("seed", range(4))
def test_opposite_signals_agree_and_one_axis_is_always_red(seed: int) -> None:
    lights = TrafficLightCycle(cross(), seed)
    seen = set()
    for tick in range(1200):
        lights.step(tick * 0.05, {})
        s = lights.state
        assert s["0"] is s["2"] and s["1"] is s["3"]
        assert SignalState.RED in (s["0"], s["1"])
        seen.add((s["0"], s["1"]))
    assert len(seen) == 5  # green/red, yellow/red, red/red, red/green, red/yellow


def test_no_light_changes_directly_from_green_to_red() -> None:
    lights = TrafficLightCycle(cross(), 1)
    before = dict(lights.state)
    for tick in range(2000):
        held = {"0": SignalState.RED} if tick % 500 > 250 else {"0": SignalState.GREEN}
        lights.step(tick * 0.05, held)
        if tick > 0:
            assert not any(before[k] is SignalState.GREEN and v is SignalState.RED for k, v in lights.state.items())
        before = dict(lights.state)


def test_a_held_green_keeps_the_others_red() -> None:
    lights = TrafficLightCycle(cross(), 3)
    for tick in range(1000):
        lights.step(100 + tick * 0.05, {"0": SignalState.GREEN})
        assert lights.state["0"] is SignalState.GREEN
        if tick > 60:  # a yellow may run out
            assert lights.state["1"] is SignalState.RED


def test_the_seed_sets_the_phase_and_junctions_have_their_own() -> None:
    near, far = cross(), cross(300.0, "f")
    states = {tuple(TrafficLightCycle(near + far, seed).state.values()) for seed in range(20)}
    assert len(states) > 3
    assert TrafficLightCycle(near, 7).state == TrafficLightCycle(near, 7).state


def test_stop_signs_have_no_light() -> None:
    assert TrafficLightCycle([StopLine("a", 0, 0, 0, 3.5, "stop")], 0).state == {}
