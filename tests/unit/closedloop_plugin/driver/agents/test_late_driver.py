"""LateDriver: what it sees, and when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from closedloop_plugin.core.state import Actor, ActorKind, GroundTruth, SignalState, VehicleStream
from closedloop_plugin.driver.agents.late_driver import DELAY_S, LateDriver, in_sight, perceived
from closedloop_plugin.driver.agents.make import make_agent


def body(name: str, x: float, y: float, kind: ActorKind = ActorKind.CAR, height: float = 1.5) -> Actor:
    size = (0.5, 0.5) if kind is ActorKind.PEDESTRIAN else (4.6, 1.9)
    return Actor(id=name, kind=kind, x=x, y=y, yaw=0.0, speed=0.0, length=size[0], width=size[1], height=height)


EGO = body("ego", 0.0, 0.0)


def seen(*actors: Actor) -> list[str]:
    return [a.id for a in in_sight(EGO, actors)]


def test_sees_ahead_and_near_only() -> None:
    others = [body("ahead", 20, 0), body("behind", -8, 0), body("beside", -3, 3.5), body("far", 41, 0)]
    assert seen(*others) == ["ahead"]
    assert seen(body("in the left half", 10, 12)) == ["in the left half"]


def test_a_pedestrian_behind_a_van_is_seen_when_it_leaves_its_shadow() -> None:
    van = body("van", 15, -3.5, ActorKind.VAN, height=2.2)
    hidden = body("p", 19, -3.6, ActorKind.PEDESTRIAN, height=1.75)
    assert seen(van, hidden) == ["van"]
    stepped_out = body("p", 19, -1.5, ActorKind.PEDESTRIAN, height=1.75)
    assert seen(van, stepped_out) == ["van", "p"]


def test_lower_bodies_hide_only_what_is_no_higher() -> None:
    """Hand-worked: the line of sight to a pedestrian right behind a car crosses the car's box from end to end."""
    car = body("car", 12, 0)
    adult = body("adult", 18, 0, ActorKind.PEDESTRIAN, height=1.75)
    child = body("child", 18, 0, ActorKind.PEDESTRIAN, height=1.2)
    assert seen(car, adult) == ["car", "adult"]
    assert seen(car, child) == ["car"]


def test_a_corner_that_shows_is_enough() -> None:
    assert seen(body("near", 12, 0), body("half hidden", 20, 1.8)) == ["near", "half hidden"]
    assert seen(body("near", 12, 0), body("hidden", 20, 0)) == ["near"]


def test_the_view_turns_with_the_ego() -> None:
    turned = Actor(id="ego", kind=ActorKind.CAR, x=0, y=0, yaw=3.14159, speed=0, length=4.6, width=1.9, height=1.5)
    assert [a.id for a in in_sight(turned, [body("a", -20, 0), body("b", 20, 0)])] == ["a"]


def truth(time_s: float, x: float) -> GroundTruth:
    return GroundTruth(
        tick=round(time_s * 10), time_s=time_s, ego=EGO, actors=(body("a", x, 0),), signals={"1": SignalState.RED}
    )


def test_actors_and_signals_are_late_and_the_ego_is_not() -> None:
    now = GroundTruth(tick=9, time_s=0.9, ego=body("ego", 5, 0), signals={"1": SignalState.GREEN})
    found = perceived(now, truth(0.0, 30.0))
    assert (found.ego.x, found.actors[0].x, found.signals["1"]) == (5, 30.0, SignalState.RED)


def test_it_does_not_know_the_vehicles_of_a_stream_that_are_out_of_sight() -> None:
    stream = VehicleStream(
        name="s", points=((0.0, 0.0), (90.0, 0.0)), speed=8.0, cars=(10.0,), coming=(-20.0,), source=0.0, sink=90.0,
        until_s=50.0,
    )  # fmt: skip
    now = replace(truth(0.9, 30.0), streams=(stream,))
    assert perceived(now, now).streams == ()


def test_the_delay_is_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[GroundTruth] = []
    monkeypatch.setattr(
        "closedloop_plugin.driver.agents.expert.ExpertDriver._plan", lambda self, t, road, e: planned.append(t)
    )
    driver = LateDriver()
    driver.start("e", 0)
    for k in range(20):
        driver._plan(truth(k / 10, 30.0 - k), None, "e")  # type: ignore[arg-type]
    xs = [t.actors[0].x for t in planned]
    late = round(DELAY_S * 10)
    assert xs[: late + 1] == [30.0] * (late + 1), "the scene of its first decision until the delay has passed"
    assert xs[late:] == [30.0 - k for k in range(20 - late)]
    driver.end("e")
    driver.start("e", 0)
    driver._plan(truth(0.0, 7.0), None, "e")  # type: ignore[arg-type]
    assert planned[-1].actors[0].x == 7.0, "nothing is kept from the episode before"


def test_it_is_made_by_name_and_marked_privileged() -> None:
    driver = make_agent("late")
    assert driver.privileged and driver.describe() == {"name": "late (privileged)", "privileged": True}
