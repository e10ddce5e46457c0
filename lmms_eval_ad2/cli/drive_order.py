"""From the arguments of `ad2 drive run` to a runner.Run with its drivers."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from closedloop_plugin.agents.base import Agent
from closedloop_plugin.agents.make import BUILT_IN, cameras_of, make_agent
from closedloop_plugin.interpreters.base import Interpreter
from closedloop_plugin.interpreters.make import make_hybrid, make_interpreter, tasks_for
from closedloop_plugin.profiles import Profile, profile
from closedloop_plugin.routes import Route, select, sha256
from closedloop_plugin.runner.assemble import Driver, Subject, Wish, assemble, remote, standing
from closedloop_plugin.runner.latency import read_latency
from closedloop_plugin.runner.pilot import Rules
from closedloop_plugin.runner.pool import Limits
from closedloop_plugin.runner.recipe import Recipe
from closedloop_plugin.runner.run import Run
from closedloop_plugin.runner.store import check_folder
from closedloop_plugin.runner.task import shard
from closedloop_plugin.suites import data_home, suite
from closedloop_plugin.worlds.base import Camera
from lmms_eval_ad2.errors import Ad2Error

# Options that speak of a driver in words; None where the user said nothing.
WORDED = ("interpreter", "interpreter2", "mode", "describer", "tasks", "fine_grained", "prompts")
WORLDS = {"embedded": "closedloop_plugin.worlds.embedded.world:EmbeddedWorld"}
TRACK = Recipe("closedloop_plugin.show.track:TrackLog")
FRAMES = "closedloop_plugin.runner.pictures:Frames"
FILM = "closedloop_plugin.show.video:Film"


@dataclass(frozen=True)
class Order:
    """`agent`, `interpreter`: those that live in this process; None: each world has its own (or there is none)."""

    run: Run
    routes: tuple[Route, ...]  # that were asked for; empty for a program
    agent: Agent | None
    interpreter: Interpreter | None


def ordered(args: argparse.Namespace) -> Order:
    """Everything checked, models loaded; nothing driven yet."""
    _check(args)
    rules = profile(args.profile)
    subject = _program(args) if args.scenario else _suite(args)
    wish = Wish(
        args.out,
        world_of(args.world),
        rules,
        Rules(args.policy, args.decision_hz, read_latency(args.latency)),
        args.seed,
        not args.no_traffic,
        TRACK,
        limits=Limits(args.workers, args.retries, args.world_timeout),
        retry_failed=args.retry_failed,
    )
    check_folder(args.out, standing(wish, subject))  # before minutes go into loading a model
    driver = driver_of(args, rules)
    wish = replace(wish, recorders=_recorders(args, driver.cameras))
    return Order(assemble(wish, subject, driver), subject.routes, *remote(driver))


def _check(args: argparse.Namespace) -> None:
    for name, least in (("repetitions", 1), ("workers", 1), ("limit", 1), ("retries", 0), ("world_timeout", 1)):
        value = getattr(args, name)
        if value is not None and not value >= least:
            raise Ad2Error(f"--{name.replace('_', '-')} {value}: {least} or more")
    if args.decision_hz is not None and not 0 < args.decision_hz <= profile(args.profile).hz:
        raise Ad2Error(f"--decision-hz {args.decision_hz:g}: above 0, and at most the simulation's rate")
    if args.map and not args.scenario:
        raise Ad2Error("--map belongs to --scenario; maps of routes come from --towns DIR")
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


def _suite(args: argparse.Namespace) -> Subject:
    found = suite(args.suite, args.world)
    routes = found.routes
    if args.routes_ids is not None:
        ids = list(dict.fromkeys(i.strip() for i in args.routes_ids.split(",") if i.strip()))
        if not ids:
            raise Ad2Error(f"--routes-ids {args.routes_ids!r}: expected ids with commas between, like {found.ids[0]}")
        routes = tuple(select(routes, ids))
    routes = routes[: args.limit]
    if args.world in WORLDS:
        _check_types(args.suite, routes)
    towns = towns_of(args.towns, found.routes, routes)
    return Subject(
        found.name, found.sha256, found.ids, routes, programs=found.programs, towns=towns,
        repetitions=args.repetitions, shard=args.shard,
    )  # fmt: skip


def _program(args: argparse.Namespace) -> Subject:
    for option, file in (("--scenario", args.scenario), ("--map", args.map)):
        if file is not None and not file.is_file():
            raise Ad2Error(f"{option} {file}: no such file")
    beside = [f"--{name.replace('_', '-')}" for name in ("towns", "routes_ids", "limit") if getattr(args, name)]
    if beside:
        raise Ad2Error(f"{', '.join(beside)}: for --suite; a program of your own is one episode, on --map")
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", args.scenario.stem)[:80]
    # The suite's name tells a program from a benchmark, however its file is called.
    return Subject(
        f"program {name}", sha256(args.scenario), [name], (), args.scenario.absolute(),
        args.map.absolute() if args.map else None, repetitions=args.repetitions, shard=args.shard,
    )  # fmt: skip


def _check_types(file: str, routes: Sequence[Route]) -> None:
    """Said before anything drives, not when the run comes to that route."""
    from closedloop_plugin.scenarios.catalogue import CATALOGUE

    unknown = [route for route in routes if route.scenario not in CATALOGUE]
    if not unknown:
        return
    named = ", ".join(f"{route.id} ({route.scenario})" for route in unknown[:5]) + (" ..." if len(unknown) > 5 else "")
    near = difflib.get_close_matches(unknown[0].scenario, CATALOGUE, 1)
    raise Ad2Error(
        f"{file}: no program for the scenario type of route {named}. "
        + (f"Did you mean {near[0]}? " if near else "")
        + "Mend the file, or name the other routes with --routes-ids"
    )


def towns_of(folder: Path | None, every: Sequence[Route], asked: Sequence[Route]) -> Mapping[str, Path]:
    """Town -> its OpenDRIVE file, of those that are there. Other towns get corridor maps; each record says which.

    Of every route of the suite: the files are part of the run's identity, how many routes are asked for is not.
    """
    if folder is None:
        return {}
    if not folder.is_dir():
        raise Ad2Error(f"--towns {folder}: no such folder")
    towns = {r.town: folder / f"{r.town}.xodr" for r in every}
    found = {town: file.absolute() for town, file in sorted(towns.items()) if file.is_file()}
    wanted = sorted({r.town for r in asked})
    if not found.keys() & set(wanted):
        raise Ad2Error(f"--towns {folder}: no map of these routes' towns there; expected {wanted[0]}.xodr, ...")
    return found


def driver_of(args: argparse.Namespace, rules: Profile) -> Driver:
    """A driver of its own controls gets no interpreter: a result that names one would mislead."""
    interpreter = _interpreter(args, rules)
    agent = _agent(args, rules, interpreter)
    if agent.local:
        recipe = Recipe("closedloop_plugin.agents.make:make_agent", {"spec": args.agent})
        return Driver(agent, agent_recipe=recipe, cameras=_cameras(args, rules, agent))
    near = interpreter.local and interpreter.mode != "hybrid"
    return Driver(agent, interpreter, None, _rules_recipe(rules) if near else None, _cameras(args, rules, agent))


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


def _rules_recipe(rules: Profile) -> Recipe:
    where = "closedloop_plugin.interpreters.make:make_interpreter"
    return Recipe(where, {"spec": "rules", "mode": "rules", "profile": rules})


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


def world_of(name: str) -> Recipe:
    if ":" in name:
        return Recipe(name)
    if name not in WORLDS:
        raise Ad2Error(f"--world {name}: known: {', '.join(WORLDS)}, or an own one as MODULE:CALLABLE")
    return Recipe(WORLDS[name], {"folder": data_home() / "maps"})


def _recorders(args: argparse.Namespace, cameras: Sequence[Camera]) -> tuple[Recipe, ...]:
    names = [c.name for c in cameras]
    frames = [Recipe(FRAMES, {"folder": args.out / "frames", "cameras": names})] if args.frames else []
    films = [Recipe(FILM, {"folder": args.out / "frames", "camera": names[0]})] if args.video else []
    return (*frames, *films)
