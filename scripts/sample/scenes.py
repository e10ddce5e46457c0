"""The scenes of the sample: 21 in adverse weather, 12 with unusual objects, 4 with six cameras."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scripts.sample.scene import LANE, Scene, Thing

ONCOMING = -LANE  # x of the middle of the oncoming lane


def street(
    id: str, weather: Any, severity: Any, setting: Any = "city", *things: Thing | Sequence[Thing], **more: Any
) -> Scene:
    """A scene with its signs and lights (x = 99) placed beside the road, for any road width."""
    flat = [t for item in things for t in ([item] if isinstance(item, Thing) else item)]
    scene = Scene(id, weather, severity, setting, (), **more)
    right = scene.road[1]
    placed = [replace(t, x=right + 0.9 + (t.x - 99)) if t.x >= 90 else t for t in flat]
    if scene.light:
        at = (scene.crossing or 18.0) + 1.5
        placed.append(Thing("light", "traffic_light", right + 0.9, at, state=scene.light))
    return replace(scene, things=tuple(placed))


def lead(kind: str, color: str, z: float = 13.0, state: str = "braking", plate: str = "") -> Thing:
    """The vehicle ahead in the ego lane."""
    return Thing("lead", kind, 0.1, z, 0, color, state, plate)


def oncoming(kind: str, color: str, z: float, number: int = 1) -> Thing:
    return Thing(f"oncoming_{number}", kind, ONCOMING, z, 180, color, "moving")


def parked(kind: str, color: str, z: float, number: int = 1) -> Thing:
    """At the right kerb of a city street with one lane each way."""
    return Thing(f"parked_{number}", kind, 3.05, z, 0, color, "parked")


def walker(color: str, x: float, z: float, state: str = "crossing", number: int = 1, heading: float = 90) -> Thing:
    return Thing(f"walker_{number}", "pedestrian", x, z, heading, color, state)


def worker(number: int, x: float, z: float) -> Thing:
    """A road worker; those of even numbers face left."""
    return Thing(f"worker_{number}", "worker", x, z, 90 if number % 2 else 270, "yellow", "working")


def beside(kind: str, color: str, x: float, z: float, key: str) -> Thing:
    """A vehicle in another lane of a motorway, in the direction of the ego car."""
    return Thing(key, kind, x, z, 0, color, "moving")


def child(color: str, x: float, z: float, state: str = "crossing") -> Thing:
    return Thing("child", "child", x, z, 90, color, state)


def cyclist(color: str, x: float = 1.35, z: float = 10.0, heading: float = 0) -> Thing:
    return Thing("cyclist", "cyclist", x, z, heading, color, "crossing" if heading in (90, 270) else "moving")


def speed(limit: int, z: float = 15.0) -> Thing:
    return Thing("speed", "speed_sign", 99, z, text=str(limit))


def panel(text: str, z: float = 24.0, color: str = "blue") -> Thing:
    return Thing("panel", "direction_sign", 102.0, z, color=color, text=text)


def works(x: float, z: float, cones: int = 4, workers: int = 2, sign_z: float = 7.5) -> list[Thing]:
    """Road works that close the right edge: a slanting row of cones, a barrier, workers behind it."""
    row = [Thing(f"cone_{k + 1}", "traffic_cone", x - 0.4 * k, z + 2.4 * k) for k in range(cones)]
    end = z + 2.4 * cones
    crew = [
        Thing(f"worker_{k + 1}", "worker", x + 0.5 + 1.3 * k, end + 1.6, 90 if k else 270, "yellow", "working")
        for k in range(workers)
    ]
    gate = Thing("barrier", "barrier", x + 0.6, end - 1.2)
    return [*row, gate, *crew, Thing("works_sign", "warning_sign", 99, sign_z, text="works")]


def ad2_scenes() -> list[Scene]:
    """Two or more scenes for each of AD2-Bench's seven weathers."""
    return [
        street(
            "rain_crossing",
            "rainy",
            "severe",
            "city",
            lead("car", "red", 12.5, plate="AD2 317"),
            oncoming("car", "white", 27),
            walker("green", -1.9, 19),
            child("yellow", -2.65, 19),
            parked("van", "silver", 27),
            speed(30),
            crossing=19.0,
            light="red",
        ),
        street(
            "rain_cyclist",
            "rainy",
            "light",
            "suburb",
            cyclist("orange", 1.2, 9.5),
            oncoming("truck", "blue", 24),
            Thing("stop", "stop_sign", 99, 17, text="STOP"),
            panel("HARBOUR 4/AIRPORT 9", 14),
        ),
        street(
            "snow_parked",
            "snowy",
            "moderate",
            "city",
            parked("car", "blue", 15.0),
            parked("van", "white", 25, 2),
            walker("red", 2.35, 19.6, "crossing", heading=270),
            oncoming("car", "black", 22),
            speed(20, 13),
            lead("car", "silver", 24, "moving"),
        ),
        street(
            "snow_motorway",
            "snowy",
            "severe",
            "highway",
            lead("truck", "green", 17, "moving"),
            Thing("right_1", "car", 3.6, 11.5, 0, "red", "moving"),
            panel("NORTH BAY 12", 26, "green"),
            right_lanes=1,
        ),
        street(
            "fog_crossing",
            "fog",
            "moderate",
            "city",
            walker("blue", -0.6, 14),
            oncoming("car", "yellow", 19),
            parked("car", "white", 12.5),
            cyclist("green", -3.4, 15.4, 180),
            speed(30, 11),
            crossing=14.0,
            light="green",
        ),
        street(
            "fog_works",
            "fog",
            "severe",
            "highway",
            works(5.2, 9.5, 4, 2, 13.5),
            lead("van", "orange", 12.5),
            speed(60, 20),
            right_lanes=1,
        ),
        street(
            "night_junction",
            "night",
            "moderate",
            "city",
            lead("car", "silver", 12, plate="N 42 KLM"),
            oncoming("bus", "red", 25),
            cyclist("yellow", 2.1, 8.2),
            walker("white", -6.3, 15, "waiting", heading=90),
            crossing=18.0,
            light="yellow",
        ),
        street(
            "night_walker",
            "night",
            "severe",
            "suburb",
            walker("black", 0.95, 12.5, "crossing", heading=270),
            oncoming("car", "white", 21),
            oncoming("car", "blue", 34, 2),
            speed(50, 14),
        ),
        street(
            "sand_convoy",
            "sand",
            "moderate",
            "highway",
            lead("truck", "yellow", 16, "moving"),
            Thing("right_1", "van", 3.6, 12.5, 0, "white", "moving"),
            panel("OASIS 27", 19, "green"),
            right_lanes=1,
        ),
        street("sand_works", "sand", "severe", "suburb", works(1.7, 9.0, 4, 2), oncoming("car", "blue", 14)),
        street(
            "overcast_school",
            "overcast",
            "light",
            "city",
            walker("red", -2.0, 15.5),
            child("blue", -2.75, 15.5),
            parked("bus", "orange", 24),
            oncoming("car", "green", 30),
            Thing("care", "warning_sign", 99, 12, text="!"),
            crossing=15.5,
        ),
        street(
            "overcast_works",
            "overcast",
            "moderate",
            "suburb",
            works(1.8, 10.0, 5, 2),
            oncoming("van", "white", 20),
            lead("car", "black", 28, "moving"),
            speed(30, 13),
        ),
        street(
            "dawn_street",
            "dawn",
            "light",
            "city",
            lead("car", "white", 11, "moving", plate="DAW 808"),
            parked("car", "red", 15),
            parked("car", "green", 22, 2),
            walker("blue", 6.0, 12, "waiting"),
            oncoming("car", "black", 24),
            speed(40, 17),
        ),
        street(
            "dawn_motorway",
            "dawn",
            "moderate",
            "highway",
            lead("van", "blue", 15, "moving"),
            Thing("right_1", "truck", 3.6, 21, 0, "white", "moving"),
            Thing("left_1", "car", -3.4, 10.5, 0, "red", "moving"),
            panel("CITY CENTRE 2/STADIUM 5", 25),
            right_lanes=1,
        ),
        *_busy_scenes(),
    ]


def _busy_scenes() -> list[Scene]:
    """Scenes with many cars, people or cones, pairs of people, and Chinese signs."""
    return [
        street(
            "rain_jam",
            "rainy",
            "moderate",
            "highway",
            lead("car", "black", 14),
            beside("car", "red", -3.4, 11, "left_1"),
            beside("car", "yellow", -3.5, 23, "left_2"),
            beside("car", "white", -7.0, 14, "left_3"),
            beside("car", "green", 3.6, 12, "right_1"),
            beside("car", "blue", 3.6, 24, "right_2"),
            Thing("panel", "direction_sign", 100.6, 16, color="green", text="出口 2/大田 12"),
            right_lanes=1,
        ),
        street(
            "snow_school",
            "snowy",
            "light",
            "city",
            walker("red", -1.4, 14),
            child("blue", -2.2, 14),
            walker("green", 5.4, 13, "waiting", 2),
            walker("yellow", 6.6, 14.5, "waiting", 3),
            parked("car", "white", 20),
            oncoming("car", "black", 25),
            crossing=14.0,
        ),
        street(
            "fog_crowd",
            "fog",
            "light",
            "city",
            walker("blue", -3.2, 13.4),
            walker("white", -1.9, 13, number=2, heading=270),
            walker("red", -0.4, 13.6, number=3),
            walker("green", 0.9, 12.8, number=4, heading=270),
            walker("orange", 2.2, 13.3, number=5),
            parked("car", "silver", 20),
            Thing("panel", "direction_sign", 100.2, 12, color="blue", text="中山 3"),
            crossing=13.0,
            light="red",
        ),
        street(
            "night_family",
            "night",
            "light",
            "city",
            walker("white", -1.5, 14),
            child("yellow", -0.8, 14),
            walker("red", 5.6, 12, "waiting", 2),
            oncoming("car", "silver", 24),
            parked("van", "white", 21),
            crossing=14.0,
            light="red",
        ),
        street(
            "night_works",
            "night",
            "moderate",
            "suburb",
            works(2.5, 7.5, 6, 0, 6.5),
            worker(1, 4.4, 12.5),
            worker(2, 5.5, 12.9),
            oncoming("car", "white", 19),
            speed(30, 17),
        ),
        street(
            "night_jam",
            "night",
            "light",
            "highway",
            lead("car", "red", 12),
            beside("car", "blue", -3.4, 13, "left_1"),
            beside("car", "silver", -7.0, 17, "left_2"),
            beside("car", "white", 3.6, 10.5, "right_1"),
            beside("car", "yellow", 3.6, 21, "right_2"),
            Thing("panel", "direction_sign", 100.6, 16, color="blue", text="北山 6"),
            right_lanes=1,
        ),
        street(
            "overcast_market",
            "overcast",
            "light",
            "city",
            walker("red", -6.6, 12, "waiting"),
            walker("blue", -6.2, 16, "walking", 2),
            walker("white", -7.2, 14.5, "walking", 3, heading=270),
            walker("yellow", 5.3, 11.5, "walking", 4),
            walker("green", 5.2, 15.5, "waiting", 5),
            walker("black", 6.9, 13.5, "walking", 6, heading=270),
            lead("bus", "orange", 24, "moving"),
            oncoming("van", "silver", 19),
        ),
    ]


def coda_scenes() -> list[Scene]:
    """Corner cases as in CODA-LM: unusual objects on a road, together with common ones."""
    dog = Thing("dog", "dog", 0.9, 10.5, 270, state="crossing")
    box = Thing("carton", "carton", 0.3, 9.5, state="lying")
    return [
        street("0001", "clear", "light", "suburb", dog, oncoming("car", "red", 20), speed(30, 14)),
        street(
            "0002",
            "clear",
            "light",
            "city",
            box,
            lead("car", "silver", 22, "moving"),
            parked("car", "blue", 14),
            walker("green", 6.0, 13, "waiting"),
        ),
        street(
            "0003",
            "overcast",
            "light",
            "city",
            walker("red", -1.0, 14),
            child("yellow", -1.75, 14),
            lead("bus", "blue", 30, "moving"),
            crossing=14.0,
            light="green",
        ),
        street("0004", "clear", "light", "suburb", works(1.7, 9.5, 4, 1), oncoming("truck", "green", 22)),
        street(
            "0005",
            "rainy",
            "moderate",
            "city",
            cyclist("orange", 1.4, 9),
            parked("van", "white", 15),
            oncoming("car", "yellow", 24),
            speed(40, 18),
        ),
        street(
            "0006",
            "clear",
            "light",
            "highway",
            box,
            Thing("right_1", "truck", 3.6, 17, 0, "red", "moving"),
            panel("RIVER ROAD 3", 13),
            right_lanes=1,
        ),
        street(
            "0007",
            "night",
            "moderate",
            "city",
            cyclist("green", -0.6, 11.5, 90),
            oncoming("car", "silver", 22),
            parked("car", "red", 15),
            crossing=16.0,
            light="red",
        ),
        street(
            "0008",
            "clear",
            "light",
            "city",
            parked("car", "black", 13),
            walker("yellow", 2.3, 17.0, "crossing", heading=270),
            oncoming("van", "blue", 22),
            speed(20, 10),
        ),
        street(
            "0009",
            "overcast",
            "moderate",
            "suburb",
            Thing("stop", "stop_sign", 99, 12, text="STOP"),
            lead("truck", "orange", 15),
            oncoming("car", "white", 24),
        ),
        street(
            "0010",
            "fog",
            "light",
            "suburb",
            dog,
            cyclist("red", -3.5, 17, 180),
            Thing("care", "warning_sign", 99, 13, text="!"),
        ),
        street(
            "0011",
            "snowy",
            "light",
            "city",
            lead("van", "green", 13),
            parked("car", "red", 14),
            walker("blue", -1.8, 19),
            crossing=19.0,
            light="red",
        ),
        street(
            "0012",
            "dawn",
            "light",
            "highway",
            works(5.2, 10, 4, 2, 14),
            lead("car", "blue", 18, "moving"),
            Thing("left_1", "bus", -3.4, 24, 0, "white", "moving"),
            right_lanes=1,
        ),
    ]


def six_view_scenes() -> list[Scene]:
    """Scenes with objects on every side."""

    def around(kind: str, color: str, x: float, z: float, heading: float, state: str, key: str) -> Thing:
        return Thing(key, kind, x, z, heading, color, state)

    return [
        street(
            "six_1",
            "clear",
            "light",
            "city",
            lead("car", "red", 14),
            walker("green", -2.2, 20),
            oncoming("van", "white", 31),
            around("bus", "orange", 0.0, -16, 0, "moving", "behind"),
            around("car", "blue", 3.05, 5.2, 0, "parked", "beside_right"),
            around("cyclist", "yellow", -3.4, 5.0, 180, "moving", "beside_left"),
            crossing=20.0,
            light="red",
        ),
        street(
            "six_2",
            "rainy",
            "moderate",
            "suburb",
            lead("truck", "blue", 17, "moving"),
            around("car", "white", -3.5, 6.0, 180, "moving", "beside_left"),
            around("car", "black", 0.2, -11, 0, "moving", "behind"),
            around("pedestrian", "red", 4.6, 4.6, 0, "waiting", "beside_right"),
        ),
        street(
            "six_3",
            "overcast",
            "light",
            "highway",
            lead("van", "silver", 15),
            around("van", "green", 3.6, 4.2, 0, "moving", "beside_right"),
            around("car", "yellow", -3.4, -6.5, 0, "moving", "beside_left"),
            around("van", "white", 0.1, -18, 0, "moving", "behind"),
            right_lanes=1,
        ),
        street(
            "six_4",
            "dawn",
            "light",
            "city",
            lead("car", "black", 12, "moving"),
            cyclist("orange", 1.9, 17),
            around("car", "green", 3.05, -6.0, 0, "parked", "beside_right"),
            around("van", "white", -3.5, 6.5, 180, "moving", "beside_left"),
            around("truck", "red", 0.0, -20, 0, "moving", "behind"),
            speed(30, 13),
        ),
    ]
