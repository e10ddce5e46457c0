"""The track expert: its replies, and that the rule interpreter reads them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.agents.base import DecisionRequest
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Control, Decision, Observation, RouteCommand
from closedloop_plugin.interpreters.make import make_interpreter
from closedloop_plugin.robots.track_expert import SPEED_SHARES, TrackExpert, words

RULES = make_interpreter("rules", "rules", profile("bench2advlm"))
STRAIGHT = RoutePath([(0.0, 0.0), (4.0, 0.0)], 0.01)


def asked(target: tuple[float, float] = (4.5, 0.0), speed: float = 0.0) -> DecisionRequest:
    return DecisionRequest("drive", Observation(0, 0.0, speed, RouteCommand.FOLLOW, target, lambda name: None, 5.6))  # type: ignore[arg-type,return-value]


def control(said: str, ask: DecisionRequest) -> Control:
    (reading,) = RULES.interpret([(ask, Decision({"action": said}))])
    assert reading.control is not None, (said, reading.reason)
    return reading.control


def expert(path: RoutePath = STRAIGHT, pose: tuple[float, float, float] = (1.0, 0.0, 0.0)) -> TrackExpert:
    made = TrackExpert()
    made.set_path(path, lambda: pose, 14.0)
    return made


@given(
    st.floats(0.05, 1e6),
    st.floats(-1, 1),
    st.floats(-1, 1),
    st.floats(0, 2.0),
)
def test_every_reply_is_interpreted_and_moves_the_vehicle(
    radius: float, wanted: float, hinted: float, speed: float
) -> None:
    """The vehicle stands between two motions: a reply that keeps it standing would end a run."""
    read = control(words(radius, wanted, hinted), asked(speed=speed))
    assert read.throttle > 0.0 and read.brake == 0.0


@given(st.floats(0.05, 10), st.floats(-1, 1))
def test_an_agreeing_navigator_is_followed(radius: float, wanted: float) -> None:
    assert "lane" in words(radius, wanted, wanted) and "steer" not in words(radius, wanted, wanted)


@pytest.mark.parametrize("side", (-1, 1))
def test_the_reply_steers_to_the_wanted_side(side: int) -> None:
    for wanted, hinted in ((0.15, 0.0), (0.8, 0.0)):
        assert control(words(9.0, side * wanted, hinted), asked()).steer * side > 0
    assert abs(control(words(9.0, side * 0.8, 0.0), asked()).steer) > abs(
        control(words(9.0, side * 0.15, 0), asked()).steer
    )


def test_the_speed_depends_on_the_bend() -> None:
    said = [words(radius, 0.0, 0.0) for radius in (0.5, 1.0, 5.0)]
    assert [text.rsplit("= ")[1] for text in said] == [f"{SPEED_SHARES[0][1]:g}.", f"{SPEED_SHARES[1][1]:g}.", "1."]


def test_it_corrects_a_navigator_that_is_wrong() -> None:
    """Beside the middle, 10 cm to the left, with a hint straight ahead."""
    (decision,) = expert(pose=(0.3, 0.1, 0.0)).decide([asked()])
    assert "right" in decision.texts["action"] and decision.thought["aside_m"] == pytest.approx(0.1)


def test_a_bend_ahead_is_seen_before_it_comes() -> None:
    arc = [(2 + 0.5 * math.sin(a), 0.5 - 0.5 * math.cos(a)) for a in (i * 0.05 for i in range(30))]
    path, at = RoutePath([(0.0, 0.0), (2.0, 0.0), *arc[1:]], 0.01), iter((0.5, 1.0, 1.5, 1.6))
    made = expert()
    made.set_path(path, lambda: (next(at), 0.0, 0.0), 14.0)
    said = [made.decide([asked()])[0].texts["action"] for _ in range(4)]
    assert "= 1." in said[0] and f"= {SPEED_SHARES[0][1]:g}." in said[3]


def test_without_a_path_it_returns_an_error_and_it_is_labelled() -> None:
    made = TrackExpert()
    assert made.decide([asked()])[0].error
    assert made.privileged and "privileged" in made.name and made.describe()["privileged"]
