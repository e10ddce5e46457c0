"""A straight road and synthetic ticks on it, for tests of the referee."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.profiles import Profile, profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import Actor, ActorKind, EgoContact, EndReason, GroundTruth, StopLine
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.scoring.referee.referee import Referee, RefereeOutcome

DT = 0.05
B2D = profile("bench2drive")
EGO = Actor(
    id="ego", kind=ActorKind.CAR, x=0.0, y=0.0, yaw=0.0, speed=10.0, length=4.0, width=1.8, height=1.5, role="ego"
)
OTHER = replace(EGO, id="7", role="scenario")


def road(length: float = 100.0, **more: Any) -> RoadMap:
    """East along y = 0, lane 3.5 m, limit 10 m/s."""
    path = RoutePath([(0.0, 0.0), (length, 0.0)])
    return RoadMap(Path("x.xodr"), "corridor", "Town12", "0" * 64, path, (), **{"speed_limit": 10.0, **more})


def route(length: float = 100.0) -> Route:
    return Route("1", "Town12", ((0.0, 0.0), (length, 0.0)), "ParkingCutIn", "ParkingCutIn_1", (20.0, 0.0, 0.0))


def referee(lines: Sequence[StopLine] = (), rules: Profile = B2D, length: float = 100.0, **more: Any) -> Referee:
    return Referee(rules, road(length, stop_lines=tuple(lines), **more), route(length))


def at(tick: int, x: float, y: float = 0.0, speed: float = 10.0, **more: Any) -> GroundTruth:
    """Ground truth with the ego at (x, y); `more`: fields of GroundTruth."""
    return GroundTruth(tick, tick * DT, replace(EGO, x=x, y=y, speed=speed), **more)


def ride(judge: Referee, xs: Iterable[float], first: int = 0, **more: Any) -> EndReason | None:
    """One tick for each x; the speed is the difference quotient (10 m/s at the first tick)."""
    end, before = None, None
    for tick, x in enumerate(xs, first):
        speed = 10.0 if before is None else (x - before) / DT
        end, before = judge.tick(at(tick, x, **{"speed": speed, **more})), x
    return end


def steps(start: float, stop: float, step: float = 0.5) -> list[float]:
    """Both ends included; at 20 Hz half a metre is 10 m/s."""
    n = round((stop - start) / step)
    return [start + (stop - start) * i / n for i in range(n + 1)]


def touch(kind: ActorKind = ActorKind.CAR, name: str = "7") -> EgoContact:
    return EgoContact(name, kind, 12.0, 1.0, 500.0)


def lists(outcome: RefereeOutcome) -> dict[str, list[str]]:
    """The non-empty lists of infractions, without minimum speed."""
    return {k: v for k, v in outcome.infractions.items() if v and k != "min_speed_infractions"}
