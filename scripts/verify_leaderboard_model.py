"""A model for verify_leaderboard.py that needs no picture: it steers to the route point that its question names.

A function for advlm_server.py, so the whole chain runs: the leaderboard's agent, `ad2 serve`, the endpoint agent, the
adapter. It neither sees nor avoids anybody: its routes have infractions, which the scores are to agree on.
"""

from __future__ import annotations

import json
import math
import re

NUMBER = r"(\d+(?:\.\d+)?)"
QUESTION = re.compile(rf"speed={NUMBER}; ahead={NUMBER}; side=(?:straight on|{NUMBER} m to the (left|right))")
WHEELBASE_M = 2.9  # of vehicle.lincoln.mkz_2020
LOCK = math.radians(70.0)  # wheel angle at full steering, of the same car
FAST, SLOW = 6.0, 3.5  # m/s: straight on, and with the target to one side


def answer(images: object, question: str) -> str:
    """Controls as one JSON object, by pure pursuit of the target."""
    found = QUESTION.search(question)
    if found is None:
        raise ValueError(f"expected a question of verify_leaderboard_prompts.yaml, found {question!r}")
    speed, ahead = float(found[1]), float(found[2])
    right = float(found[3] or 0.0) * (-1.0 if found[4] == "left" else 1.0)
    distance = max(math.hypot(ahead, right), 1.0)
    wheel = math.atan(2.0 * WHEELBASE_M * right / (distance * distance))
    wanted = SLOW if abs(right) > 0.15 * distance else FAST
    control = {
        "throttle": round(min(max(0.25 * (wanted - speed) + 0.15, 0.0), 0.7), 3),
        "steer": round(min(max(wheel / LOCK, -1.0), 1.0), 3),
        "brake": 0.3 if speed > wanted + 1.0 else 0.0,
    }
    return json.dumps(control if not control["brake"] else {**control, "throttle": 0.0})
