"""Whether the picture of a collected frame shows why the expert slows the car.

The expert knows all of the scene, a model only what the front camera shows. A car that comes from behind makes the
expert wait, the picture is that of a free road: from such frames a model learns to stand on free roads. What nobody
could see in the picture is therefore not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOVES_M_S = 0.5
LEAST_PIXELS = 6  # of an actor; fewer than for a question about it (`shown`), as a part of a car is a reason
FREE = frozenset({"clear", "speed_limit", "curve", "passing", "line_ahead"})  # no one is waited for


def reason_is_shown(frame: Mapping[str, Any]) -> bool:
    """False if the reason of the label is an actor, a signal or a sign that the picture does not show.

    A wait for a gap names no actor: then any moving object in the picture is a reason.
    """
    kind, actor = frame["label"]["reason"]["kind"], frame["label"]["reason"]["actor"]
    if kind in FREE:
        return True
    if kind in ("red_light", "stop_sign"):
        return any(_holds(signal, kind) for signal in frame["signals"])
    shown = [each for each in frame["objects"] if each["pixels"] >= LEAST_PIXELS]
    if actor is not None:
        return any(each["id"] == actor for each in shown)
    return kind != "yield" or any(each["speed"] > MOVES_M_S for each in shown)


def shown_kind(frame: Mapping[str, Any]) -> str:
    """The kind of the reason as the picture tells it: the way to a line is clear until its light or sign is seen."""
    kind = str(frame["label"]["reason"]["kind"])
    lines = (_holds(each, held) for each in frame["signals"] for held in ("red_light", "stop_sign"))
    return "clear" if kind == "line_ahead" and not any(lines) else kind


def _holds(signal: Mapping[str, Any], kind: str) -> bool:
    """Whether it is one of the route's that the picture shows; of a light, also its colour."""
    if not signal["on_route"] or (signal["control"] == "signal") != (kind == "red_light"):
        return False
    return bool(signal["state_pixels"] > 0 if kind == "red_light" else signal["shown"])
