"""What of a suite's routes can be driven, found before the drive: routes that are left out, maps, scenarios.

A fault of a route, a map or a program is never a driver's 0: such a route is refused, or left out by name and out of
every mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.build import plan_for
from closedloop_plugin.maps.towns.lanes import LaneNetwork, read_town
from closedloop_plugin.maps.towns.route_trace import trace
from closedloop_plugin.scenarios.staging import staging, undrivable
from closedloop_plugin.scenarios.suites.lookup import Suite
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.report.table import few

OWN_WORLDS = ("embedded", "carla")  # others may play their own scenarios


def drivable(found: Suite, world: str) -> Suite:
    """The suite without routes of which a scenario cannot be read. Raises Ad2Error if none is left."""
    if found.programs or world not in OWN_WORLDS:
        return found
    faults = {route.id: reason for route in found.routes if (reason := undrivable(route))}
    if len(faults) == len(found.routes):
        first, reason = next(iter(faults.items()))
        raise Ad2Error(f"{found.name}: no route can be driven; route {first}: {reason}")
    return without(found, faults)


def without(found: Suite, left_out: Mapping[str, str]) -> Suite:
    """The suite without these routes. left_out: reasons by id."""
    routes = tuple(route for route in found.routes if route.id not in left_out)
    return replace(found, routes=routes, left_out={**found.left_out, **left_out}) if left_out else found


def unmapped(routes: Sequence[Route], towns: Mapping[str, Path]) -> dict[str, str]:
    """Reasons of the routes that have no map in the embedded world. `towns`: OpenDRIVE files by town."""
    networks: dict[Path, LaneNetwork] = {}
    found = {}
    for route in routes:
        file = towns.get(route.town)
        try:
            if file is None:
                plan_for(route, staging(route, in_town=False).layout)
                continue
            if file not in networks:
                networks[file] = read_town(file)
            trace(route, networks[file], file)
        except Ad2Error as exc:
            found[route.id] = str(exc)
    return found


def check_mapped(name: str, routes: Sequence[Route], towns: Mapping[str, Path], skip: bool) -> dict[str, str]:
    """The routes without a map, to be left out with `skip`. Raises Ad2Error for them without it, or if none is left.

    name: of the suite.
    """
    found = unmapped(routes, towns)
    if not found or (skip and len(found) < len(routes)):
        return found
    some = f"{len(found)} of {len(routes)} routes have no map: {few(list(found), 5)}. " if len(found) > 1 else ""
    way = "--skip-unmapped (under lmms-eval AD2_DRIVE_SKIP_UNMAPPED=1)"
    rest = f"; to drive the others: {way}" if len(found) < len(routes) else ""
    raise Ad2Error(f"{name}: {some}{next(iter(found.values()))}{rest}")


def not_played(routes: Sequence[Route], towns: Mapping[str, Path], world: str) -> dict[str, dict[str, str]]:
    """Reasons by route id and name of the scenarios that are not played; a town's map may leave out more."""
    found = {}
    for route in routes if world in OWN_WORLDS else ():
        left = staging(route, in_town=world == "carla" or route.town in towns).left
        if left:
            found[route.id] = dict(left)
    return found
