"""From the arguments of `ad2 drive run` to a runner.Run with its drivers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from closedloop_plugin.agents.base import Agent
from closedloop_plugin.agents.make import BUILT_IN, cameras_of, make_agent
from closedloop_plugin.cli.drive.selection import program_subject, suite_subject
from closedloop_plugin.cli.drive.world import limits_of, world_of
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile, profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.interpreters.base import Interpreter
from closedloop_plugin.interpreters.make import make_hybrid, make_interpreter, tasks_for
from closedloop_plugin.runner.assemble import DriverSetup, RunConfig, assemble, remote, standing
from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.runner.latency import read_latency
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.run import DriveRun
from closedloop_plugin.runner.task import shard
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.storage.identity import check_folder

# Options that speak of a driver in words; None where the user said nothing.
WORDED = ("interpreter", "interpreter2", "mode", "describer", "tasks", "fine_grained", "prompts")
TRACK = FactoryRecipe("closedloop_plugin.show.track_log:TrackLog")
FRAMES = "closedloop_plugin.runner.frame_recorder:FrameRecorder"
FILM = "closedloop_plugin.show.video:VideoRecorder"


@dataclass(frozen=True)
class PreparedRun:
    """`agent`, `interpreter`: those that live in this process; None: each world has its own (or there is none)."""

    run: DriveRun
    routes: tuple[Route, ...]  # that were asked for; empty for a program
    agent: Agent | None
    interpreter: Interpreter | None
    notes: tuple[str, ...] = ()  # what a reader of the scores must know of the suite


def ordered(args: argparse.Namespace) -> PreparedRun:
    """Everything checked, models loaded; nothing driven yet."""
    _check(args)
    rules = profile(args.profile)
    subject, notes = program_subject(args) if args.scenario else suite_subject(args)
    world, workers = world_of(args)
    wish = RunConfig(
        args.out,
        world,
        rules,
        DecisionRules(args.policy, args.decision_hz, read_latency(args.latency)),
        args.seed,
        not args.no_traffic,
        TRACK,
        limits=limits_of(args, world, workers),
        retry_failed=args.retry_failed,
    )
    check_folder(args.out, standing(wish, subject))  # before minutes go into loading a model
    driver = driver_of(args, rules)
    wish = replace(wish, recorders=_recorders(args, driver.cameras))
    return PreparedRun(assemble(wish, subject, driver), subject.routes, *remote(driver), notes)


def _check(args: argparse.Namespace) -> None:
    for name, least in (("repetitions", 1), ("workers", 1), ("limit", 1), ("retries", 0), ("world_timeout", 1)):
        value = getattr(args, name)
        if value is not None and not value >= least:
            raise Ad2Error(f"--{name.replace('_', '-')} {value}: {least} or more")
    if args.decision_hz is not None and not 0 < args.decision_hz <= profile(args.profile).hz:
        raise Ad2Error(f"--decision-hz {args.decision_hz:g}: above 0, and at most the simulation's rate")
    if args.map and not args.scenario:
        raise Ad2Error("--map belongs to --scenario; maps of routes come from --towns DIR")
    for option in ("route", "set"):
        if getattr(args, option) and not args.scenario:
            raise Ad2Error(f"--{option} belongs to --scenario FILE.scenic")
    shard([], args.shard)
    check_driver(args)


def check_driver(args: argparse.Namespace) -> None:
    """Options that would have no effect are refused: a result must not seem to come from what was not there."""
    if (args.mode == "hybrid") != bool(args.interpreter2):
        raise Ad2Error("--mode hybrid and --interpreter2 need each other")
    if args.agent.strip() in BUILT_IN:
        idle = [f"--{name.replace('_', '-')}" for name in WORDED if getattr(args, name) is not None]
        if not (args.frames or args.video):
            idle += [f"--{name}" for name in ("camera", "size") if getattr(args, name) is not None]
        if idle:
            raise Ad2Error(
                f"--agent {args.agent} drives by itself: {', '.join(idle)} would have no effect; leave it out"
            )
    slow = [spec for spec in (args.interpreter or "rules", args.interpreter2) if spec and spec != "rules"]
    if args.mode in ("cng", "dcs") and not slow:
        raise Ad2Error(f"--mode {args.mode} needs a model as slow system: --interpreter endpoint:... or lmms:...")
    if args.describer and not slow:
        raise Ad2Error("--describer speaks to a model as slow system, and there is none: give --interpreter too")


def driver_of(args: argparse.Namespace, rules: Profile) -> DriverSetup:
    """A driver of its own controls gets no interpreter: a result that names one would mislead."""
    interpreter = _interpreter(args, rules)
    agent = _agent(args, rules, interpreter)
    if agent.local:
        recipe = FactoryRecipe("closedloop_plugin.agents.make:make_agent", {"spec": args.agent})
        return DriverSetup(agent, agent_recipe=recipe, cameras=_cameras(args, rules, agent))
    near = interpreter.local and interpreter.mode != "hybrid"
    return DriverSetup(agent, interpreter, None, _rules_recipe(rules) if near else None, _cameras(args, rules, agent))


def _interpreter(args: argparse.Namespace, rules: Profile) -> Interpreter:
    spec = args.interpreter or "rules"
    mode = args.mode or ("rules" if spec == "rules" else "cng")
    more: dict[str, Any] = {"describer": args.describer, "prompts": args.prompts, "seed": args.seed}
    if mode != "hybrid":
        return make_interpreter(spec, mode, rules, **more)
    first, second = (
        make_interpreter(s, "rules" if s == "rules" else "cng", rules, **more) for s in (spec, args.interpreter2)
    )
    return make_hybrid(first, second)


def _rules_recipe(rules: Profile) -> FactoryRecipe:
    where = "closedloop_plugin.interpreters.make:make_interpreter"
    return FactoryRecipe(where, {"spec": "rules", "mode": "rules", "profile": rules})


def _agent(args: argparse.Namespace, rules: Profile, interpreter: Interpreter) -> Agent:
    tasks = tasks_for(interpreter, [t.strip() for t in (args.tasks or "action").split(",") if t.strip()])
    return make_agent(
        args.agent, tasks=tasks, cameras=_view(args), prompts=args.prompts, seed=args.seed, profile=rules,
        fine_grained=args.fine_grained or "off",
    )  # fmt: skip


def _view(args: argparse.Namespace) -> str:
    return (args.camera or "front") + (f"@{args.size}" if args.size else "")


def _cameras(args: argparse.Namespace, rules: Profile, agent: Agent) -> tuple[Camera, ...]:
    """The agent's; where it has none, those of --camera for frames and films."""
    if agent.cameras or not (args.frames or args.video):
        return agent.cameras
    return cameras_of(_view(args), rules if rules.cameras else profile("bench2drive"))


def _recorders(args: argparse.Namespace, cameras: Sequence[Camera]) -> tuple[FactoryRecipe, ...]:
    names = [c.name for c in cameras]
    frames = [FactoryRecipe(FRAMES, {"folder": args.out / "frames", "cameras": names})] if args.frames else []
    films = [FactoryRecipe(FILM, {"folder": args.out / "frames", "camera": names[0]})] if args.video else []
    return (*frames, *films)
