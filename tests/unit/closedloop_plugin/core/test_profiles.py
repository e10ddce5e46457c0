"""Profiles: post-processing in the published order."""

from __future__ import annotations

import math

import pytest

from closedloop_plugin.core.profiles import PROFILES, profile
from closedloop_plugin.core.state import Control
from lmms_eval_ad2.core.errors import Ad2Error


def test_bench2advlm_post_processing() -> None:
    post = profile("bench2advlm").post
    assert post(Control(0, 0.3, 0.04), 0) == Control(0, 0.3, 0)
    assert post(Control(0, 0.3, 0.2), 0) == Control(0, 0.3, 0), "throttle above brake: no brake"
    assert post(Control(0, 0.3, 0.4), 0) == Control(0, 0.3, 0.4)
    assert post(Control(2, 0.9, 0), 4.9) == Control(1, 0.75, 0)
    assert post(Control(0, 0.9, 0), 5.1) == Control(0, 0, 0), "faster than 5 m/s: no throttle"
    with pytest.raises(ValueError, match="not finite"):
        post(Control(math.nan, 0, 0), 0)
    assert profile("bench2drive").post(Control(0, 0.9, 0.2), 9) == Control(0, 0.9, 0.2)


def test_bench2advlm_rates_and_limits() -> None:
    """Public code of Bench2ADVLM: both models are asked at each of at most 1,250 ticks, at 10 Hz."""
    rules = profile("bench2advlm")
    assert (rules.hz, rules.decision_hz, rules.max_ticks) == (10, 10, 1250)
    assert (rules.throttle_set, rules.brake_set) == ((0.0, 0.3, 0.6, 0.9),) * 2
    assert rules.steer_set == (-1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0)
    assert rules.situation == "none"
    assert {c.name: (c.width, c.height, c.fov) for c in rules.cameras} == {
        **dict.fromkeys(("front", "front_left", "front_right", "back_left", "back_right"), (1600, 900, 70.0)),
        "back": (1600, 900, 110.0),
    }


def test_an_unknown_profile_lists_the_known_ones() -> None:
    with pytest.raises(Ad2Error, match="bench2advlm"):
        profile("carla")
    assert {p.name for p in PROFILES.values()} == set(PROFILES)
