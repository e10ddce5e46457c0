"""`ad2 drive collect`: drive made routes and save pictures with labels from the truth."""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from closedloop_plugin.runner.options import DriverOptions, PoolOptions, SimulatedDecisionOptions
from lmms_eval_ad2.core.options import add_command, fixed, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.core.profiles import Profile
    from closedloop_plugin.core.routes import Route
    from closedloop_plugin.runner.assemble import DriverSetup, RunConfig
    from closedloop_plugin.runner.task import EpisodeTask
    from lmms_eval_ad2.storage.training_card import TrainingSet

DISTURBED, DISTURBED_SPEAKER = "disturbed-expert", "disturbed-speaker"
SUITE = "made"
FIRST_EPISODES = 24  # before the number of episodes that --frames takes is estimated
MOST_FRAMES = 80  # of an episode, about
NOT_KNOWN = (
    "note: Bench2Drive's routes are not known here, so made routes are not compared with them; to leave them out, "
    "first: ad2 drive routes FILE"
)
EXAMPLES = """examples:
  ad2 drive collect --routes 600 --frames 20000 --workers 2 --out drives/expert
  ad2 drive collect --routes 100 --seed 2 --driver lmms:llava_hf,pretrained=MODEL,device=cpu --config decision_hz=2 \\
      --out drives/own
then:
  ad2 drive label drives/expert            questions with answers from the truth
  ad2 export swift --drives drives/expert --out train.jsonl

The driver may be any agent of ad2 drive run. Whoever drives, the labels are what the expert would do and say at this
moment (DAgger, Ross et al. 2011), if it knew what this camera shows and has shown; see docs/learn.md."""


@dataclass(frozen=True, kw_only=True)
class CollectionOptions:
    """Routes and frames of a collection."""

    routes: int = option("number of made routes, of all scenario types in turn", metavar="N", least=1)
    frames: int | None = option(
        "stop when M frames are there (default: drive all routes)", default=None, metavar="M", least=1
    )
    rounds: int = option(
        "drives of each route, each with another scene (default 1)", default=1, metavar="K", least=1, expert=True
    )
    every: float = option(
        "seconds between frames (default 0.5)",
        default=0.5,
        metavar="S",
        identity="every",
        least=0.05,
        most=3600.0,
        expert=True,
    )
    types: str | None = option(
        "only these scenario types (default: all)", default=None, metavar="TYPE,TYPE", expert=True
    )
    towns: tuple[Path, ...] = option(
        "OpenDRIVE files of towns in which a part of the routes lies", default=(), metavar="FILE.xodr", repeated=True
    )
    unlike: tuple[Path, ...] = option(
        "make no route that was driven there: a collection, model or set as for ad2 learn check. For routes that are "
        "held out", default=(), metavar="SET", repeated=True, expert=True,
    )  # fmt: skip
    seed: int = option("seed of routes, scenes and disturbances (default 0)", default=0, metavar="S", identity="seed")
    out: Path = option("folder of the collection; the same command resumes in it", metavar="DIR")


@dataclass(frozen=True, kw_only=True)
class CollectOptions(CollectionOptions, PoolOptions, DriverOptions, SimulatedDecisionOptions):
    """`ad2 drive collect`."""

    driver: str = option(
        "who drives: disturbed-expert (default: the expert with disturbances of the pedals and the wheel), "
        "disturbed-speaker (its words are wrong for some seconds at a time), or as --agent of ad2 drive run",
        default=DISTURBED,
        metavar="SPEC", identity="agent",
    )  # fmt: skip
    expert_share: float | None = option(
        "share of the time (in turns of 2 to 6 s) in which the expert's words replace those of a --driver in words",
        default=None, metavar="SHARE", identity="agent", expert=True,
    )  # fmt: skip
    size: str = option("size of the pictures (default 160x90)", default="160x90", metavar="WxH", identity="cameras")
    agent: str = fixed("")
    camera: Literal["front", "surround"] | None = fixed(None)
    seed: int = option("seed of routes, scenes and disturbances (default 0)", default=0, metavar="S", identity="seed")


GROUPS = {
    "collection": (CollectionOptions,),
    "driver": (DriverOptions, SimulatedDecisionOptions),
    "run": (PoolOptions,),
}


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "collect",
        run,
        CollectOptions,
        GROUPS,
        help="drive made routes and save pictures with labels from the truth",
        description="Drive routes that are made for training (never those of a benchmark) in the embedded world, and\n"
        "save the front camera's pictures with what the expert would do, and what the truth says.",
        epilog=EXAMPLES,
    )


def run(options: CollectOptions) -> int:
    """Return 0; raises Ad2Error for mistakes of the user."""
    from closedloop_plugin.learn.training_set import write_collection_set

    prepared = _prepared(options)
    begun, cpu = time.monotonic(), _cpu_s()
    total, count, done, episodes = len(prepared.tasks), 0, 0, 0
    while True:
        # At least one more than before: failed episodes have no frames. A resumed command plans the same episodes again
        # from the first on, so that a kill does not change which ones are driven.
        count = min(total, max(count + 1, _episodes_wanted(options, total, done, episodes)))
        part = prepared.tasks[:count]
        _drive(replace(prepared, tasks=part))
        done, episodes = _frames(options.out, part)
        if count == total or (options.frames is not None and done >= options.frames):
            break
    write_collection_set(options.out, map_source="" if options.towns else "corridor")
    _report(options.out, time.monotonic() - begun, _cpu_s() - cpu)
    return 0


def _frames(folder: Path, tasks: Sequence[EpisodeTask]) -> tuple[int, int]:
    """Numbers of frames of these episodes, and of those of them that have frames."""
    from closedloop_plugin.learn.collection import episode_file, frame_count

    files = [file for task in tasks if (file := episode_file(folder, task.key)).is_file()]
    return frame_count(files), len(files)


def _prepared(options: CollectOptions) -> RunConfig:
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.learn.collection import CAMERA, FOLDER, ROUTES
    from closedloop_plugin.learn.made_routes import write_routes
    from closedloop_plugin.runner.assemble import RouteSelection, RunConfig, assemble, config_identity
    from closedloop_plugin.runner.prepare import check_decision_hz, decision_rules, limits_of
    from closedloop_plugin.runner.recipe import FactoryRecipe
    from closedloop_plugin.worlds.recipes import workers_for, world_recipe
    from lmms_eval_ad2.core.options import identity_of
    from lmms_eval_ad2.storage.files import file_sha256
    from lmms_eval_ad2.storage.identity import check_folder

    rules = profile(options.profile)
    check_decision_hz(options.decision_hz, rules)
    routes = _routes(options)
    with tempfile.TemporaryDirectory() as folder:  # the collection's own file is not touched before it is checked
        write_routes(Path(folder) / ROUTES, routes)
        sha256 = file_sha256(Path(folder) / ROUTES)
    subject = RouteSelection(
        name=SUITE,
        sha256=sha256,
        all_ids=[route.id for route in routes],
        routes=routes,
        towns={file.stem: file.absolute() for file in options.towns},
        repetitions=options.rounds,
    )
    world = world_recipe("embedded", None, False, None)
    settings = {
        "folder": options.out / FOLDER,
        "camera": CAMERA,
        "every_s": options.every,
        "max_speed": rules.max_speed,
    }
    recorder = FactoryRecipe("closedloop_plugin.learn.frame_collector:FrameCollector", settings)
    config = RunConfig(
        folder=options.out,
        world=world,
        profile=rules,
        rules=decision_rules(options),
        seed=options.seed,
        recorders=(recorder,),
        limits=limits_of(options, world, workers_for(world, options.workers)),
        stop_after_unread=options.stop_after_unread,
    )
    check_folder(options.out, config_identity(config, subject))
    driver = _driver(options, rules)
    write_routes(options.out / ROUTES, routes)
    run = assemble(config, subject, driver)
    # In other runs cameras belong to the identity only if the driver sees them; here they are the result.
    cameras = [camera.sized_name for camera in driver.cameras]
    identity = {**run.identity, "every": options.every, "cameras": cameras}
    return replace(run, identity={**identity, **identity_of(options, identity)})


def _routes(options: CollectOptions) -> tuple[Route, ...]:
    from closedloop_plugin.learn.made_routes import known_suites, made_routes
    from closedloop_plugin.learn.training_set import read_training
    from closedloop_plugin.scenarios.suites.lookup import BENCH2DRIVE
    from lmms_eval_ad2.core.errors import Ad2Error

    stems = Counter(file.stem for file in options.towns)
    if twice := sorted(stem for stem, count in stems.items() if count > 1):
        raise Ad2Error(f"--towns: two files are called {twice[0]}; routes name their town by the file's name")
    if BENCH2DRIVE not in known_suites():
        show(NOT_KNOWN, file=sys.stderr)
    types = [t.strip() for t in options.types.split(",") if t.strip()] if options.types else None
    unlike: list[TrainingSet] = []
    for path in options.unlike:
        sets = read_training(path).sets
        if not any(one.routes for one in sets):
            raise Ad2Error(f"--config unlike={path}: it names no routes, so none can be left out")
        unlike += sets
    return tuple(made_routes(options.routes, options.seed, types=types, towns=options.towns, unlike=unlike))


def _driver(options: CollectOptions, rules: Profile) -> DriverSetup:
    from closedloop_plugin.driver.agents.make import SPEAKING, cameras_of
    from closedloop_plugin.learn.collecting_drivers import MixedDriver
    from closedloop_plugin.runner.assemble import DriverSetup
    from closedloop_plugin.runner.driver import driver_of
    from closedloop_plugin.runner.recipe import FactoryRecipe
    from lmms_eval_ad2.core.errors import Ad2Error

    if options.expert_share is not None and not 0 <= options.expert_share < 1:
        raise Ad2Error(f"--config expert_share={options.expert_share:g}: must be at least 0 and below 1")
    if options.expert_share is not None and options.driver in (DISTURBED, DISTURBED_SPEAKER):
        raise Ad2Error("--config expert_share is an option of --driver lmms:... or another model that answers in words")
    if options.driver == DISTURBED:
        _check_options(options, "expert")
        where = "closedloop_plugin.learn.collecting_drivers:DisturbedExpert"
        recipe = FactoryRecipe(where, {"profile": rules})
        return DriverSetup(agent=recipe.make(), agent_recipe=recipe, cameras=cameras_of(f"front@{options.size}", rules))
    speaker = options.driver == DISTURBED_SPEAKER
    spoken = _check_options(options, SPEAKING if speaker else options.driver)
    driver = driver_of(spoken, rules, options.policy)
    if speaker:
        recipe = FactoryRecipe("closedloop_plugin.learn.collecting_drivers:DisturbedSpeaker", {"profile": rules})
        return replace(driver, agent=recipe.make(), agent_recipe=recipe)
    if not options.expert_share:
        return driver
    if driver.interpreter is None or driver.agent_recipe is not None:
        raise Ad2Error(f"--config expert_share: --driver {options.driver} is no model that answers in words; omit it")
    return replace(driver, agent=MixedDriver(driver.agent, options.expert_share, rules))


def _check_options(options: CollectOptions, agent: str) -> CollectOptions:
    """The options with --agent; raises Ad2Error for those without effect. The cameras are rendered whoever drives."""
    from closedloop_plugin.runner.driver import check_driver
    from lmms_eval_ad2.core.errors import Ad2Error

    given = replace(options, agent=agent, frames=True)
    try:
        check_driver(given)
    except Ad2Error as exc:
        raise Ad2Error(str(exc).replace(f"--agent {agent}", f"--driver {options.driver}")) from None
    return given


def _drive(prepared: RunConfig) -> None:
    from closedloop_plugin.core.state import FAILED
    from closedloop_plugin.runner.run import run as drive

    for record in drive(prepared):
        if record.end in FAILED:
            show(f"left out: route {record.route_id}: fault of the {record.blamed}: {record.reason}", file=sys.stderr)


def _episodes_wanted(options: CollectOptions, total: int, frames: int, known: int) -> int:
    """Number of episodes to have driven next, so that --frames is reached without many more.

    total: of the run; frames, known: numbers of frames of the episodes so far, and of those that have frames.
    """
    if options.frames is None:
        return total
    if not frames:
        return min(FIRST_EPISODES, math.ceil(options.frames / MOST_FRAMES), total)
    missing = max(options.frames - frames, 0) * known / frames
    return min(total, known + math.ceil(missing))


def _cpu_s() -> float:
    """Processor time of this process and of its finished world processes, s."""
    import resource

    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def _report(folder: Path, seconds: float, cpu_s: float) -> None:
    from closedloop_plugin.learn.collection import frames_files, frames_of
    from lmms_eval_ad2.report.table import Table

    files = frames_files(folder)
    actions: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for file in files:
        for _, frame in frames_of(file):
            actions[frame["label"]["action"]] += 1
            reasons[frame["label"]["reason"]["kind"]] += 1
    frames = actions.total()
    print(_table("action", actions, frames, Table))
    print(_table("reason", reasons, frames, Table))
    print(f"{frames} frames of {len(files)} episodes in {folder}; {seconds:.0f} s, {cpu_s:.0f} s of processor time")


def _table(name: str, counts: Counter[str], total: int, table: Any, most: int = 12) -> str:
    rows: Sequence[tuple[object, ...]] = [
        (value, count, f"{100 * count / max(total, 1):.1f} %") for value, count in counts.most_common(most)
    ]
    return str(table((name, "frames", "share"), rows, "lrr").plain())
