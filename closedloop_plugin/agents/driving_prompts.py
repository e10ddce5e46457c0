"""Prompts of the fast system: one question per task from an Observation (Bench2ADVLM section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Observation
from closedloop_plugin.prompts.texts import PromptTexts

TASKS = ("action", "trajectory", "reasoning", "threat")
WAYPOINTS, WAYPOINT_S = 6, 0.5  # a trajectory of 3 s, as in nuScenes planning
# "selecting from predefined suffixes" (section 5); the set is not published, this one is ours.
SUFFIXES = tuple(f"with speed = {share:g}" for share in (0.0, 0.25, 0.5, 0.75, 1.0))


def top_speed(profile: Profile, observation: Observation) -> float:
    """Speed in m/s of the suffix 1.0: the profile's speed limit, else the road's."""
    return profile.max_speed if profile.max_speed is not None else observation.speed_limit


def situation(texts: PromptTexts, observation: Observation, cameras: Sequence[str] = ("front",)) -> str:
    """Speed, speed limit, navigation command and target point as text."""
    forward, left = observation.target
    side = "straight on" if abs(left) < 0.5 else f"{abs(left):.1f} m to the {'left' if left > 0 else 'right'}"
    names = [name.replace("_", " ") for name in cameras]
    return texts.fill(
        "situation",
        cameras="the camera" if len(names) <= 1 else f"these cameras, in this order: {', '.join(names)}",
        speed=f"{observation.speed:.1f}",
        limit=f"{observation.speed_limit:.1f}",
        command=str(observation.command),
        ahead=f"{forward:.1f}",
        side=side,
    )


@dataclass(frozen=True)
class DrivingPrompts:
    """Everything that the prompts of one agent depend on. `suffixes`: the action question also offers SUFFIXES."""

    texts: PromptTexts
    profile: Profile
    cameras: tuple[str, ...] = ("front",)
    suffixes: bool = False

    def question(self, task: str, observation: Observation) -> str:
        """The prompt of one of TASKS."""
        here = situation(self.texts, observation, self.cameras)
        if task == "action":
            clause = ""
            if self.suffixes:
                clause = self.texts.fill("suffixes", list=_listed(), top=f"{top_speed(self.profile, observation):g}")
            return self.texts.fill("action", situation=here, suffixes=clause)
        if task == "trajectory":
            horizon = f"{WAYPOINTS * WAYPOINT_S:g}"
            return self.texts.fill("trajectory", situation=here, horizon=horizon, step=f"{WAYPOINT_S:g}", n=WAYPOINTS)
        return self.texts.fill(task, situation=here)

    def suffix_question(self, observation: Observation, decision: str) -> str:
        """The question which suffix fits `decision`, a text that is already fenced."""
        here = situation(self.texts, observation, self.cameras)
        top = f"{top_speed(self.profile, observation):g}"
        return self.texts.fill("suffix", situation=here, decision=decision, list=_listed(), top=top)


def _listed() -> str:
    return ", ".join(f'"{suffix}"' for suffix in SUFFIXES)


def chosen_suffix(reply: str) -> str | None:
    """The suffix of SUFFIXES in a reply; None if it contains none or several."""
    low = " ".join(reply.lower().split())
    found = {s for s in SUFFIXES if _contains(s, low)}
    return found.pop() if len(found) == 1 else None


def _contains(suffix: str, text: str) -> bool:
    """Whether `suffix` occurs as a whole: "with speed = 0" does not occur in "with speed = 0.5"."""
    start = text.find(suffix)
    while start >= 0:
        after = text[start + len(suffix) :][:2]
        if not (after[:1].isdigit() or (after[:1] == "." and after[1:].isdigit())):
            return True
        start = text.find(suffix, start + 1)
    return False
