"""A synthetic episode for tests of figures: a left turn, traffic, a pedestrian, infractions."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import (
    Actor,
    ActorKind,
    Control,
    DrivingSurface,
    EgoContact,
    EndReason,
    GroundTruth,
    SignalState,
    StopLine,
)
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.report.track_log import TrackLog
from closedloop_plugin.scoring.referee.referee import Referee

DT = 0.05
_ARC = [(60 + 20 * math.sin(a), 20 - 20 * math.cos(a)) for a in np.linspace(0, math.pi / 2, 25)]
PATH = RoutePath([(0, 0), *_ARC, (80, 70)])
LINES = (
    StopLine("west", 54.0, 0.0, 0.0, 3.5, "signal", True, 54.0),
    StopLine("south", 83.5, -14.0, math.pi / 2, 3.5, "signal"),
    StopLine("north", 80.0, 40.0, math.pi / 2, 3.5, "stop", True, 108.0),
)
EGO = Actor(id="ego", kind=ActorKind.CAR, x=0, y=0, yaw=0, speed=0, length=4.6, width=1.9, height=1.5, role="ego")


def road() -> RoadMap:
    return RoadMap(Path("none.xodr"), "corridor", "Town05", "ab" * 32, PATH, (), ((56.0, 92.0),), (), LINES)


def truth(tick: int, extra: int = 0) -> GroundTruth:
    """The ego accelerates, runs the red light, enters the other lane, touches a walker; `extra` background vehicles."""
    s = min(0.02 * tick + 0.0006 * tick**2, PATH.length)
    speed = 0.4 + 0.024 * tick
    d = 3.2 * math.exp(-(((s - 35) / 7) ** 2))
    x, y, yaw = PATH.pose(s, d)
    ego = replace(EGO, x=x, y=y, yaw=yaw, speed=speed)
    lead = PATH.pose(s + 25, -3.6)
    walker = (80 + 0.03 * (tick - 430), 52.0)
    actors = [
        Actor(
            id="lead",
            kind=ActorKind.TRUCK,
            x=lead[0],
            y=lead[1],
            yaw=lead[2],
            speed=speed,
            length=7.5,
            width=2.4,
            height=3.2,
            role="background",
        ),
        Actor(
            id="walker",
            kind=ActorKind.PEDESTRIAN,
            x=walker[0],
            y=walker[1],
            yaw=0.0,
            speed=1.4,
            length=0.5,
            width=0.5,
            height=1.8,
        ),
        Actor(id="cone", kind=ActorKind.CONE, x=34.0, y=-0.5, yaw=0.0, speed=0.0, length=0.4, width=0.4, height=0.8),
        Actor(
            id="oncoming",
            kind=ActorKind.CAR,
            x=120.0 - 0.4 * tick,
            y=3.5,
            yaw=math.pi,
            speed=8.0,
            length=4.5,
            width=1.9,
            height=1.5,
        ),
    ]
    for i in range(extra):
        actors.append(replace(EGO, id=f"b{i}", x=x + 3 * i % 100, y=20 + i + 0.01 * tick, role="background"))
    close = math.dist(walker, (x, y)) < 2.5
    return GroundTruth(
        tick,
        tick * DT,
        ego,
        tuple(actors),
        {
            "west": SignalState.RED if tick < 300 else SignalState.GREEN,
            "south": SignalState.GREEN if tick < 280 else SignalState.RED,
        },
        (EgoContact("walker", ActorKind.PEDESTRIAN, *walker, 90.0),) if close else (),
        DrivingSurface.ONCOMING if d > 1.75 else DrivingSurface.LANE,
        False,
        ((4.0, "trigger"),) if tick >= 80 else (),
    )


def model_answer(tick: int) -> dict[str, Any]:
    answer = f"The light ahead is red at tick {tick}, but nobody is crossing. Slow down a little and keep to the lane."
    return {"texts": {"action": answer}, "raw": '{"throttle": 0.3, "steer": 0.0, "brake": 0.0}', "mode": "cng"}


def ride(ticks: int = 480, extra: int = 0, every_s: float = 0.5) -> tuple[TrackLog, EpisodeRecord, list[GroundTruth]]:
    """(track log, episode record, ground truth of each tick)."""
    log, referee, seen = TrackLog(every_s), Referee(profile("bench2drive"), road(), None), []
    for tick in range(ticks):
        seen.append(truth(tick, extra))
        log.add(seen[-1], Control(0.01 * (tick % 20), 0.5, 0.0), model_answer(tick) if tick % 10 == 0 else None)
        if referee.tick(seen[-1]) is not None:
            break
    return log, record(referee), seen


def record(referee: Referee) -> EpisodeRecord:
    out = referee.outcome()
    return EpisodeRecord(
        "demo",
        "17",
        0,
        1,
        "PedestrianCrossing",
        "PedestrianCrossing_1",
        "Town05",
        str(out.end or EndReason.TICK_LIMIT),
        out.status or "Failed - TickRuntime",
        out.infractions,
        out.score_route,
        out.score_penalty,
        out.score_composed,
        PATH.length,
        20.0,
        3.0,
        400,
        {"name": "made up"},
        None,
        "bench2drive",
        {"backend": "fake"},
        {},
        places=out.places,
    )


def picture(tick: int, width: int = 320, height: int = 180) -> np.ndarray:
    """Sky, ground and a stripe that moves with the tick."""
    image = np.full((height, width, 3), (150, 190, 230), np.uint8)
    image[height // 2 :] = (90, 92, 95)
    image[height // 2 :, tick % width : tick % width + 12] = (250, 240, 120)
    return image


def pixels(file: Path, colour: tuple[int, int, int], near: int = 12) -> int:
    """Number of pixels of a picture that differ from the colour by at most `near` in each channel."""
    image = np.asarray(Image.open(file).convert("RGB")).astype(int)
    return int((np.abs(image - colour).max(axis=2) <= near).sum())
