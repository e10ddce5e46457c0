"""Prompts of the fast system: one question per task from an Observation (Bench2ADVLM section 3.1)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Control, Decision, Observation
from closedloop_plugin.driver.agent import PastDecision
from closedloop_plugin.driver.agents.model_backend import harmless
from closedloop_plugin.driver.prompts.texts import PromptTexts
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.prompts.prompt_set import placeholders

# Text of a model's earlier decisions for its next prompt.

WORDS = 200  # characters of an answer that its next prompt repeats


def past_line(texts: PromptTexts, past: PastDecision, task: str, now_s: float) -> str:
    """One decision: seconds before `now_s`, speed, the answer to `task` and the control that followed."""
    return texts.fill(
        "past",
        ago=f"{round(now_s - past.observation.time_s, 3):g}",
        speed=f"{past.observation.speed:.1f}",
        words=_words(past.decision, task),
        controls=_controls(past.control),
    )


def times_of(moments: Sequence[float]) -> str:
    """Times in s, the last of them the present, in words: "0.1 s apart", or each time before the present."""
    steps = {round(later - earlier, 3) for earlier, later in itertools.pairwise(moments)}
    if len(steps) == 1:
        return f"{steps.pop():g} s apart"
    before = ", ".join(f"{round(moments[-1] - moment, 3):g}" for moment in moments[:-1])
    return f"{before} and 0 s before now"


def _words(decision: Decision, task: str) -> str:
    if decision.error is not None:
        return "no answer"
    text = " ".join(harmless(decision.texts.get(task, "")).split())
    return f'"{text}"' if len(text) <= WORDS else f'"{text[:WORDS]} ..."'


def _controls(control: Control | None) -> str:
    if control is None:
        return "controls not known"
    return f"throttle {control.throttle:.2f}, steer {control.steer:.2f}, brake {control.brake:.2f}"


TASKS = ("action", "trajectory", "reasoning", "threat")
WAYPOINTS, WAYPOINT_S = 6, 0.5  # a trajectory of 3 s, as in nuScenes planning
# "selecting from predefined suffixes" (section 5); the set is not published, this one is ours.
SUFFIXES = tuple(f"with speed = {share:g}" for share in (0.0, 0.25, 0.5, 0.75, 1.0))


def top_speed(profile: Profile, observation: Observation) -> float:
    """Speed in m/s of the suffix 1.0: the profile's speed limit, else the road's."""
    return profile.max_speed if profile.max_speed is not None else observation.speed_limit


def situation(
    texts: PromptTexts,
    observation: Observation,
    cameras: Sequence[str] = ("front",),
    pictures: str = "",
    history: str = "",
) -> str:
    """Speed, speed limit, navigation command and target point as text. `pictures`, `history`: see DrivingPrompts."""
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
        pictures=pictures,
        history=history,
    )


@dataclass(frozen=True)
class DrivingPrompts:
    """Everything that the prompts of one agent depend on.

    suffixes: the action question also offers SUFFIXES. history: number of earlier decisions (`history`), which the
    text lists and of which the question has the frames, unless the file of prompts states another number of `frames`.
    """

    texts: PromptTexts
    profile: Profile
    cameras: tuple[str, ...] = ("front",)
    suffixes: bool = False
    history: int = 0

    @property
    def frames(self) -> int:
        """Moments of which a question has the frames, the present one included; fewer at the start of an episode."""
        return self.texts.numbers.get("frames", self.history + 1)

    @property
    def memory(self) -> int:
        """Number of earlier decisions that a request must contain."""
        return max(self.history, self.frames - 1)

    def check_history(self, tasks: Sequence[str]) -> None:
        """Raise Ad2Error if the texts and the number of frames ignore `history`."""
        here = placeholders(self.texts.texts["situation"])
        used = [placeholders(self.texts.texts[task]) for task in tasks]
        listed = any("history" in found or ("situation" in found and "history" in here) for found in used)
        if self.history and not listed and "frames" in self.texts.numbers:
            raise Ad2Error(
                f"--config history={self.history} has no effect: {self.texts.source} sets the number of frames, "
                f"and none of its texts of {', '.join(tasks)} contains {{history}}; omit the option"
            )

    def shown(self, history: Sequence[PastDecision]) -> Sequence[PastDecision]:
        """The earlier decisions whose frames precede the present ones, the earliest first."""
        return history[len(history) - min(self.frames - 1, len(history)) :]

    def question(self, task: str, observation: Observation, history: Sequence[PastDecision] = ()) -> str:
        """The prompt of one of TASKS. `history`: DecisionRequest.history."""
        values: dict[str, object] = {**self._known(task, observation, history), "suffixes": ""}
        if task == "action" and self.suffixes:
            clause = self.texts.fill("suffixes", list=_listed(), top=self._top(observation))
            values["suffixes"] = f"\n{clause}"
        if task == "trajectory":
            values |= {"horizon": f"{WAYPOINTS * WAYPOINT_S:g}", "step": f"{WAYPOINT_S:g}", "n": WAYPOINTS}
        return self.texts.fill(task, **values)

    def suffix_question(self, observation: Observation, decision: str, history: Sequence[PastDecision] = ()) -> str:
        """The question which suffix fits `decision`, a text that is already fenced."""
        known = self._known("action", observation, history)
        return self.texts.fill("suffix", decision=decision, list=_listed(), top=self._top(observation), **known)

    def _known(self, task: str, observation: Observation, history: Sequence[PastDecision]) -> dict[str, str]:
        """Values of {situation}, {pictures} and {history}; the last two are empty at the first decision."""
        told = history[len(history) - min(self.history, len(history)) :]
        known = {"pictures": self._pictures(observation, history), "history": ""}
        if told:
            lines = [past_line(self.texts, past, task, observation.time_s) for past in told]
            known["history"] = "\n" + self.texts.fill("history", list="\n".join(lines))
        return {**known, "situation": situation(self.texts, observation, self.cameras, **known)}

    def _pictures(self, observation: Observation, history: Sequence[PastDecision]) -> str:
        moments = [*(past.observation.time_s for past in self.shown(history)), observation.time_s]
        if len(moments) == 1:
            return ""
        each = f", with {len(self.cameras)} pictures of each" if len(self.cameras) > 1 else ""
        return self.texts.fill("pictures", n=len(moments), times=times_of(moments), each=each)

    def _top(self, observation: Observation) -> str:
        return f"{top_speed(self.profile, observation):g}"


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
