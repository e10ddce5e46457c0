"""Tracks of the scenario's actors along the route."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from support.closedloop.models import privileged

from closedloop_plugin.core.state import Actor, ActorKind
from closedloop_plugin.threats.driven.observer import ScenarioActorTracks
from closedloop_plugin.threats.driven.summary import ScenarioActorTrack


def actor(name: str, **known: Any) -> Actor:
    given = {"kind": ActorKind.CAR, "x": 45.0, "y": 0.0, "yaw": 0.0, "speed": 0.0, "length": 4.5, "width": 1.9,
             "height": 1.5, **known}  # fmt: skip
    return Actor(id=name, **given)


def test_where_actors_stood_and_drove() -> None:
    state = privileged()
    assert state.truth is not None and state.road is not None
    tracks = ScenarioActorTracks(state.road)
    parked, far, other = actor("s1"), actor("s2", y=-30.0), actor("b1", role="background")
    for k in range(4):
        walker = actor("s3", kind=ActorKind.PEDESTRIAN, x=30.0, y=-6.0 + 2.0 * k)
        seen = (parked, far, other, walker)
        tracks.add(replace(state.truth, time_s=1.0 * k, actors=seen))
        tracks.add(replace(state.truth, time_s=k + 0.5, actors=(actor("s1", x=99.0),)))  # between two samples
    s, _ = state.road.path.locate(45.0, 0.0)
    at, _ = state.road.path.locate(30.0, 0.0)
    assert tracks.found == [
        ScenarioActorTrack(kind="pedestrian", low=at, high=at, d=0.0, moves=True),
        ScenarioActorTrack(kind="car", low=s, high=s, d=0.0, moves=False),
    ]
