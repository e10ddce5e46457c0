"""Agents by their command-line specification (`--agent`).

expert | speaking-expert | still | straight | random | speed-only | steer-only
endpoint:MODEL@http://host:port/v1[,timeout=60,max_tokens=256,temperature=0,format=jpeg,...]
endpoint:http://host:port/v1,model=MODEL,...
lmms:NAME[,pretrained=...,batch_size=4,device=cpu,...]      (max_new_tokens and temperature: generation settings)
MODULE:CALLABLE[,name=value,...] | NAME[,name=value,...]    (another package's agent, see custom.py)
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from closedloop_plugin.agents.base import Agent
from closedloop_plugin.agents.custom import AgentWithTasks, make_custom
from closedloop_plugin.agents.custom import names as custom_names
from closedloop_plugin.agents.driving_prompts import TASKS, DrivingPrompts
from closedloop_plugin.agents.history import with_history
from closedloop_plugin.agents.model_agent import ModelAgent
from closedloop_plugin.agents.model_backend import ModelBackend
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.profiles import profile as profile_named
from closedloop_plugin.prompts.texts import PromptTexts, texts_of
from lmms_eval_ad2.errors import Ad2Error

# name -> (module, class)
BUILT_IN = {
    "expert": ("expert", "ExpertDriver"),
    "still": ("baselines", "StationaryDriver"),
    "straight": ("baselines", "StraightDriver"),
    "random": ("baselines", "RandomDriver"),
    "speed-only": ("baselines", "SpeedOnlyDriver"),
    "steer-only": ("baselines", "SteerOnlyDriver"),
}
SPEAKING = "speaking-expert"  # its answers are texts, as those of a model
MODELS = ("endpoint", "lmms")
DEFAULT_PROFILE = "bench2advlm"
FINE_GRAINED = ("off", "prompt", "question")


def make_agent(
    spec: str,
    *,
    tasks: Sequence[str] | None = None,
    cameras: str | Sequence[Camera] | None = None,
    prompts: PromptTexts | Path | str | None = None,
    cache: Path | None = None,
    seed: int = 0,
    profile: Profile | None = None,
    fine_grained: bool | str = False,
    history: int = 0,
) -> Agent:
    """The agent for `spec`. Raises Ad2Error, in one line, if it is malformed.

    tasks: of TASKS (default: "action"); hybrid interpreters also need "threat". For another package's agent they are
    given if its texts go through an interpreter, see AgentWithTasks. cameras: "front" (default) or "surround",
    optionally with a size as in "front@800x450", or Camera objects. cache: for replies of an endpoint (not with
    --latency measured).
    fine_grained: "off", "prompt" (= True) or "question", see ModelAgent. history: earlier decisions of its episode that
    the agent gets with every request; a model gets more if the prompts need more `frames`.
    """
    kind, colon, _ = spec.strip().partition(":")
    if kind in BUILT_IN and not colon:
        module, name = BUILT_IN[kind]
        return getattr(importlib.import_module(f"closedloop_plugin.agents.{module}"), name)()
    rules = profile or profile_named(DEFAULT_PROFILE)
    if kind == SPEAKING and not colon:
        from closedloop_plugin.agents.speaking_expert import SpeakingExpert

        return SpeakingExpert(tasks=_tasks(tasks), profile=rules)
    if kind not in MODELS:
        seen = cameras_of(cameras, rules) if rules.cameras else ()
        custom = None if kind in BUILT_IN else make_custom(spec, cameras=seen, profile=rules, seed=seed)
        if custom is None:
            raise _unknown(spec, kind)
        return with_history(custom if tasks is None else AgentWithTasks(custom, _tasks(tasks)), history)
    seen = cameras_of(cameras, rules)
    asked = _tasks(tasks)
    fine = _fine_grained(fine_grained, asked)
    names = tuple(c.name for c in seen)
    prompter = DrivingPrompts(texts_of(prompts), rules, names, suffixes=fine == "prompt", history=history)
    prompter.check_history(asked)
    return with_history(
        ModelAgent(make_backend(spec, cache=cache, seed=seed), prompter, seen, asked, fine), prompter.memory
    )


def _unknown(spec: str, kind: str) -> Ad2Error:
    known = (*BUILT_IN, SPEAKING, *(f"{m}:..." for m in MODELS), *custom_names(), "MODULE:CALLABLE")
    near = difflib.get_close_matches(kind, (*BUILT_IN, SPEAKING, *MODELS, *custom_names()), 1)
    meant = f"did you mean '{near[0]}'? " if near else ""
    return Ad2Error(f"no agent '{spec}'; {meant}known: {', '.join(known)}")


def answers_in_text(spec: str) -> bool:
    """Whether `spec` names a model or another driver that needs an interpreter."""
    return spec.strip() == SPEAKING or spec.strip().partition(":")[0] in MODELS


def make_backend(spec: str, *, cache: Path | None = None, seed: int = 0) -> ModelBackend:
    """The model for `endpoint:...` (checked to be reachable) or `lmms:...` (loaded)."""
    kind, _, rest = spec.strip().partition(":")
    if kind == "endpoint":
        from closedloop_plugin.agents.endpoint import EndpointModel

        model = EndpointModel.from_spec(rest, cache=cache, seed=seed)
        model.reach()
        return model
    if kind == "lmms":
        from closedloop_plugin.harness.lmms_model import LmmsModel

        return LmmsModel.from_spec(rest)
    raise Ad2Error(f"'{spec}' names no model; write endpoint:MODEL@http://host:port/v1 or lmms:NAME,arg=value,...")


def cameras_of(wanted: str | Sequence[Camera] | None, profile: Profile) -> tuple[Camera, ...]:
    """Cameras by name and size. The front camera is always first, since interpreters use it."""
    if wanted is not None and not isinstance(wanted, str):
        return tuple(wanted)
    name, at, size = (wanted or "front").partition("@")
    if name not in ("front", "surround"):
        raise Ad2Error(f"cameras: expected front or surround, with @WIDTHxHEIGHT or without, found '{wanted}'")
    chosen = [c for c in profile.cameras if name == "surround" or c.name == "front"]
    if not chosen:
        raise Ad2Error(f"the profile {profile.name} has no cameras; take bench2advlm or bench2drive for a model")
    if not at:
        return tuple(chosen)
    width, _, height = size.partition("x")
    if not (width.isdecimal() and height.isdecimal() and 16 <= int(width) <= 8192 and 16 <= int(height) <= 8192):
        raise Ad2Error(f"cameras: expected a size like 800x450 (16 to 8192 pixels), found '{size}'")
    return tuple(replace(c, width=int(width), height=int(height)) for c in chosen)


def _tasks(tasks: Sequence[str] | None) -> tuple[str, ...]:
    tasks = ("action",) if tasks is None else tasks
    asked = tuple(dict.fromkeys([tasks] if isinstance(tasks, str) else tasks))
    unknown = [t for t in asked if t not in TASKS]
    if unknown or not asked:
        raise Ad2Error(f"tasks: expected some of {', '.join(TASKS)}, found '{', '.join(unknown)}'")
    return asked


def _fine_grained(wanted: bool | str, tasks: tuple[str, ...]) -> str:
    mode = ("prompt" if wanted else "off") if isinstance(wanted, bool) else wanted
    if mode not in FINE_GRAINED:
        raise Ad2Error(f"fine-grained control: expected one of {', '.join(FINE_GRAINED)}, found '{wanted}'")
    if mode != "off" and "action" not in tasks:
        raise Ad2Error("fine-grained control puts a suffix behind the action; add the task 'action'")
    return mode
