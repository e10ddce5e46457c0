"""The clamp: hostile actuations, all limits, and the Python versions of the vehicles."""

from __future__ import annotations

import ast
import json
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import REPO

from closedloop_plugin.robots.onboard import clamp as module
from closedloop_plugin.robots.onboard.clamp import clamp, problem, stop, vehicle_problem
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES

ONBOARD = {name: vehicle.to_onboard() for name, vehicle in VEHICLES.items()}
SIDEWAYS = {
    "kind": "twist",
    "limits": {"speed": 0.5, "yaw_rate": 1.0, "lateral": 0.3, "turning_radius": 0.0, "reverse": True},
}
NUMBERS = st.floats() | st.floats(-2.0, 2.0) | st.integers(-(10**400), 10**400)
TWISTS = st.fixed_dictionaries({"twist": st.fixed_dictionaries({"vx": NUMBERS, "vy": NUMBERS, "wz": NUMBERS})})
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["twist", "word", "vx"]), inner),
    max_leaves=8,
)


def twist(vx: Any, vy: Any = 0.0, wz: Any = 0.0) -> dict[str, Any]:
    return {"twist": {"vx": vx, "vy": vy, "wz": wz}}


@given(st.sampled_from([*ONBOARD.values(), SIDEWAYS]), TWISTS | JSON)
def test_any_actuation_is_clamped_to_the_limits_without_an_exception(vehicle: dict[str, Any], actuation: Any) -> None:
    sent = clamp(actuation, vehicle)
    assert problem(sent, vehicle) is None
    if problem(actuation, vehicle):
        assert sent == stop(vehicle)
    if vehicle["kind"] == "word":
        assert sent["word"] in module.WORDS and sent["word"] != "backward"
        return
    limits, (vx, vy, wz) = vehicle["limits"], sent["twist"].values()
    assert abs(vx) <= limits["speed"] and abs(vy) <= limits["lateral"] and abs(wz) <= limits["yaw_rate"]
    assert vx >= 0.0 or limits["reverse"]
    assert abs(wz) * limits["turning_radius"] <= abs(vx) * (1 + 1e-12)
    assert clamp(sent, vehicle) == sent


def test_a_twist_above_a_limit_is_scaled_down_proportionally() -> None:
    """0.8 m/s on a circle of 2 m becomes 0.4 m/s on the same circle; 2 rad/s on one of 0.1 m becomes 1 rad/s."""
    limo = ONBOARD["limo-differential"]
    assert clamp(twist(0.8, 0.0, 0.4), limo) == twist(0.4, 0.0, 0.2)
    assert clamp(twist(0.2, 0.0, 2.0), limo) == twist(0.1, 0.0, 1.0)
    assert clamp(twist(0.2, 0.6, 0.5), SIDEWAYS) == twist(0.1, 0.3, 0.25)
    assert clamp(twist(-1.0), SIDEWAYS) == twist(-0.5)


def test_ackermann_yaw_rate_is_limited_by_speed() -> None:
    limo = ONBOARD["limo-ackermann"]
    assert clamp(twist(0.0, 0.0, 1.0), limo) == twist(0.0)
    assert clamp(twist(1e-300, 0.0, 1.0), limo) == twist(0.0)
    assert clamp(twist(0.0009, 0.0, 0.0009), limo) == twist(0.0)  # below the resolution of the base's protocol
    assert clamp(twist(0.3, 0.0, -0.9), limo)["twist"]["wz"] == pytest.approx(-0.3 / 0.46215, abs=1e-5)


@pytest.mark.parametrize(
    "bad",
    [
        None, [], {}, {"word": "forward"}, {"twist": None}, {"twist": {"vx": 0.1, "vy": 0.0}}, twist(math.nan),
        twist(0.1, 0.0, math.inf), twist("0.1"), twist(True), twist(10**400), twist(-0.1),
    ],
    ids=repr,
)  # fmt: skip
def test_an_invalid_twist_stops_the_vehicle(bad: Any) -> None:
    assert clamp(bad, ONBOARD["limo-ackermann"]) == twist(0.0)
    reverse = isinstance(bad, dict) and bad.get("twist") == twist(-0.1)["twist"]
    assert (problem(bad, ONBOARD["limo-ackermann"]) is None) == reverse  # reverse is not permitted, but not malformed


def test_valid_words_pass_and_others_stop_the_vehicle() -> None:
    jetbot = ONBOARD["jetbot-dusty-ros1"]
    for word in ("forward", "left", "right", "stop"):
        assert clamp({"word": word}, jetbot) == {"word": word}
    for bad in ({"word": "backward"}, {"word": "FORWARD"}, {"word": ["left"]}, {"word": None}, twist(0.1)):
        assert problem(bad, jetbot)
        assert clamp(bad, jetbot) == {"word": "stop"}


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"kind": "legs"}, "kind"),
        ({"limits": None}, "reverse"),
        ({"limits": {**SIDEWAYS["limits"], "reverse": 1}}, "reverse"),
        ({"limits": {**SIDEWAYS["limits"], "speed": math.nan}}, "speed"),
        ({"limits": {**SIDEWAYS["limits"], "yaw_rate": -1.0}}, "yaw_rate"),
        ({"limits": {k: v for k, v in SIDEWAYS["limits"].items() if k != "turning_radius"}}, "turning_radius"),
    ],
)
def test_invalid_vehicle_limits_are_reported_with_their_key(change: dict[str, Any], names: str) -> None:
    assert vehicle_problem(SIDEWAYS) is None
    assert names in str(vehicle_problem({**SIDEWAYS, **change}))
    assert vehicle_problem("limo")


CASES = """
import json, sys
from closedloop_plugin.robots.onboard.clamp import clamp, problem
print(json.dumps([[clamp(a, v), problem(a, v)] for a, v in json.load(sys.stdin)]))
"""


@pytest.mark.integration
def test_the_clamp_gives_the_same_results_under_python_3_6() -> None:
    """The results are compared only if Python 3.6 is installed, its syntax is always checked."""
    ast.parse(Path(module.__file__).read_text("utf-8"), feature_version=(3, 6))
    found = [p for p in Path.home().glob(".pyenv/versions/3.6.*/bin/python") if p.exists()]
    python = str(found[0]) if found else sys.executable
    rng = random.Random(6)
    values = [0.0, -0.0, 1e-3, 0.3, -0.3, 5.0, 1e308, 5e-324, math.nan, math.inf, "1", None, True, 10**400]
    cases = [
        (twist(*(rng.choice([*values, rng.uniform(-2, 2)]) for _ in range(3))), rng.choice([*ONBOARD.values()]))
        for _ in range(3000)
    ]
    cases += [({"word": rng.choice([*module.WORDS, "", 1])}, ONBOARD["jetbot-dusty-ros1"]) for _ in range(30)]
    done = subprocess.run(
        [python, "-c", CASES], input=json.dumps(cases), cwd=REPO, capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == [[clamp(a, v), problem(a, v)] for a, v in cases]
