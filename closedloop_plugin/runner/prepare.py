"""The run of the options of `ad2 drive run`, with its models loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile, profile
from closedloop_plugin.driver.agent import Agent
from closedloop_plugin.driver.agents.model_backend import ModelBackend
from closedloop_plugin.runner.assemble import RouteSelection, RunConfig, assemble, config_identity
from closedloop_plugin.runner.decisions import DecisionRules, read_latency
from closedloop_plugin.runner.driver import check_driver, driver_of
from closedloop_plugin.runner.options import (
    DriveRunOptions,
    EngineOptions,
    PoolOptions,
    SimulatedDecisionOptions,
    WorldOptions,
)
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.routes import program_subject, suite_subject
from closedloop_plugin.runner.task import shard
from closedloop_plugin.runner.training_data import selected, training_note, training_of
from closedloop_plugin.runner.world_processes import LocalEngine, WorldEngine
from closedloop_plugin.worlds.recipes import workers_for, world_recipe
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import identity_of
from lmms_eval_ad2.storage.identity import check_folder

TRACK = FactoryRecipe("closedloop_plugin.report.track_log:TrackLog")


FRAMES = "closedloop_plugin.runner.worker:FrameRecorder"


VIDEO = "closedloop_plugin.report.video:VideoRecorder"


def prepare(options: DriveRunOptions, given: ModelBackend | Agent | None = None, quiet: bool = False) -> RunConfig:
    """Return the run with its models loaded and all options checked; nothing is driven yet.

    `given`: the fast system that `options.agent` only names, see make_agent.
    """
    check_options(options)
    routes, config = routes_of(options), config_of(options, quiet)
    check_folder(options.out, config_identity(config, routes))  # before a model is loaded, which takes minutes
    training = None if given is not None else training_of(options, routes)
    # The engine before models, whose replicas may run in its cluster.
    engine = engine_of(options, config.world, config.limits.workers)
    driver = driver_of(options, config.profile, options.policy, given)
    config = replace(config, engine=engine, recorders=_recorders(options, driver.cameras))
    run = assemble(config, routes, driver)
    # The runner records resolved values; an option without such a key is recorded as given.
    identity = {**run.identity, **identity_of(options, run.identity)}
    return replace(run, identity=identity, selection=selected(run.selection, options, training))


def routes_of(options: DriveRunOptions) -> RouteSelection:
    if options.scenario:
        return program_subject(options, options.scenario)
    return suite_subject(options, options.suite or "")


def config_of(options: DriveRunOptions, quiet: bool = False) -> RunConfig:
    """The settings of the run, without routes and driver."""
    world, workers = world_of(options, options.workers)
    return RunConfig(
        folder=options.out,
        world=world,
        profile=profile(options.profile),
        rules=decision_rules(options),
        seed=options.seed,
        traffic=not options.no_traffic,
        track=TRACK,
        limits=limits_of(options, world, workers),
        stop_after_unread=options.stop_after_unread,
        retry_failed=options.retry_failed,
        quiet=quiet,
    )


def trained_note(options: DriveRunOptions, run: RunConfig) -> tuple[str, ...]:
    """One line if a model was trained on routes of the run."""
    assert run.routes is not None
    note = training_note(run.selection, [route.id for route in run.routes.routes])
    return (f"{options.agent}: {note}",) if note else ()


def check_options(options: DriveRunOptions) -> None:
    """Raise Ad2Error for options that exclude each other or have no effect."""
    check_decision_hz(options.decision_hz, profile(options.profile))
    if options.map and not options.scenario:
        raise Ad2Error("--map is an option of --scenario; maps of routes come from --towns DIR")
    for name, value in (("route", options.route), ("set", options.set)):
        if value and not options.scenario:
            raise Ad2Error(f"--{name} is an option of --scenario FILE.scenic")
    if options.fresh_draws and options.scenario:
        raise Ad2Error("--config fresh_draws is an option of --suite FOLDER; a --scenario is drawn with --seed")
    if options.fresh_draws and options.repetitions > 1:
        raise Ad2Error("--config fresh_draws: each draw is driven once; omit --repetitions")
    shard([], options.shard)
    check_driver(options)


def check_decision_hz(hz: float | None, rules: Profile) -> None:
    if hz is not None and not 0 < hz <= rules.hz:
        raise Ad2Error(
            f"--config decision_hz={hz:g}: must be above 0 and at most {rules.hz:g}, the simulation's rate under the "
            f"profile {rules.name}"
        )


def decision_rules(options: SimulatedDecisionOptions) -> DecisionRules:
    return DecisionRules(policy=options.policy, decision_hz=options.decision_hz, latency=read_latency(options.latency))


def _recorders(options: DriveRunOptions, cameras: Sequence[Camera]) -> tuple[FactoryRecipe, ...]:
    names, folder = [c.name for c in cameras], options.out / "frames"
    frames = [FactoryRecipe(FRAMES, {"folder": folder, "cameras": names})] if options.frames else []
    videos = [FactoryRecipe(VIDEO, {"folder": folder, "camera": names[0]})] if options.video else []
    return (*frames, *videos)


def world_of(options: WorldOptions, workers: int | None) -> tuple[FactoryRecipe, int]:
    """Return the world's recipe and the number of workers; `workers`: value of --workers."""
    recipe = world_recipe(options.world, options.servers, options.any_version, options.server_wait)
    return recipe, workers_for(recipe, workers)


def limits_of(options: PoolOptions, world: FactoryRecipe, workers: int) -> PoolLimits:
    """Loading a large town in CARLA may take five minutes without any message."""
    timeout_s = options.world_timeout or (360.0 if world.each else 180.0)
    return PoolLimits(workers=workers, retries=options.retries, world_timeout_s=timeout_s)


def engine_of(options: EngineOptions, world: FactoryRecipe, workers: int) -> WorldEngine:
    """Return the engine; with Ray, connected to its cluster."""
    if options.engine == "local":
        if options.ray_address is not None:
            raise Ad2Error(f"--config ray_address={options.ray_address}: belongs to --config engine=ray")
        return LocalEngine()
    from closedloop_plugin.runner.cluster.world_actors import RayEngine

    return RayEngine(options.ray_address, workers, len(world.each))
