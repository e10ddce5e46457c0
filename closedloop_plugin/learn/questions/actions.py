"""The expert's action in classes that differ clearly from each other, and in both languages."""

from __future__ import annotations

import re

from closedloop_plugin.learn.questions.seen_frame import SeenFrame
from closedloop_plugin.learn.questions.words import text
from lmms_eval_ad2.core.records import BilingualText

GO, KEEP, BRAKE, STOP = "go", "keep", "brake", "stop"
PACE_TEXTS: dict[str, BilingualText] = {
    GO: text("Accelerate.", "加速。"), KEEP: text("Keep the speed.", "保持速度。"),
    BRAKE: text("Brake.", "制动。"), STOP: text("Stop and wait.", "停车等待。"),
}  # fmt: skip
# Limits between the classes, m/s2 and m/s; between them a question would be ambiguous.
GO_FROM, KEEP_TO, BRAKE_FROM = 0.8, 0.25, -1.0
STANDING, MOVING = 0.5, 2.0
# The phrases of agents.speaking_expert.
_PACES = {
    "brake hard": "急刹车", "brake": "制动", "slow down": "减速", "keep the speed": "保持速度",
    "accelerate gently": "轻轻加速", "accelerate": "加速", "stop": "停车",
}  # fmt: skip
_DIRECTIONS = {
    "go straight": "直行", "turn left": "左转", "turn right": "右转", "change lane to the left": "向左变道",
    "change lane to the right": "向右变道", "steer slightly to the left": "稍向左打方向",
    "steer slightly to the right": "稍向右打方向",
}  # fmt: skip
_ACTION = re.compile(rf"({'|'.join(_PACES)}) and ({'|'.join(_DIRECTIONS)})\.", re.IGNORECASE)
STEERING: dict[str, BilingualText] = {
    en: text(f"{en[0].upper()}{en[1:]}.", f"{zh}。") for en, zh in _DIRECTIONS.items() if "slightly" not in en
}


def action_text(action: str) -> BilingualText | None:
    """The action in both languages; None if it is not one of the expert's phrases."""
    found = _ACTION.fullmatch(action)
    if found is None:
        return None
    return text(action, f"{_PACES[found[1].lower()]}，{_DIRECTIONS[found[2].lower()]}。")


def direction_of(action: str) -> str | None:
    """The direction as a key of STEERING; None for a slight one, which is between two."""
    found = _ACTION.fullmatch(action)
    direction = found[2].lower() if found else ""
    return direction if direction in STEERING else None


def pace_class(frame: SeenFrame) -> str | None:
    """The class of the expert's acceleration; None between two classes."""
    stops = frame.action.lower().startswith("stop ")
    if stops or frame.speed < STANDING:
        if stops:
            return STOP if frame.speed < STANDING else None
        return GO if frame.acceleration >= GO_FROM else None
    if frame.acceleration >= GO_FROM:
        return GO
    if abs(frame.acceleration) <= KEEP_TO:
        return KEEP
    return BRAKE if frame.acceleration <= BRAKE_FROM and frame.speed >= MOVING else None
