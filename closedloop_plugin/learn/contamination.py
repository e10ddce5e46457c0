"""Whether routes to be driven are among those that a model was trained on, by id and by geometry.

same_geometry   the same place: `route_overlap.common_share`
same_shape      on maps built from the route: the same shape and scenario elsewhere, `route_overlap.same_shape`
same_id         the same id, without regard to case, in a route file of the same name or the same town (or not known)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from closedloop_plugin.core.routes import Route
from closedloop_plugin.learn.route_overlap import SHAPE_SHARE, SHARE, RoutePolyline, common_share, same_shape
from closedloop_plugin.learn.training_set import trained_route
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import one_line
from lmms_eval_ad2.storage.training_card import TrainedRoute, TrainingCard, TrainingSet, cards_of, trained_text

SAME_ID, SAME_GEOMETRY, SAME_SHAPE = KINDS = ("same_id", "same_geometry", "same_shape")
TOWN = "town"  # of TrainedRoute.map: the town's own map
EXAMPLES = 3


@dataclass(frozen=True)
class RouteLeak:
    """A route that a model was trained on. `trained`: its id in the training set `set`; `share`: of its length."""

    route: str
    kind: str
    set: str
    trained: str
    share: float = 1.0

    def text(self) -> str:
        share = "" if self.kind == SAME_ID else f", {100 * self.share:.0f} % of the shorter one"
        return one_line(f"{self.kind}: {self.route} is in {self.set} as {self.trained}{share}")


@dataclass(frozen=True, eq=False)
class _IndexedRoute:
    set: str
    route: TrainedRoute

    @cached_property
    def shape(self) -> RoutePolyline | None:
        return RoutePolyline.of(self.route.points)


class TrainedRoutes:
    """Index of the routes of training sets."""

    def __init__(self, sets: Iterable[TrainingSet]) -> None:
        every = [_IndexedRoute(one.name, route) for one in sets for route in one.routes]
        self.n = len(every)
        self._by_id: dict[str, list[_IndexedRoute]] = defaultdict(list)
        self._by_town: dict[str, list[_IndexedRoute]] = defaultdict(list)
        self._by_scenario: dict[str, list[_IndexedRoute]] = defaultdict(list)
        for one in every:
            self._by_id[one.route.id.casefold()].append(one)
            if one.shape is not None:
                self._by_town[town_name(one.route.town)].append(one)
                self._by_scenario[one.route.scenario].append(one)

    def leak(self, route: TrainedRoute) -> RouteLeak | None:
        """The trained route that is the same as `route`, by place, else by shape, else by id; None if there is none."""
        shape = RoutePolyline.of(route.points)
        if shape is not None:
            found = _best(SHARE, ((common_share(shape, o.shape), o) for o in self._in_town(route.town) if o.shape))
            if found:
                return RouteLeak(route.id, SAME_GEOMETRY, found[1].set, found[1].route.id, round(found[0], 3))
            if route.map != TOWN and route.scenario:
                alike = (o for o in self._by_scenario.get(route.scenario, ()) if o.route.map != TOWN)
                if found := _best(SHAPE_SHARE, ((same_shape(route, o.route), o) for o in alike)):
                    return RouteLeak(route.id, SAME_SHAPE, found[1].set, found[1].route.id, round(found[0], 3))
        named = (o for o in self._by_id.get(route.id.casefold(), ()) if _same_list(route, o.route))
        return next((RouteLeak(route.id, SAME_ID, o.set, o.route.id) for o in named), None)

    def _in_town(self, town: str) -> Iterator[_IndexedRoute]:
        """The routes of this town and of unknown ones; all, if this one is unknown."""
        name = town_name(town)
        for other, routes in self._by_town.items():
            if not name or other in (name, ""):
                yield from routes


def _best(least: float, shares: Iterable[tuple[float, _IndexedRoute]]) -> tuple[float, _IndexedRoute] | None:
    """The largest share above `least`, with its route."""
    best = max(shares, key=lambda pair: pair[0], default=None)
    return best if best is not None and best[0] > least else None


def town_name(town: str) -> str:
    """A town's name for comparisons: CARLA's Town01_Opt has the roads of Town01."""
    return town.casefold().removesuffix("_opt")


def _same_list(a: TrainedRoute, b: TrainedRoute) -> bool:
    """Whether equal ids mean the same route: an id is unique only within its file."""
    return any(not x or not y or x == y for x, y in ((a.suite, b.suite), (town_name(a.town), town_name(b.town))))


@dataclass(frozen=True)
class RouteContamination:
    """The result of a comparison of n routes. `leaks`: of those that were trained on, in their order; `cards`: of the
    models. Routes of several files may have equal ids."""

    n: int
    leaks: Sequence[RouteLeak]
    cards: tuple[TrainingCard, ...] = ()

    @property
    def kinds(self) -> Counter[str]:
        return Counter(leak.kind for leak in self.leaks)

    def text(self) -> str:
        return trained_text(self.kinds, self.n, "routes")

    def examples(self) -> list[str]:
        """The first leaks of each kind, one line each."""
        shown: Counter[str] = Counter()
        found = []
        for leak in self.leaks:
            shown[leak.kind] += 1
            found += [leak.text()] if shown[leak.kind] <= EXAMPLES else []
        return sorted(found)

    def line(self) -> str:
        """Counts and the first examples in one line."""
        named = "; ".join(self.examples()[:EXAMPLES])
        return self.text() + (f", e.g. {named}" if named else "")

    def of(self, ids: Sequence[str]) -> RouteContamination:
        """The part that concerns these routes, all of one file."""
        part = set(ids)
        return RouteContamination(len(ids), tuple(leak for leak in self.leaks if leak.route in part), self.cards)

    def to_dict(self) -> dict[str, Any]:
        """For run.json; the routes of one file."""
        routes = {leak.route: {"kind": leak.kind, "set": leak.set, "trained": leak.trained} for leak in self.leaks}
        return {"named": True, "cards": [card.about() for card in self.cards], "routes": routes}


def of_models(
    model_args: Iterable[str], routes: Iterable[Route], *, asked: Sequence[str], maps: Callable[[Route], str],
    strict: bool = False,
) -> RouteContamination | None:  # fmt: skip
    """Compare routes with what the models of these arguments name in ad2_training.json; None if none names anything.

    asked: ids of the routes that are to be driven, of all those compared; maps: "corridor" or "town", for each route.
    Raises DataError for a malformed card and, if `strict`, Ad2Error for a leak among the asked routes.
    """
    cards = [card for args in model_args for card in cards_of(args)]
    if not cards:
        return None
    found = contamination(cards, (trained_route(route, maps(route)) for route in routes))
    part = found.of(asked)
    if strict and part.leaks:
        raise Ad2Error(f"--strict-contamination: {part.line()}; nothing was driven")
    return found


def contamination(cards: Sequence[TrainingCard], routes: Iterable[TrainedRoute]) -> RouteContamination:
    """Compare routes with the training sets of models."""
    index = TrainedRoutes(one for card in cards for one in card.sets)
    wanted = list(routes)
    leaks = tuple(leak for route in wanted if (leak := index.leak(route)) is not None)
    return RouteContamination(len(wanted), leaks, tuple(cards))
