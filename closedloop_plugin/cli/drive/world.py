"""The world of a command: its options, its recipe and the limits of its workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lmms_eval_ad2.core.options import option

if TYPE_CHECKING:
    from closedloop_plugin.cli.drive.options import PoolOptions
    from closedloop_plugin.runner.pool import PoolLimits
    from closedloop_plugin.runner.recipe import FactoryRecipe
    from closedloop_plugin.runner.world_processes import WorldEngine


@dataclass(frozen=True, kw_only=True)
class WorldOptions:
    """--world and the options of CARLA servers."""

    world: str = option(
        "embedded (default), carla, or a custom world as MODULE:CALLABLE",
        default="embedded",
        metavar="NAME",
        identity="world",
    )
    servers: str | None = option(
        "CARLA servers, one worker each (default 127.0.0.1:2000); see ad2 carla", default=None, metavar="HOST:PORT,..."
    )
    server_wait: float | None = option(
        "seconds to wait for an answer of a CARLA server, e.g. while it restarts (default 60)", default=None,
        metavar="S",
    )  # fmt: skip
    any_version: bool = option("accept a CARLA server of another version", default=False)


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Where the worlds run. Results do not depend on it, so a folder may be resumed by another engine."""

    engine: Literal["local", "ray"] = option(
        "where the worlds run: local (default), in processes of this machine; ray, on the nodes of a Ray cluster",
        default="local",
    )
    ray_address: str | None = option(
        "with --engine ray: HOST:PORT of a cluster of which this machine is a node, or auto (default: Ray is started "
        "on this machine)", default=None, metavar="ADDRESS",
    )  # fmt: skip


def engine_of(options: EngineOptions, world: FactoryRecipe, workers: int) -> WorldEngine:
    """Return the engine; with Ray, connected to its cluster."""
    from closedloop_plugin.runner.world_processes import LocalEngine
    from lmms_eval_ad2.core.errors import Ad2Error

    if options.engine == "local":
        if options.ray_address is not None:
            raise Ad2Error(f"--ray-address {options.ray_address}: belongs to --engine ray")
        return LocalEngine()
    from closedloop_plugin.runner.cluster.world_actors import RayEngine

    return RayEngine(options.ray_address, workers, len(world.each))


def world_of(options: WorldOptions, workers: int | None) -> tuple[FactoryRecipe, int]:
    """Return the world's recipe and the number of workers; `workers`: value of --workers."""
    from closedloop_plugin.worlds.recipes import workers_for, world_recipe

    recipe = world_recipe(options.world, options.servers, options.any_version, options.server_wait)
    return recipe, workers_for(recipe, workers)


def limits_of(options: PoolOptions, world: FactoryRecipe, workers: int) -> PoolLimits:
    """Loading a large town in CARLA may take five minutes without any message."""
    from closedloop_plugin.runner.pool import PoolLimits

    timeout_s = options.world_timeout or (360.0 if world.each else 180.0)
    return PoolLimits(workers=workers, retries=options.retries, world_timeout_s=timeout_s)
