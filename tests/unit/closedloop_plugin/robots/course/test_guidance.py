"""The track expert: its replies, and that the rule interpreter reads them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Control, Decision, Observation, RouteCommand
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.interpreters.make import make_interpreter
from closedloop_plugin.robots.course.guidance import SPEED_SHARES, TrackExpert, words

RULES = make_interpreter("rules", "rules", profile("bench2advlm"))
STRAIGHT = RoutePath([(0.0, 0.0), (4.0, 0.0)], 0.01)


def decision_request(target: tuple[float, float] = (4.5, 0.0), speed: float = 0.0) -> DecisionRequest:
    return DecisionRequest("drive", Observation(0, 0.0, speed, RouteCommand.FOLLOW, target, lambda name: None, 5.6))  # type: ignore[arg-type,return-value]


def control(reply: str, request: DecisionRequest) -> Control:
    (interpreted,) = RULES.interpret([(request, Decision({"action": reply}))])
    assert interpreted.control is not None, (reply, interpreted.reason)
    return interpreted.control


def expert(path: RoutePath = STRAIGHT, pose: tuple[float, float, float] = (1.0, 0.0, 0.0)) -> TrackExpert:
    track_expert = TrackExpert()
    track_expert.set_path(path, lambda: pose, 14.0)
    return track_expert


@given(
    st.floats(0.05, 1e6),
    st.floats(-1, 1),
    st.floats(-1, 1),
    st.floats(0, 2.0),
)
def test_every_reply_is_interpreted_and_moves_the_vehicle(
    radius: float, wanted: float, hinted: float, speed: float
) -> None:
    """The vehicle stops between two motions, so a reply without throttle would end a run."""
    interpreted = control(words(radius, wanted, hinted), decision_request(speed=speed))
    assert interpreted.throttle > 0.0 and interpreted.brake == 0.0


@given(st.floats(0.05, 10), st.floats(-1, 1))
def test_a_correct_hint_is_followed(radius: float, wanted: float) -> None:
    assert "lane" in words(radius, wanted, wanted) and "steer" not in words(radius, wanted, wanted)


@pytest.mark.parametrize("side", (-1, 1))
def test_the_reply_steers_to_the_wanted_side(side: int) -> None:
    for wanted, hinted in ((0.15, 0.0), (0.8, 0.0)):
        assert control(words(9.0, side * wanted, hinted), decision_request()).steer * side > 0
    assert abs(control(words(9.0, side * 0.8, 0.0), decision_request()).steer) > abs(
        control(words(9.0, side * 0.15, 0), decision_request()).steer
    )


def test_the_speed_depends_on_the_bend() -> None:
    replies = [words(radius, 0.0, 0.0) for radius in (0.5, 1.0, 5.0)]
    assert [text.rsplit("= ")[1] for text in replies] == [f"{SPEED_SHARES[0][1]:g}.", f"{SPEED_SHARES[1][1]:g}.", "1."]


def test_a_wrong_hint_is_corrected() -> None:
    """10 cm left of the middle, with a hint straight ahead."""
    (decision,) = expert(pose=(0.3, 0.1, 0.0)).decide([decision_request()])
    assert "right" in decision.texts["action"] and decision.thought["aside_m"] == pytest.approx(0.1)


def test_the_expert_slows_down_before_a_bend() -> None:
    arc = [(2 + 0.5 * math.sin(a), 0.5 - 0.5 * math.cos(a)) for a in (i * 0.05 for i in range(30))]
    path, at = RoutePath([(0.0, 0.0), (2.0, 0.0), *arc[1:]], 0.01), iter((0.5, 1.0, 1.5, 1.6))
    track_expert = expert()
    track_expert.set_path(path, lambda: (next(at), 0.0, 0.0), 14.0)
    replies = [track_expert.decide([decision_request()])[0].texts["action"] for _ in range(4)]
    assert "= 1." in replies[0] and f"= {SPEED_SHARES[0][1]:g}." in replies[3]


def test_the_expert_is_labelled_privileged_and_returns_an_error_without_a_path() -> None:
    track_expert = TrackExpert()
    assert track_expert.decide([decision_request()])[0].error
    assert track_expert.privileged and "privileged" in track_expert.name and track_expert.describe()["privileged"]
