"""Recipes from which workers create a world, by the world's name."""

from __future__ import annotations

import itertools
import math
from typing import Any

from closedloop_plugin.carla.maps.from_server import address
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.scenarios.suites.lookup import data_home
from lmms_eval_ad2.core.errors import Ad2Error, require

WORLDS = {
    "embedded": "closedloop_plugin.worlds.embedded.world:EmbeddedWorld",
    "carla": "closedloop_plugin.carla.world.world:CarlaWorld",
}
SERVER = "127.0.0.1:2000"  # CARLA's own default


def world_recipe(
    name: str, servers: str | None = None, any_version: bool = False, wait_s: float | None = None
) -> FactoryRecipe:
    """`name`: one of WORLDS, or a custom world as MODULE:CALLABLE. `servers`: "host:port,..." of CARLA, one per worker;
    `wait_s`: seconds until one must answer."""
    if name != "carla" and (servers or any_version or wait_s is not None):
        raise Ad2Error(
            f"--servers, --config server_wait and --config any_version belong to --world carla; the world "
            f"here is {name}"
        )
    if wait_s is not None and not 0 < wait_s < math.inf:
        raise Ad2Error(f"--config server_wait={wait_s:g}: a number of seconds, above 0")
    if ":" in name:
        return FactoryRecipe(name)
    if name not in WORLDS:
        raise Ad2Error(f"--world {name}: known: {', '.join(WORLDS)}, or a custom one as MODULE:CALLABLE")
    arguments: dict[str, Any] = {"folder": data_home() / "maps"}
    if name != "carla":
        return FactoryRecipe(WORLDS[name], arguments)
    require("carla", "for the world carla")
    if any_version:
        arguments["any_version"] = True
    if wait_s is not None:
        arguments["wait_s"] = wait_s
    named = _servers(SERVER if servers is None else servers)
    return FactoryRecipe(WORLDS[name], arguments, tuple({"server": server} for server in named))


def _servers(text: str) -> list[str]:
    """Distinct servers, with ports apart on one host: two worlds on one server would disturb each other's episodes."""
    named: dict[tuple[str, int], str] = {}
    for server in filter(None, map(str.strip, text.split(","))):
        host, port = address(server, "--servers")
        named.setdefault(("127.0.0.1" if host.lower() == "localhost" else host.lower(), port), server)
    if not named:
        raise Ad2Error(f"--servers {text!r}: expected host:port with commas between, such as localhost:2000")
    for a, b in itertools.pairwise(sorted(named)):
        if a[0] == b[0] and b[1] - a[1] < 3:
            raise Ad2Error(
                f"--servers {text}: ports {a[1]} and {b[1]} are too close: a CARLA server also uses the two ports "
                "after its own; leave ten between"
            )
    return list(named.values())


def workers_for(world: FactoryRecipe, wanted: int | None) -> int:
    """Number of workers: `wanted` or 1. With CARLA at most one per server, the default: it runs one world at a time."""
    most = len(world.each)
    if most and (wanted or 0) > most:
        raise Ad2Error(f"--workers {wanted}: a CARLA server runs one world at a time; --servers names {most}")
    return wanted or most or 1
