"""A hand-made collected folder: frames as JSON rows, and small pictures beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from closedloop_plugin.learn.questions.frame_reader import CollectedFrameReader
from closedloop_plugin.learn.questions.kinds import FrameQuestions
from closedloop_plugin.learn.questions.seen_frame import SeenFrame

SIZE = (160, 90)
ACTOR = {
    "id": "1", "kind": "car", "forward": 20.0, "left": 0.0, "yaw": 0.0, "speed": 5.0, "length": 4.0, "width": 2.0,
    "height": 1.5, "lamps": [], "doors": [], "colour": [200, 30, 30], "box": [70, 40, 90, 55], "pixels": 250,
    "visible": 1.0, "lane": "own",
    "future": [[22.5, 0.0], [25.0, 0.0], [27.5, 0.0], [30.0, 0.0], [32.5, 0.0], [35.0, 0.0]],
}  # fmt: skip
SIGNAL = {
    "id": "s1", "control": "signal", "state": "red", "on_route": True, "forward": 18.0, "left": 0.0, "distance": 17.6,
    "box": [78, 20, 84, 32], "pixels": 60, "visible": 1.0, "state_pixels": 6,
}  # fmt: skip
LABEL = {
    "acceleration": 0.0, "top": 8.0, "offset": 0.0, "action": "Keep the speed and go straight.",
    "trajectory": "[(3.00, 0.00)]", "control": {"steer": 0.0, "throttle": 0.3, "brake": 0.0},
    "reason": {"kind": "clear", "actor": None},
}  # fmt: skip
WEATHER = {"cloudiness": 5.0, "precipitation": 0.0, "wetness": 0.0, "sun_altitude_angle": 45.0, "fog_density": 2.0}
UNSEEN = {"box": None, "pixels": 0, "visible": 0.0}


def actor(id: str = "1", **changes: Any) -> dict[str, Any]:
    return {**ACTOR, "id": id, **changes}


def signal(id: str = "s1", **changes: Any) -> dict[str, Any]:
    return {**SIGNAL, "id": id, **changes}


def frame_row(
    *objects: Mapping[str, Any], tick: int = 10, drive: str = "m0-000001_rep0", signals: Sequence[Any] = (),
    label: Mapping[str, Any] | None = None, reason: str = "clear", of: str | None = None, **changes: Any,
) -> dict[str, Any]:  # fmt: skip
    """A row of a frames file. `reason`, `of`: the expert's reason and the id of its actor. The car does not move."""
    told = {**LABEL, "reason": {"kind": reason, "actor": of}, **(label or {})}
    return {
        "id": f"{drive}/{tick}", "image": f"front_{tick:05d}.jpg", "route": drive.partition("_")[0],
        "scenario": "ParkingCutIn", "tick": tick, "time_s": tick / 20, "speed": 6.2, "speed_limit": 8.3,
        "command": "lane follow", "target": [10.0, 0.0], "route_offset": 0.0, "disturbed": False, "label": told,
        "future": [[0.0, 0.0]] * 6, "objects": list(objects), "signals": list(signals), "weather": WEATHER,
        "light": {"night": 0.0, "fog": 0.0}, **changes,
    }  # fmt: skip


def seen(row: Mapping[str, Any]) -> SeenFrame:
    return CollectedFrameReader("frames.jsonl", f"frames/{row['id'].rpartition('/')[0]}", SIZE).frame(row, 1)


def asker(
    *objects: Mapping[str, Any], seed: int = 0, stays_free: bool | None = None, **changes: Any
) -> FrameQuestions:  # fmt: skip
    return FrameQuestions(replace(seen(frame_row(*objects, **changes)), stays_free=stays_free), seed)


def write_collection(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A collected folder with these frames, in the given order within each drive."""
    drives: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        drives.setdefault(row["id"].rpartition("/")[0], []).append(row)
    for drive, its_rows in drives.items():
        below = folder / "frames" / drive
        below.mkdir(parents=True)
        (below / "frames.jsonl").write_text("".join(json.dumps(row) + "\n" for row in its_rows))
        for row in its_rows:
            Image.new("RGB", SIZE, (90, 90, 90)).save(below / row["image"], "JPEG")
    return folder


def example_rows() -> list[dict[str, Any]]:
    """Sixteen frames of four drives in which every task has questions with more than one answer."""
    rows = []
    person = {"length": 0.5, "width": 0.5, "speed": 1.4, "lane": "off"}
    for number in range(4):
        drive = f"m0-00000{number}_rep0"
        side = 1 if number % 2 else -1  # of the person: left, right
        crossing = [[12.0, side * (5.0 - k)] for k in range(1, 7)]
        walker = actor(
            "p", kind="pedestrian", forward=12.0, left=side * 5.0, future=crossing, pixels=80,
            box=[20, 40, 26, 60] if side > 0 else [130, 40, 136, 60], yaw=side * -1.57, **person,
        )  # fmt: skip
        braking = {"acceleration": -3.0, "action": "Brake and go straight."}
        going = {"acceleration": 2.0, "action": "Accelerate gently and go straight."}
        changing = {"acceleration": 0.0, "action": "Keep the speed and change lane to the left."}
        slowing = [[24.0, 0.0], [26.0, 0.0], [27.0, 0.0], [27.5, 0.0], [27.6, 0.0], [27.6, 0.0]]
        lead = actor("c", kind="truck" if number % 2 else "car", forward=22.0, future=slowing, box=[66, 34, 92, 55])
        steady = actor("d", kind="car", left=3.5, forward=34.0, lane="left", box=[48, 42, 58, 50], pixels=60,
                       future=[[34.0 + 2.5 * k, 3.5] for k in range(1, 7)])  # fmt: skip
        light = signal(state="red" if number % 2 else "green")
        rows += [
            frame_row(walker, tick=10, drive=drive, reason="actor", of="p", label=braking),
            frame_row(lead, walker, tick=20, drive=drive, reason="vehicle_ahead", of="c", label=braking),
            frame_row(steady, tick=30, drive=drive, signals=[light], label=going),
            frame_row(lead, steady, tick=40, drive=drive, reason="passing", of="c", label=changing,
                      weather={**WEATHER, "precipitation": 80.0} if number % 2 else WEATHER),
        ]  # fmt: skip
    return rows
