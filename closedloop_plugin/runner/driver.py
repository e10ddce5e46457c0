"""The driver of a drive's options: agent and interpreter, and what is wrong with the options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile, profile
from closedloop_plugin.driver.agent import Agent
from closedloop_plugin.driver.agents.make import BUILT_IN, SPEAKING, answers_in_text, cameras_of, make_agent
from closedloop_plugin.driver.agents.model_backend import ModelBackend
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.driver.interpreters.make import HybridInterpreter, make_interpreter, tasks_for
from closedloop_plugin.runner.assemble import DriverSetup
from closedloop_plugin.runner.options import DriverOptions
from closedloop_plugin.runner.recipe import FactoryRecipe
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import options_of

# Options for agents that answer in text; None if not given.
WORDED = ("interpreter", "interpreter2", "mode", "describer", "situation", "tasks", "fine_grained", "prompts",
          "history")  # fmt: skip


def check_driver(options: DriverOptions) -> None:
    """Raise Ad2Error for options without effect: a result must not seem to come from a model that was not used."""
    _check_hybrid(options)
    if idle := _without_effect(options, _asks_a_slow_model(options)):
        what = "asks no model" if options.agent.strip() == SPEAKING else "sets the controls itself"
        raise Ad2Error(f"--agent {options.agent} {what}: {', '.join(idle)} would have no effect; omit it")
    check_interpreter(options)


def check_interpreter(options: DriverOptions) -> None:
    """Raise Ad2Error for options of the slow system that exclude each other or have no effect."""
    _check_hybrid(options)
    slow = _asks_a_slow_model(options)
    if options.mode in ("cng", "dcs") and not slow:
        raise Ad2Error(f"--mode {options.mode} requires a model as slow system: --interpreter endpoint:... or lmms:...")
    for name in ("describer", "situation"):
        if getattr(options, name) and not slow:
            raise Ad2Error(f"--config {name} requires a model as slow system: give --interpreter too")


def _check_hybrid(options: DriverOptions) -> None:
    if (options.mode == "hybrid") != bool(options.interpreter2):
        raise Ad2Error("--mode hybrid and --config interpreter2 require each other")


def _asks_a_slow_model(options: DriverOptions) -> bool:
    """Whether a model is the slow system, or a part of it."""
    return any(spec and spec.strip() != "rules" for spec in (options.interpreter, options.interpreter2))


def _without_effect(options: DriverOptions, slow: bool) -> list[str]:
    """The given options that a built-in agent does not use. `slow`: a model is the slow system, or a part of it."""
    if options.agent.strip() in BUILT_IN:
        unused = [*WORDED]
    elif options.agent.strip() == SPEAKING:
        # A slow system sees the front camera of any choice of cameras, in the given size.
        unused = ["fine_grained", "history", *([] if slow else ["prompts"])]
    else:
        return []
    if not (options.frames or options.video):
        unused += ["camera"] if slow and options.agent.strip() == SPEAKING else ["camera", "size"]
    shown = {one.name: one.shown for one in options_of(DriverOptions)}
    return [shown[name] for name in unused if getattr(options, name) is not None]


def driver_of(
    options: DriverOptions,
    rules: Profile,
    policy: str = "strict",
    given: ModelBackend | Agent | None = None,
    make_model: Callable[..., ModelBackend] | None = None,
) -> DriverSetup:
    """Return the driver. `policy` "official": numbers of the slow system are adapted as in the public code.

    An agent that sets the controls itself gets no interpreter, so that no result names one; nor does a custom one,
    unless the options name it. A `given` agent is called in this process. `make_model`: of the slow
    system; None: make_backend.
    """
    speaks = answers_in_text(options.agent) or bool(options.interpreter)
    interpreter = interpreter_of(options, rules, policy, make_model=make_model) if speaks else None
    tasks = None
    if interpreter:  # the questions to the fast system
        tasks = tasks_for(interpreter, [t.strip() for t in (options.tasks or "action").split(",") if t.strip()])
    agent = make_agent(
        options.agent, given=given, tasks=tasks, cameras=_view(options), prompts=options.prompts,
        seed=options.seed, profile=rules, fine_grained=options.fine_grained or "off", history=options.history or 0,
    )  # fmt: skip
    recipe = None
    if agent.local and given is None:
        settings = {"spec": options.agent, "cameras": _view(options), "seed": options.seed, "profile": rules}
        settings |= {"tasks": tasks, "history": options.history or 0}
        recipe = FactoryRecipe("closedloop_plugin.driver.agents.make:make_agent", settings)
    if interpreter is None:
        return DriverSetup(agent=agent, agent_recipe=recipe, cameras=_cameras(options, rules, agent))
    near = None
    if interpreter.local and interpreter.mode != "hybrid":
        where = "closedloop_plugin.driver.interpreters.make:make_interpreter"
        near = FactoryRecipe(where, {"spec": "rules", "mode": "rules", "profile": rules})
    return DriverSetup(
        agent=agent,
        agent_recipe=recipe,
        interpreter=interpreter,
        interpreter_recipe=near,
        cameras=_cameras(options, rules, agent, interpreter),
    )


def interpreter_of(
    options: DriverOptions,
    rules: Profile,
    policy: str,
    *,
    cache: Path | None = None,
    make_model: Callable[..., ModelBackend] | None = None,
) -> Interpreter:
    """Return the slow system of the options. `cache`: file for the replies of its models. Raises Ad2Error."""
    check_interpreter(options)
    spec = options.interpreter or "rules"
    mode = options.mode or ("rules" if spec == "rules" else "cng")
    more: dict[str, Any] = {"describer": options.describer, "prompts": options.prompts, "seed": options.seed}
    more |= {"official": policy == "official", "situation": options.situation, "cache": cache}
    more |= {"make_model": make_model}
    if mode != "hybrid":
        return make_interpreter(spec, mode, rules, **more)
    first, second = (
        make_interpreter(s, "rules" if s == "rules" else "cng", rules, **more)
        for s in (spec, options.interpreter2 or "rules")
    )
    return HybridInterpreter(first, second)


def _view(options: DriverOptions) -> str:
    return (options.camera or "front") + (f"@{options.size}" if options.size else "")


def _cameras(
    options: DriverOptions, rules: Profile, agent: Agent, interpreter: Interpreter | None = None
) -> tuple[Camera, ...]:
    """The agent's cameras; if it has none, those of --config camera for frames, videos and a model as slow system."""
    sees = interpreter is not None and interpreter.mode != "rules"
    if agent.cameras or not (options.frames or options.video or sees):
        return agent.cameras
    return cameras_of(_view(options), rules if rules.cameras else profile("bench2drive"))
