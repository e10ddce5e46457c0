"""The body that a blocked ego stands behind, and the emergency vehicle to which it did not give way."""

from __future__ import annotations

import math

import pytest

from closedloop_plugin.core.state import Actor, ActorKind, GroundTruth
from closedloop_plugin.scoring.referee.actors import body_ahead, emergency_vehicle


def body(id: str, x: float, y: float, kind: ActorKind = ActorKind.CAR, **more: float) -> Actor:
    size = {"length": 4.0, "width": 2.0, "height": 1.5, "yaw": 0.0, "speed": 0.0, **more}
    return Actor(id=id, kind=kind, x=x, y=y, **size)  # type: ignore[arg-type]


def truth(*actors: Actor, yaw: float = 0.0) -> GroundTruth:
    return GroundTruth(tick=1, time_s=0.1, ego=body("ego", 0.0, 0.0, yaw=yaw), actors=actors)


@pytest.mark.parametrize(
    ("actors", "expected"),
    [
        ([body("s1", 15.9, 0.0)], "s1"),  # 11.9 m between front and rear
        ([body("s1", 16.1, 0.0)], ""),
        ([body("s1", 8.0, 2.2)], "s1"),  # their sides are 0.2 m apart
        ([body("s1", 8.0, 2.4)], ""),
        ([body("s1", 8.0, 2.9, yaw=math.pi / 2)], "s1"),  # it stands across: 4 m wide there
        ([body("s1", -6.0, 0.0)], ""),  # behind
        ([body("s1", 12.0, 0.0), body("r1", 7.0, 0.5)], "r1"),  # the nearest
    ],
)
def test_the_body_straight_ahead(actors: list[Actor], expected: str) -> None:
    assert body_ahead(truth(*actors)) == expected


def test_ahead_is_where_the_ego_faces() -> None:
    north = truth(body("s1", 0.0, 8.0), body("r1", 8.0, 0.0), yaw=math.pi / 2)
    assert body_ahead(north) == "s1"


def test_the_emergency_vehicle_with_a_siren_is_named_before_a_nearer_silent_one() -> None:
    silent = body("r1", 5.0, 0.0, ActorKind.POLICE)
    loud = Actor(**{**vars(body("s1", -9.0, 0.0, ActorKind.AMBULANCE)), "lamps": frozenset({"siren"})})
    assert emergency_vehicle(truth(silent, loud)) == "s1"
    assert emergency_vehicle(truth(silent, body("b1", 1.0, 0.0))) == "r1"
    assert emergency_vehicle(truth(body("b1", 1.0, 0.0))) == ""
