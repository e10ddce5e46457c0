"""What an actor does in the seconds after a frame, in classes that differ clearly from each other."""

from __future__ import annotations

import math

from closedloop_plugin.learn.questions.seen_frame import SeenActor
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
