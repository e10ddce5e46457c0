"""A small collection of frames whose picture tells what the expert does: red means braking, green accelerating."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from closedloop_plugin.learn.made_routes import made_routes, write_routes

ACTIONS = {"red": "Brake and go straight.", "green": "Accelerate and turn left."}
COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30)}
TRAJECTORY = "[(1.02, 0.00), (2.50, -0.12), (4.00, 0.00), (6.00, 0.10), (8.25, 0.00), (10.00, 0.00)]"
SIZE = (64, 36)
AHEAD = {
    "id": "1", "kind": "car", "lane": "own", "forward": 8.0, "left": 0.0, "speed": 0.0, "shown": True, "pixels": 288,
    "box": [24, 9, 40, 27],
}  # fmt: skip


def collect(folder: Path, colours: Sequence[str], episode: str = "m0-000001_rep0") -> Path:
    """A collected folder with one episode, one frame for each of `colours`, and the routes m0-000000 and m0-000001."""
    here = folder / "frames" / episode
    here.mkdir(parents=True)
    for tick, colour in enumerate(colours):
        Image.new("RGB", SIZE, COLOURS[colour]).save(here / f"front_{tick:05d}.jpg")
    lines = [json.dumps(frame(tick, colour, episode)) for tick, colour in enumerate(colours)]
    write_routes(folder / "routes.xml", made_routes(2, 0, types=["ParkedObstacle"]))
    (here / "frames.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


def frame(tick: int, colour: str, episode: str = "m0-000001_rep0") -> dict[str, Any]:
    """The keys of a collected frame that training rows need."""
    return {
        "id": f"{episode}/{tick}", "image": f"front_{tick:05d}.jpg", "tick": tick, "time_s": 0.5 * tick,
        "speed": 4.9 + tick // 2 / 5,  # of two neighbours the same, so that only the picture tells what to do
        "speed_limit": 13.889, "command": "lane follow", "target": [12.3, 0.8],
        "label": {
            "action": ACTIONS[colour], "trajectory": TRAJECTORY,
            "reason": {"kind": "vehicle_ahead", "actor": "1"} if colour == "red" else {"kind": "clear", "actor": None},
        },
        "objects": [AHEAD] if colour == "red" else [], "signals": [],
    }  # fmt: skip
