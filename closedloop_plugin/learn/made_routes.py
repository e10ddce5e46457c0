"""made_routes: routes of all scenario types that nobody has taken from a benchmark, for training; and write_routes.

A made route is a road or junction of random shape at a random place with a scenario of the catalogue whose parameters
are drawn, too. It depends only on the seed and on its number: the first 100 of 1000 routes are the routes of 100.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from closedloop_plugin.core.frames import from_carla, to_carla, wrap
from closedloop_plugin.core.routes import Pose, Route, Weather
from closedloop_plugin.learn.contamination import TrainedRoutes, trained_route
from closedloop_plugin.learn.route_draws import RouteDraws, drawn_weather
from closedloop_plugin.learn.route_parameters import RECIPES
from closedloop_plugin.learn.town_shapes import IN_TOWNS, MadeTown
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.scenarios.suites import lookup
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.training_card import TrainingSet

MADE_ID = re.compile(r"m-?\d+-\d{6,}")
TOWN = "Made"  # name of the place of routes without a town
FAR_M = 3000.0  # coordinates are drawn up to this distance from the origin
TOWN_SHARE = 0.5  # of the routes of a type that fits in towns, if towns are given
ATTEMPTS = 50  # draws of one route, until it repeats no known one


def made_routes(
    count: int, seed: int, *, types: Sequence[str] | None = None, towns: Sequence[Path] = (),
    unlike: Iterable[TrainingSet] = (),
) -> list[Route]:  # fmt: skip
    """`count` routes with ids m<seed>-000000, ...; every `len(types)` of them contain each type once, in random order.

    Ids are unique together with those of `unlike`: a block of `len(types)` numbers of which it has one is left out.

    types: scenario types of the catalogue (default: all 44). towns: OpenDRIVE files TOWN.xodr; about half of the routes
    of the types in `town_shapes.IN_TOWNS` are then at random places of one of them, if it has one that fits. No route
    repeats one of the demo, of Bench2Drive as far as its file is added, of another added suite, or of the sets `unlike`
    (those that a model is trained on, if its questions are to be about others), by the same comparison by which a
    model's training routes are found (contamination.py).
    Raises Ad2Error for an unknown type, an unreadable town, or if no route of a type is left.
    """
    names = list(CATALOGUE) if types is None else list(types)
    unknown = [name for name in names if name not in RECIPES]
    if unknown or not names:
        raise Ad2Error(f"no such scenario type: {', '.join(unknown) or 'none given'}; known are {', '.join(RECIPES)}")
    sets = list(unlike)
    known = TrainedRoutes([known_set(known_routes()), *sets])
    taken = {route.id for one in sets for route in one.routes}
    places = [MadeTown(Path(file)) for file in towns]
    return [
        _made(seed, number, name, known, places)
        for number, name in itertools.islice(_numbered(seed, names, taken), count)
    ]


def _numbered(seed: int, names: Sequence[str], taken: Collection[str]) -> Iterator[tuple[int, str]]:
    """Numbers of routes with their types, without end; no block of a `taken` id."""
    for block in itertools.count():
        numbers = range(block * len(names), (block + 1) * len(names))
        if not any(_id(seed, number) in taken for number in numbers):
            yield from zip(numbers, RouteDraws(seed, "types", block).order(names), strict=True)


def _id(seed: int, number: int) -> str:
    return f"m{seed}-{number:06d}"


def write_routes(file: Path, routes: Iterable[Route]) -> None:
    """Write a route file of leaderboard 2.0, atomically; core.routes.read_routes reads it."""
    with atomic_write(Path(file)) as handle:
        handle.write('<?xml version="1.0" encoding="UTF-8"?>\n<routes>\n')
        for route in routes:
            handle.write("\n".join(_xml(route)) + "\n")
        handle.write("</routes>\n")


def known_routes() -> list[Route]:
    """All routes that a made one must not repeat: of `known_suites`, without made ones."""
    found = [replace(route, suite=name) for name in known_suites() for route in lookup.suite(name, None).routes]
    return [route for route in found if not MADE_ID.fullmatch(route.id)]


def known_suites() -> list[str]:
    """The demo and every added suite."""
    names = {"demo", *(file.stem for file in lookup.routes_home().glob("*.xml"))}
    return sorted(names | ({lookup.BENCH2DRIVE} if os.environ.get(lookup.VARIABLE) else set()))


def known_set(routes: Iterable[Route]) -> TrainingSet:
    """Routes that a made one must not repeat."""
    return TrainingSet("known", routes=tuple(trained_route(route) for route in routes))


def _made(seed: int, number: int, name: str, known: TrainedRoutes, towns: Sequence[MadeTown]) -> Route:
    for attempt in range(ATTEMPTS):
        draws = RouteDraws(seed, number, name, attempt)
        route = _drawn(_id(seed, number), name, draws, towns)
        if known.leak(trained_route(route)) is None:
            return route
    raise Ad2Error(f"route {number} of seed {seed}: {ATTEMPTS} drawn {name} routes repeat known ones")


def _drawn(id_: str, name: str, draws: RouteDraws, towns: Sequence[MadeTown]) -> Route:
    """A route at a random place with a random heading, with the precision of a route file."""
    shape, params = RECIPES[name](draws)
    weather = drawn_weather(draws)
    move = (draws.between(-FAR_M, FAR_M), draws.between(-FAR_M, FAR_M), math.radians(draws.between(-180, 180, 3)))
    town = TOWN
    if towns and name in IN_TOWNS and draws.chance(TOWN_SHARE):
        found = next(((place, s) for place in draws.order(towns) if (s := place.shape(draws, name, shape.size))), None)
        if found is not None:
            town, shape, move = found[0].name, found[1], (0.0, 0.0, 0.0)
    points = [_moved((float(x), float(y), 0.0), move)[:2] for x, y in shape.points]
    return Route(
        id=id_,
        town=town,
        points=tuple(points),
        scenario=name,
        scenario_name=f"{name}_1",
        trigger=_moved(shape.trigger, move),
        params={key: _moved(value, move) if _is_pose(value) else value for key, value in params.items()},
        weather=weather,
    )


def _moved(pose: Pose, move: Pose) -> Pose:
    """A pose rotated and translated, rounded to what a route file contains: 0.01 m and 0.01 degrees."""
    c, s = math.cos(move[2]), math.sin(move[2])
    x, y = move[0] + pose[0] * c - pose[1] * s, move[1] + pose[0] * s + pose[1] * c
    east, south, degrees = to_carla(x, y, wrap(pose[2] + move[2]))
    return from_carla(round(east, 2), round(south, 2), round(degrees, 2))


def _is_pose(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 3


def _xml(route: Route) -> list[str]:
    weather = " ".join(f'{f.name}="{getattr(route.weather, f.name)!r}"' for f in fields(Weather))
    places = (f'      <position x="{x:.3f}" y="{-y:.3f}" z="0.0"/>' for x, y in route.points)
    return [
        f"  <route id={quoteattr(route.id)} town={quoteattr(route.town)}>",
        "    <waypoints>",
        *places,
        "    </waypoints>",
        "    <scenarios>",
        f"      <scenario name={quoteattr(route.scenario_name)} type={quoteattr(route.scenario)}>",
        f"        <trigger_point {_place(route.trigger)}/>",
        *(f"        <{name} {_parameter(value)}/>" for name, value in route.params.items()),
        "      </scenario>",
        "    </scenarios>",
        "    <weathers>",
        f'      <weather route_percentage="0" {weather}/>',
        "    </weathers>",
        "  </route>",
    ]


def _parameter(value: Any) -> str:
    if _is_pose(value):
        return _place(value)
    if isinstance(value, tuple):
        return f'from="{value[0]!r}" to="{value[1]!r}"'
    return f"value={quoteattr(value if isinstance(value, str) else repr(value))}"


def _place(pose: Pose) -> str:
    x, y, degrees = to_carla(*pose)
    return f'x="{x:.3f}" y="{y:.3f}" z="0.0" yaw="{degrees:.4f}"'
