"""DisturbedExpert: reproducible disturbances within the control's ranges, marked, with pauses of the expert between."""

from __future__ import annotations

from typing import Any

import pytest

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Control, Decision, Observation, RouteCommand
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.learn.collecting_drivers import KINDS, DisturbedExpert

EXPERT = Control(steer=0.1, throttle=0.4)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> DisturbedExpert:
    made = DisturbedExpert(profile("bench2advlm"))
    monkeypatch.setattr(made, "_decide", lambda request: Decision(control=EXPERT, thought={"a": 0.0}))
    return made


def _request(time_s: float, speed: float = 4.0) -> DecisionRequest:
    def no_images(name: str) -> Any:
        raise AssertionError("it sees no image")

    return DecisionRequest("e", Observation(0, time_s, speed, RouteCommand.FOLLOW, (8.0, 0.0), no_images))


def _driven(driver: DisturbedExpert, seed: int, speed: float = 4.0) -> list[Decision]:
    driver.start("e", seed)
    found = [driver.decide([_request(k / 10, speed)])[0] for k in range(2000)]
    driver.end("e")
    return found


def test_disturbances_are_reproducible_and_marked(driver: DisturbedExpert) -> None:
    first, again, other = (_driven(driver, seed) for seed in (1, 1, 2))
    assert first == again != other
    kinds = {d.thought.get("disturbed") for d in first}
    assert kinds == {None, *KINDS}
    assert all(d.control == EXPERT for d in first if "disturbed" not in d.thought)
    share = sum("disturbed" in d.thought for d in first) / len(first)
    assert 0.1 < share < 0.35  # 0.3 to 1.5 s of each 2 to 7 s


def test_no_disturbance_speeds_up_beyond_the_profile(driver: DisturbedExpert) -> None:
    fast = [d for d in _driven(driver, 3, speed=5.2) if d.thought.get("disturbed") == "faster"]
    assert fast and all(d.control is not None and d.control.throttle == 0.0 for d in fast)
