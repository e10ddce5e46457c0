"""The options that say in which world a command drives."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from closedloop_plugin.runner.pool import PoolLimits
    from closedloop_plugin.runner.recipe import FactoryRecipe


def register_world(what: Any) -> None:
    """--world and what belongs to it."""
    what.add_argument(
        "--world", default="embedded", metavar="NAME", help="embedded, carla, or an own one as MODULE:CALLABLE"
    )
    what.add_argument(
        "--servers",
        metavar="HOST:PORT,...",
        help="CARLA servers, a worker each (default 127.0.0.1:2000); see ad2 carla",
    )
    what.add_argument(
        "--server-wait",
        type=float,
        metavar="S",
        help="how long a CARLA server may take until it answers, as when it is started anew (default 60)",
    )
    what.add_argument("--any-version", action="store_true", help="take a CARLA server of another version too")


def world_of(args: argparse.Namespace) -> tuple[FactoryRecipe, int]:
    """The world's recipe and how many workers drive in it."""
    from closedloop_plugin.worlds.recipes import workers_for, world_recipe

    recipe = world_recipe(args.world, args.servers, args.any_version, args.server_wait)
    return recipe, workers_for(recipe, args.workers)


def limits_of(args: argparse.Namespace, world: FactoryRecipe, workers: int) -> PoolLimits:
    """Loading a large town in CARLA may take five minutes, in which nothing is heard of it."""
    from closedloop_plugin.runner.pool import PoolLimits

    return PoolLimits(workers, args.retries, args.world_timeout or (360.0 if world.each else 180.0))
