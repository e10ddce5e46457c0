"""Which frames of a standing car are taken."""

from __future__ import annotations

from closedloop_plugin.learn.frame_collector import StandingFrames


def taken(steps: list[tuple[float, str]]) -> list[float]:
    """Times, s, of the taken frames; one step of (speed, action) every 0.5 s."""
    frames = StandingFrames()
    return [0.5 * k for k, (speed, action) in enumerate(steps) if frames.takes(speed, action, 0.5 * k)]


def test_a_moving_car_gives_all_frames() -> None:
    assert taken([(2.0, "go")] * 4) == [0.0, 0.5, 1.0, 1.5]


def test_a_stuck_car_gives_fewer_and_fewer() -> None:
    """After 2 s, then 1.5 times the time of the last: 3, 4.5, 6.75 (at 7), 10.5, 15.75 (at 16)."""
    assert taken([(0.0, "stop")] * 40) == [0.0, 2.0, 3.0, 4.5, 7.0, 10.5, 16.0]


def test_another_action_or_a_move_begins_anew() -> None:
    steps = [(0.0, "stop")] * 3 + [(0.0, "go")] * 2 + [(1.0, "go")] + [(0.0, "go")] * 2
    assert taken(steps) == [0.0, 1.5, 2.5, 3.0]
