"""The world of a command: its options, its recipe and the limits of its workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmms_eval_ad2.options import option

if TYPE_CHECKING:
    from closedloop_plugin.cli.drive.options import PoolOptions
    from closedloop_plugin.runner.pool import PoolLimits
    from closedloop_plugin.runner.recipe import FactoryRecipe


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
