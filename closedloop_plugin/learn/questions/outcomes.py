"""What follows from a frame, in classes that differ clearly from each other: what an actor does in the next seconds,
what the expert does, and whether the picture shows why."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from closedloop_plugin.core.state import PEDESTRIANS, ActorKind, SignalState
from closedloop_plugin.learn.questions.seen_frame import SeenActor, SeenFrame, SeenSign
from closedloop_plugin.learn.questions.words import text
from lmms_eval_ad2.core.records import BilingualText

STEP_S = 0.5
HORIZON = 6  # positions of a complete future: 3 s
STAYS_M = 0.5  # less is standing
MOVES_M = 2.0  # along the ego's direction
CROSSES_M = 1.5  # across it
NEARER_M = 1.0  # a larger change of the distance makes it nearer or farther
STRAIGHT = 0.35  # largest ratio of the smaller to the larger component

# Class of a motion -> sentence. Directions are the ego's.
MOTIONS: dict[str, BilingualText] = {
    "stays": text("It stays.", "它不动。"),
    "ahead": text("It moves away.", "它向前远离。"),
    "closer": text("It comes closer.", "它向我们靠近。"),
    "left": text("It crosses to the left.", "它向左横穿。"),
    "right": text("It crosses to the right.", "它向右横穿。"),
}
PACES: dict[str, BilingualText] = {
    "stays": text("It stays.", "它不动。"),
    "stops": text("It stops.", "它停下。"),
    "slower": text("It slows down.", "它减速。"),
    "same": text("It keeps its speed.", "它保持速度。"),
    "faster": text("It speeds up.", "它加速。"),
}
GO, KEEP, BRAKE, STOP = "go", "keep", "brake", "stop"
PACE_TEXTS: dict[str, BilingualText] = {
    GO: text("Accelerate.", "加速。"), KEEP: text("Keep the speed.", "保持速度。"),
    BRAKE: text("Brake.", "制动。"), STOP: text("Stop and wait.", "停车等待。"),
}  # fmt: skip
# Limits between the classes, m/s2 and m/s; between them a question would be ambiguous.
GO_FROM, KEEP_TO, BRAKE_FROM = 0.8, 0.25, -1.0
STANDS, MOVING = 0.5, 2.0
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
AHEAD_DEGREES = 8.0  # to either side of the ego's direction
CROSSING = PEDESTRIANS | {ActorKind.ANIMAL, ActorKind.BICYCLE}  # their direction matters more than their pace
FREE_M, HALF_LANE_M = 40.0, 1.75  # the way that has to be free for FREE, and half its width
OF_ACTORS = ("vehicle_ahead", "actor", "passing", "blocked", "yield")  # kinds of reasons with an actor behind them
FREE = text("Nothing in the way.", "前方没有障碍。")
# Reasons without an actor or sign: what is seen, and what happens next; with FREE, only if the road stays free.
OF_THE_ROAD: dict[str, tuple[BilingualText, BilingualText]] = {
    "clear": (FREE, text("The road stays free.", "道路保持畅通。")),
    "speed_limit": (FREE, text("We are fast enough.", "我们的速度够快。")),
    "curve": (text("A bend.", "弯道。"), text("The road bends.", "道路转弯。")),
}


def motion_of(actor: SeenActor) -> str | None:
    """The class of the movement over 3 s; None if it is between two classes or not known to its end.

    Something ahead that we catch up with drives away from where we are, but comes nearer: "away" and "closer" are used
    only if both are true, its movement and its distance while we drive on.
    """
    if len(actor.future) < HORIZON:
        return None
    ahead, across = actor.future[HORIZON - 1][0] - actor.forward, actor.future[HORIZON - 1][1] - actor.left
    moved = math.hypot(ahead, across)
    if moved < STAYS_M:
        return "stays"
    if min(abs(ahead), abs(across)) > STRAIGHT * max(abs(ahead), abs(across)):
        return None
    if abs(across) >= max(CROSSES_M, abs(ahead)):
        return "left" if across > 0 else "right"
    if abs(ahead) >= max(MOVES_M, abs(across)):
        motion = "ahead" if ahead > 0 else "closer"
        return motion if motion in changes_of_distance(actor) else None
    return None


def changes_of_distance(actor: SeenActor) -> set[str]:
    """ "closer" if it comes nearer within 3 s, "ahead" if it is farther away after them; both if it passes."""
    now, *later = actor.distances[: HORIZON + 1] or (0.0,)
    if len(later) < HORIZON:
        return set()
    closer = {"closer"} if min(later) < now - NEARER_M else set()
    return closer | ({"ahead"} if later[-1] > now + NEARER_M else set())


def pace_of(actor: SeenActor) -> str | None:
    """The class of the change of speed over 3 s; None as for `motion_of`."""
    if len(actor.future) < HORIZON:
        return None
    before, last = actor.future[HORIZON - 2], actor.future[HORIZON - 1]
    now, then = abs(actor.speed), math.dist(before, last) / STEP_S
    if now < 0.3:
        return "stays" if then < 0.3 else "faster" if then > 1.5 else None
    if then < 0.5:
        return "stops" if now > 2.0 else None
    if then > now + 1.5:
        return "faster"
    if now > 2.0 and abs(then - now) < 0.1 * now:
        return "same"
    return "slower" if now > 3.0 and then < 0.7 * now else None


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
    if stops or frame.speed < STANDS:
        if stops:
            return STOP if frame.speed < STANDS else None
        return GO if frame.acceleration >= GO_FROM else None
    if frame.acceleration >= GO_FROM:
        return GO
    if abs(frame.acceleration) <= KEEP_TO:
        return KEEP
    return BRAKE if frame.acceleration <= BRAKE_FROM and frame.speed >= MOVING else None


@dataclass(frozen=True)
class ReasonEvidence:
    """What the picture shows of the expert's reason. `next`: what happens then; None if no answer is clearly true.

    kind: "free" if nothing is in the way, else the reason.
    """

    kind: str
    seen: BilingualText
    next: BilingualText | None
    shown: str  # id of the actor or sign, "" without one


def evidence_of(frame: SeenFrame) -> ReasonEvidence | None:
    """The evidence; None if the picture does not show it."""
    if frame.reason in OF_THE_ROAD:
        seen, next_ = OF_THE_ROAD[frame.reason]
        if seen is FREE:
            if _is_held_up(frame):
                return None
            return ReasonEvidence("free", seen, next_ if frame.stays_free else None, "")
        return ReasonEvidence(frame.reason, seen, next_, "")
    if frame.reason in ("red_light", "stop_sign"):
        return _of_sign(frame)
    actor = frame.actor(frame.reason_actor) if frame.reason in OF_ACTORS else None
    if actor is None or not actor.shown:
        return None
    return ReasonEvidence(frame.reason, _place(actor), what_next(actor), actor.id)


def _is_held_up(frame: SeenFrame) -> bool:
    """Whether the picture shows somebody on the way ahead, or a light that is not green or a stop sign to come."""
    lines = (s for s in frame.signs if s.is_ahead and s.appears and s.control != "yield")
    ahead = (a for a in frame.actors if a.appears and 0 < a.forward <= FREE_M)
    return any(line.state != SignalState.GREEN for line in lines) or any(
        a.lane == "own" or abs(a.left) <= HALF_LANE_M for a in ahead
    )


def what_next(actor: SeenActor) -> BilingualText | None:
    """Its movement, or, of vehicles, its pace."""
    motion, pace = motion_of(actor), pace_of(actor)
    if actor.kind in CROSSING or motion in ("left", "right", "stays"):
        return MOTIONS[motion] if motion else None
    return PACES[pace] if pace else None


def _place(actor: SeenActor) -> BilingualText:
    angle, metres = math.degrees(math.atan2(actor.left, actor.forward)), round(actor.gap)
    word = actor.word
    start = f"{word.a[0].upper()}{word.a[1:]}"
    if abs(angle) <= AHEAD_DEGREES:
        return text(f"{start} ahead, {metres} m.", f"前方{metres}米有{word.zh}。")
    side, zh = ("left", "左") if angle > 0 else ("right", "右")
    return text(f"{start} ahead on the {side}, {metres} m.", f"{zh}前方{metres}米有{word.zh}。")


def _of_sign(frame: SeenFrame) -> ReasonEvidence | None:
    wanted = "signal" if frame.reason == "red_light" else "stop"
    ahead = [s for s in frame.signs if s.control == wanted and s.is_ahead and s.shown]
    sign = min(ahead, key=lambda s: s.distance or 0.0, default=None)
    if sign is None or sign.distance is None:
        return None
    seen = _light(sign) if wanted == "signal" else text("A stop sign.", "停车标志。")
    if seen is None:
        return None
    metres = max(0, round(sign.distance))
    line = text(f"The line is {metres} m away.", f"停止线在{metres}米处。")
    return ReasonEvidence(frame.reason, seen, line, sign.id)


def _light(sign: SeenSign) -> BilingualText | None:
    if not sign.lit or sign.state in (None, SignalState.GREEN):
        return None
    return text("A red light.", "红灯。") if sign.state == SignalState.RED else text("A yellow light.", "黄灯。")
