"""Whether a picture shows why the expert acts as it does, and the sentences that say so."""

from __future__ import annotations

import math
from dataclasses import dataclass

from closedloop_plugin.core.state import PEDESTRIANS, ActorKind, SignalState
from closedloop_plugin.learn.questions.motion import MOTIONS, PACES, motion_of, pace_of
from closedloop_plugin.learn.questions.seen_frame import SeenActor, SeenFrame, SeenSign
from closedloop_plugin.learn.questions.words import text
from lmms_eval_ad2.core.records import BilingualText

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
