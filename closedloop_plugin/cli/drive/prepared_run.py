"""Converts the options of `ad2 drive run` to a DriveRun with its driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.cli.drive.selection import program_subject, suite_subject
from closedloop_plugin.cli.drive.training_data import selected, training_of
from closedloop_plugin.cli.drive.world import engine_of, limits_of, world_of
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile, profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.driver.agent import Agent
from closedloop_plugin.driver.agents.make import BUILT_IN, SPEAKING, answers_in_text, cameras_of, make_agent
from closedloop_plugin.driver.agents.model_backend import ModelBackend
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.driver.interpreters.make import make_hybrid, make_interpreter, tasks_for
from closedloop_plugin.report.results import training_note
from closedloop_plugin.runner.assemble import DriverSetup, RunConfig, assemble, config_identity, remote
from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.runner.latency import read_latency
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.run import DriveRun
from closedloop_plugin.runner.task import shard
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import identity_of
from lmms_eval_ad2.storage.identity import check_folder

if TYPE_CHECKING:
    from closedloop_plugin.cli.drive.options import DriverOptions, SimulatedDecisionOptions
    from closedloop_plugin.cli.drive.reread import DriveRereadOptions
    from closedloop_plugin.cli.drive.run import DriveRunOptions

# Options for agents that answer in text; None if not given.
WORDED = ("interpreter", "interpreter2", "mode", "describer", "situation", "tasks", "fine_grained", "prompts",
          "history")  # fmt: skip
TRACK = FactoryRecipe("closedloop_plugin.report.track_log:TrackLog")
FRAMES = "closedloop_plugin.runner.frame_recorder:FrameRecorder"
VIDEO = "closedloop_plugin.report.video:VideoRecorder"


@dataclass(frozen=True)
class PreparedRun:
    """`agent`, `interpreter`: instances in this process; None: each world has its own (or there is none)."""

    run: DriveRun
    routes: tuple[Route, ...]  # the requested ones; empty for a program
    agent: Agent | None
    interpreter: Interpreter | None
    notes: tuple[str, ...] = ()  # on the suite, printed below the scores
    training: tuple[str, ...] = ()  # one line if a model was trained on routes of this run
    drawn: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # route id -> values of its played draw


def prepare(options: DriveRunOptions, given: ModelBackend | Agent | None = None, quiet: bool = False) -> PreparedRun:
    """Return the run with its models loaded and all options checked; nothing is driven yet.

    `given`: the fast system that `options.agent` only names, see make_agent.
    """
    check_options(options)
    rules = profile(options.profile)
    drawn: Mapping[str, Mapping[str, Any]] = {}
    if options.scenario:
        subject, notes = program_subject(options, options.scenario)
    else:
        subject, notes, drawn = suite_subject(options, options.suite or "")
    world, workers = world_of(options, options.workers)
    config = RunConfig(
        folder=options.out,
        world=world,
        profile=rules,
        rules=decision_rules(options),
        seed=options.seed,
        traffic=not options.no_traffic,
        track=TRACK,
        limits=limits_of(options, world, workers),
        stop_after_unread=options.stop_after_unread,
        retry_failed=options.retry_failed,
        quiet=quiet,
    )
    check_folder(options.out, config_identity(config, subject))  # before a model is loaded, which takes minutes
    training = None if given is not None else training_of(options, subject)
    engine = engine_of(options, world, workers)  # before models, whose replicas may run in its cluster
    driver = driver_of(options, rules, options.policy, given)
    config = replace(config, engine=engine, recorders=_recorders(options, driver.cameras))
    run = assemble(config, subject, driver)
    # The runner records resolved values; an option without such a key is recorded as given.
    run = replace(
        run,
        identity={**run.identity, **identity_of(options, run.identity)},
        selection=selected(run.selection, options, training),
    )
    agent, interpreter = remote(driver)
    note = training_note(run.selection, [route.id for route in subject.routes])
    trained = (f"{options.agent}: {note}",) if note else ()
    return PreparedRun(run, subject.routes, agent, interpreter, notes=notes, training=trained, drawn=drawn)


def check_options(options: DriveRunOptions) -> None:
    """Raise Ad2Error for options that exclude each other or have no effect."""
    check_decision_hz(options.decision_hz, profile(options.profile))
    if options.map and not options.scenario:
        raise Ad2Error("--map is an option of --scenario; maps of routes come from --towns DIR")
    for name, value in (("route", options.route), ("set", options.set)):
        if value and not options.scenario:
            raise Ad2Error(f"--{name} is an option of --scenario FILE.scenic")
    if options.fresh_draws and options.scenario:
        raise Ad2Error("--fresh-draws is an option of --suite FOLDER; a --scenario is drawn with --seed")
    if options.fresh_draws and options.repetitions > 1:
        raise Ad2Error("--fresh-draws: each draw is driven once; omit --repetitions")
    shard([], options.shard)
    check_driver(options)


def check_decision_hz(hz: float | None, rules: Profile) -> None:
    if hz is not None and not 0 < hz <= rules.hz:
        raise Ad2Error(
            f"--decision-hz {hz:g}: must be above 0 and at most {rules.hz:g}, the simulation's rate under the profile "
            f"{rules.name}"
        )


def decision_rules(options: SimulatedDecisionOptions) -> DecisionRules:
    return DecisionRules(policy=options.policy, decision_hz=options.decision_hz, latency=read_latency(options.latency))


def check_driver(options: DriverOptions) -> None:
    """Raise Ad2Error for options without effect: a result must not seem to come from a model that was not used."""
    _check_hybrid(options)
    if idle := _without_effect(options, _asks_a_slow_model(options)):
        what = "asks no model" if options.agent.strip() == SPEAKING else "sets the controls itself"
        raise Ad2Error(f"--agent {options.agent} {what}: {', '.join(idle)} would have no effect; omit it")
    check_interpreter(options)


def check_interpreter(options: DriverOptions | DriveRereadOptions) -> None:
    """Raise Ad2Error for options of the slow system that exclude each other or have no effect."""
    _check_hybrid(options)
    slow = _asks_a_slow_model(options)
    if options.mode in ("cng", "dcs") and not slow:
        raise Ad2Error(f"--mode {options.mode} requires a model as slow system: --interpreter endpoint:... or lmms:...")
    for name in ("describer", "situation"):
        if getattr(options, name) and not slow:
            raise Ad2Error(f"--{name} requires a model as slow system: give --interpreter too")


def _check_hybrid(options: DriverOptions | DriveRereadOptions) -> None:
    if (options.mode == "hybrid") != bool(options.interpreter2):
        raise Ad2Error("--mode hybrid and --interpreter2 require each other")


def _asks_a_slow_model(options: DriverOptions | DriveRereadOptions) -> bool:
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
    return [f"--{name.replace('_', '-')}" for name in unused if getattr(options, name) is not None]


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
    tasks = _asked(options, interpreter) if interpreter else None
    agent = _agent(options, rules, tasks, given)
    recipe = None
    if agent.local and given is None:
        settings = {"spec": options.agent, "cameras": _view(options), "seed": options.seed, "profile": rules}
        settings |= {"tasks": tasks, "history": options.history or 0}
        recipe = FactoryRecipe("closedloop_plugin.driver.agents.make:make_agent", settings)
    if interpreter is None:
        return DriverSetup(agent=agent, agent_recipe=recipe, cameras=_cameras(options, rules, agent))
    near = interpreter.local and interpreter.mode != "hybrid"
    return DriverSetup(
        agent=agent,
        agent_recipe=recipe,
        interpreter=interpreter,
        interpreter_recipe=_rules_recipe(rules) if near else None,
        cameras=_cameras(options, rules, agent, interpreter),
    )


def interpreter_of(
    options: DriverOptions | DriveRereadOptions,
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
    return make_hybrid(first, second)


def _rules_recipe(rules: Profile) -> FactoryRecipe:
    where = "closedloop_plugin.driver.interpreters.make:make_interpreter"
    return FactoryRecipe(where, {"spec": "rules", "mode": "rules", "profile": rules})


def _agent(
    options: DriverOptions, rules: Profile, tasks: tuple[str, ...] | None, given: ModelBackend | Agent | None
) -> Agent:
    return make_agent(
        options.agent, given=given, tasks=tasks, cameras=_view(options), prompts=options.prompts,
        seed=options.seed, profile=rules, fine_grained=options.fine_grained or "off", history=options.history or 0,
    )  # fmt: skip


def _asked(options: DriverOptions, interpreter: Interpreter) -> tuple[str, ...]:
    """The questions to the fast system."""
    return tasks_for(interpreter, [t.strip() for t in (options.tasks or "action").split(",") if t.strip()])


def _view(options: DriverOptions) -> str:
    return (options.camera or "front") + (f"@{options.size}" if options.size else "")


def _cameras(
    options: DriverOptions, rules: Profile, agent: Agent, interpreter: Interpreter | None = None
) -> tuple[Camera, ...]:
    """The agent's cameras; if it has none, those of --camera for frames, videos and a model as slow system."""
    sees = interpreter is not None and interpreter.mode != "rules"
    if agent.cameras or not (options.frames or options.video or sees):
        return agent.cameras
    return cameras_of(_view(options), rules if rules.cameras else profile("bench2drive"))


def _recorders(options: DriveRunOptions, cameras: Sequence[Camera]) -> tuple[FactoryRecipe, ...]:
    names, folder = [c.name for c in cameras], options.out / "frames"
    frames = [FactoryRecipe(FRAMES, {"folder": folder, "cameras": names})] if options.frames else []
    videos = [FactoryRecipe(VIDEO, {"folder": folder, "camera": names[0]})] if options.video else []
    return (*frames, *videos)
