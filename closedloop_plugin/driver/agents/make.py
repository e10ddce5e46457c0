"""Agents by their command-line specification (`--agent`).

expert | speaking-expert | late | still | straight | random | speed-only | steer-only
endpoint:MODEL@http://host:port/v1[,timeout=60,max_tokens=256,temperature=0,format=jpeg,...]
endpoint:http://host:port/v1,model=MODEL,...
lmms:NAME[,pretrained=...,batch_size=4,device=cpu,...]      (max_new_tokens and temperature: generation settings;
                                                             replicas=N,replica_gpus=G: N copies as actors of Ray)
MODULE:CALLABLE[,name=value,...] | NAME[,name=value,...]    (another package's agent, see custom.py)
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.profiles import profile as profile_named
from closedloop_plugin.driver.agent import Agent
from closedloop_plugin.driver.agents.cached_model import CachedModel
from closedloop_plugin.driver.agents.custom import AgentWithTasks, checked, make_custom
from closedloop_plugin.driver.agents.custom import names as custom_names
from closedloop_plugin.driver.agents.driving_prompts import TASKS, DrivingPrompts
from closedloop_plugin.driver.agents.history import with_history
from closedloop_plugin.driver.agents.model_agent import ModelAgent
from closedloop_plugin.driver.agents.model_backend import ModelBackend
from closedloop_plugin.driver.prompts.texts import PromptTexts, texts_of
from closedloop_plugin.runner.recipe import FactoryRecipe
from lmms_eval_ad2.core.errors import Ad2Error

# name -> (module, class)
BUILT_IN = {
    "expert": ("expert", "ExpertDriver"),
    "late": ("late_driver", "LateDriver"),
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
    given: ModelBackend | Agent | None = None,
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

    given: the model or agent that `spec` only names, see `spec_of`. tasks: of TASKS (default: "action"); hybrid
    interpreters also need "threat". For another package's agent they are given if its texts go through an interpreter,
    see AgentWithTasks. cameras: "front" (default) or "surround",
    optionally with a size as in "front@800x450", or Camera objects. cache: for replies of a model (not with
    --config latency=measured).
    fine_grained: "off", "prompt" (= True) or "question", see ModelAgent. history: earlier decisions of its episode that
    the agent gets with every request; a model gets more if the prompts need more `frames`.
    """
    kind, colon, _ = spec.strip().partition(":")
    if kind in BUILT_IN and not colon:
        module, name = BUILT_IN[kind]
        return getattr(importlib.import_module(f"closedloop_plugin.driver.agents.{module}"), name)()
    rules = profile or profile_named(DEFAULT_PROFILE)
    if kind == SPEAKING and not colon:
        from closedloop_plugin.driver.agents.speaking_expert import SpeakingExpert

        return SpeakingExpert(tasks=_tasks(tasks), profile=rules)
    if kind not in MODELS:
        seen = cameras_of(cameras, rules) if rules.cameras else ()
        if given is not None:
            custom: Agent | None = checked(given, spec)
        else:
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
    backend: Any = make_backend(spec, cache=cache, seed=seed) if given is None else given
    return with_history(ModelAgent(backend, prompter, seen, asked, fine), prompter.memory)


def spec_of(given: ModelBackend | Agent) -> str:
    """The `spec` of a model or an agent that the caller has, for messages and checks of options."""
    name = getattr(given, "name", type(given).__name__)
    return f"lmms:{name}" if hasattr(given, "ask") else f"object:{name}"


def _unknown(spec: str, kind: str) -> Ad2Error:
    known = (*BUILT_IN, SPEAKING, *(f"{m}:..." for m in MODELS), *custom_names(), "MODULE:CALLABLE")
    near = difflib.get_close_matches(kind, (*BUILT_IN, SPEAKING, *MODELS, *custom_names()), 1)
    meant = f"did you mean '{near[0]}'? " if near else ""
    return Ad2Error(f"no agent '{spec}'; {meant}known: {', '.join(known)}")


def answers_in_text(spec: str) -> bool:
    """Whether `spec` names a model or another driver that needs an interpreter."""
    return spec.strip() == SPEAKING or spec.strip().partition(":")[0] in MODELS


def make_backend(spec: str, *, cache: Path | None = None, seed: int = 0) -> ModelBackend:
    """The model for `endpoint:...` (checked to be reachable) or `lmms:...` (loaded). `cache`: file for its replies."""
    kind, _, rest = spec.strip().partition(":")
    if kind == "endpoint":
        from closedloop_plugin.driver.agents.endpoint import EndpointModel

        model = EndpointModel.from_spec(rest, cache=cache, seed=seed)
        model.reach()
        return model
    if kind == "lmms":
        from closedloop_plugin.driver.agents.lmms_model import LmmsModel

        rest, replicas = _without_replicas(rest)
        if "replicas" in replicas:
            return _replicated(rest, int(replicas["replicas"]), replicas.get("replica_gpus"))
        model_here = LmmsModel.from_spec(rest)
        return CachedModel(model_here, cache) if cache else model_here
    raise Ad2Error(f"'{spec}' names no model; write endpoint:MODEL@http://host:port/v1 or lmms:NAME,arg=value,...")


def check_backend(spec: str) -> None:
    """Raise Ad2Error for what is wrong with a model: an endpoint is reached, lmms-eval's models are not loaded."""
    kind, _, rest = spec.strip().partition(":")
    if kind != "lmms":
        make_backend(spec)
        return
    from closedloop_plugin.driver.agents.lmms_model import LmmsModel

    LmmsModel.check_spec(_without_replicas(rest)[0])


_REPLICATED: dict[tuple[str, int, float | None], Any] = {}


def _replicated(rest: str, replicas: int, gpus: float | None) -> ModelBackend:
    """Copies of a model, one set of them in this process, as equal weights are loaded once without copies."""
    from closedloop_plugin.runner.cluster.model_replicas import ReplicatedModel

    key = (rest, replicas, gpus)
    if key not in _REPLICATED or not _REPLICATED[key].usable:
        recipe = FactoryRecipe("closedloop_plugin.driver.agents.make:make_backend", {"spec": f"lmms:{rest}"})
        _REPLICATED[key] = ReplicatedModel(recipe, replicas, gpus)
    return _REPLICATED[key]


def _without_replicas(rest: str) -> tuple[str, dict[str, float]]:
    """The arguments of a model without those on its replicas, which have no effect on its replies; and these."""
    kept, found = [], {}
    for part in rest.split(","):
        key, _, value = part.partition("=")
        if key.strip() not in ("replicas", "replica_gpus"):
            kept.append(part)
        elif re.fullmatch(r"[1-9]\d{0,2}|0\.\d+" if key.strip() == "replica_gpus" else r"[1-9]\d{0,2}", value.strip()):
            found[key.strip()] = float(value)
        else:
            raise Ad2Error(f"lmms: {part}: expected a number, such as replicas=4,replica_gpus=1")
    if found and "replicas" not in found:
        raise Ad2Error("lmms: replica_gpus belongs to replicas=N")
    return ",".join(kept), found


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
