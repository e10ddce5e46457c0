"""What a driver with one camera knows of a scene, and what the expert says then."""

from __future__ import annotations

from dataclasses import replace

from support.closedloop.models import observation, privileged

from closedloop_plugin.core.state import Actor, ActorKind, GroundTruth, VehicleStream
from closedloop_plugin.core.visibility import VisibleExtent
from closedloop_plugin.learn.expert_labels import ExpertLabels, KnownTruth
from closedloop_plugin.maps.base import RoadMap

SHOWN = VisibleExtent(box=(10, 10, 20, 20), pixels=60, share=1.0)


def _car(name: str, x: float, y: float = 0.0, speed: float = 0.0) -> Actor:
    return Actor(id=name, kind=ActorKind.CAR, x=x, y=y, yaw=0.0, speed=speed, length=4.5, width=1.9, height=1.5)


def _scene(*actors: Actor, time_s: float = 0.0, speed: float = 0.0) -> tuple[GroundTruth, RoadMap]:
    """The ego at x = 20 m of a straight road to the east."""
    request = privileged()
    assert request.truth is not None and request.road is not None
    ego = replace(request.truth.ego, x=20.0, y=0.0, yaw=0.0, speed=speed)
    return replace(request.truth, ego=ego, actors=actors, time_s=time_s), request.road


def names(truth: GroundTruth) -> list[str]:
    return [actor.id for actor in truth.actors]


def test_moving_cars_are_known_while_they_are_shown_and_three_seconds_longer() -> None:
    known = KnownTruth(two_ways=False)
    seen, parked, behind = _car("seen", 40.0, speed=5.0), _car("parked", 5.0), _car("behind", 5.0, 3.5, speed=5.0)
    shown = []
    for time_s, visible in ((0.0, {"seen": SHOWN}), (2.5, {}), (3.5, {}), (4.0, {"seen": SHOWN, "behind": SHOWN})):
        truth, _ = _scene(seen, parked, behind, time_s=time_s)
        shown.append(names(known.of(truth, visible)))
    assert shown == [["seen", "parked"], ["seen", "parked"], ["parked"], ["seen", "parked", "behind"]]


def test_a_stream_is_known_by_a_car_of_it() -> None:
    cars = (_car("a", 60.0, 8.0, speed=8.0), _car("b", 40.0, 8.0, speed=8.0))
    stream = VehicleStream("flow", ((0.0, 8.0), (100.0, 8.0)), 8.0, (60.0, 40.0), (20.0,), 0.0, 100.0, 90.0)
    truth, _ = _scene(*cars)
    truth = replace(truth, streams=(stream,))
    assert KnownTruth(two_ways=False).of(truth, {}).streams == ()
    assert KnownTruth(two_ways=False).of(truth, {"a": SHOWN}).streams == (stream,)


def test_the_oncoming_lane_of_a_blocked_road_is_known_to_be_allowed() -> None:
    truth, _ = _scene()
    assert not KnownTruth(two_ways=False).of(truth, {}).oncoming_allowed
    assert KnownTruth(two_ways=True).of(truth, {}).oncoming_allowed


def test_a_parked_car_leaves_its_bay_unless_the_camera_shows_who_is_coming() -> None:
    """The expert waits for a car from behind, which the front camera does not show."""
    behind = _car("behind", 12.0, 0.0, speed=5.0)
    truth, road = _scene(behind)
    truth = replace(truth, ego=replace(truth.ego, y=-3.0))
    said = {}
    for name, given in (("all", truth), ("known", KnownTruth(two_ways=False).of(truth, {}))):
        said[name] = ExpertLabels(5.0).label(observation(speed=0.0), given, road)["action"]
    assert said["all"].startswith("Stop and")
    assert said["known"].startswith("Accelerate")
