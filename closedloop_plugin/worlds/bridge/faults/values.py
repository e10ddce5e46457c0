"""Values that Scenic accepts, but that cannot be meant: bounds between which nothing is drawn, negative speeds, an ego
that cannot be driven, sizes and places that are no numbers, unknown CARLA blueprints."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Collection, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any

from closedloop_plugin.core.state import VEHICLES
from closedloop_plugin.core.xml_files import FARTHEST_M
from closedloop_plugin.scenarios.looks import BLUEPRINTS
from closedloop_plugin.worlds.bridge.faults.place import line_of, of_packages
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.numbers import is_number

MOST_OBJECTS = 1000  # of a scene: Scenic compares each pair, in each of up to 2,000 attempts
LARGEST_M = 200.0  # length, width or height of an object
# Arguments of the behaviours of Scenic, its CARLA model and our library that are speeds, times or distances.
_NOT_NEGATIVE = frozenset({
    "target_speed", "turn_speed", "speed", "min_speed", "final_speed", "maxSpeed", "threshold", "avoidance_threshold",
    "due", "pace", "top", "headway", "lasts", "accel", "lag", "rest", "gap", "crawl",
})  # fmt: skip


def check_bounds(distribution: Any) -> None:
    """Raise ValueError for bounds between which nothing can be drawn, and for those that are no numbers."""
    from scenic.core.distributions import DiscreteRange, Normal, Range

    name = type(distribution).__name__
    if isinstance(distribution, Range | DiscreteRange):
        low, high = distribution.low, distribution.high
        wrong = next((x for x in (low, high) if isinstance(x, float) and not math.isfinite(x)), None)
        if wrong is not None:
            raise ValueError(f"{name}({low:g}, {high:g}): expected two numbers, found {wrong:g}")
        if isinstance(distribution, DiscreteRange) and is_number(low) and is_number(high) and low > high:
            raise ValueError(f"{name}({low:g}, {high:g}): the lower bound comes first: {name}({high:g}, {low:g})")
    elif isinstance(distribution, Normal):
        spread = distribution.stddev
        if isinstance(spread, int | float) and not spread > 0:
            raise ValueError(f"{name}: the standard deviation is {spread:g}; expected a number above 0")


def check_arguments(behavior: Any) -> None:
    """Raise ValueError for a negative speed, time or distance given to a behaviour of Scenic or of our library."""
    from scenic.core.distributions import DiscreteRange, Range

    if not of_packages(behavior.makeGenerator.__code__.co_filename):
        return
    given = inspect.signature(behavior.makeGenerator).bind(None, *behavior._args, **behavior._kwargs).arguments
    for name in _NOT_NEGATIVE & set(given):
        value = given[name]
        low = value.low if isinstance(value, Range | DiscreteRange) else value
        if is_number(low) and low < 0:
            raise ValueError(f"{type(behavior).__name__}: {name}: expected a number of 0 or more, found {low:g}")


def check_number_of_objects(objects: Sequence[Any], program: Path) -> None:
    """Raise Ad2Error for a scene that would take minutes to draw."""
    if len(objects) > MOST_OBJECTS:
        line = line_of(objects[MOST_OBJECTS], program)
        raise Ad2Error(f"{program}{line}: {len(objects)} objects; a scene has {MOST_OBJECTS} at most")


def check_scene(scene: Any, made: Sequence[Any], program: Path, in_carla: bool) -> None:
    """Raise Ad2Error for the first object of a scene that cannot exist. made: the scenario's objects, in its order;
    in_carla: the server knows its blueprints itself."""
    for one, source in zip(scene.objects, made, strict=True):
        place = f"{program}{line_of(source, program)}: "
        kind = type(one).__name__
        for name in ("width", "length", "height"):
            size = getattr(one, name)
            if not 0 < size <= LARGEST_M:
                raise Ad2Error(
                    f"{place}{name} of a {kind}: expected metres above 0, at most {LARGEST_M:g}, found {size:g}"
                )
        for name in ("position", "velocity"):
            far = next((float(x) for x in getattr(one, name) or () if not abs(float(x)) <= FARTHEST_M), None)
            if far is not None:
                raise Ad2Error(f"{place}{name} of a {kind}: expected numbers up to {FARTHEST_M:g}, found {far:g}")
        if not in_carla:
            _check_blueprint(one, place)
    ego = scene.egoObject
    if ego is not None:
        source = next((s for one, s in zip(scene.objects, made, strict=True) if one is ego), ego)
        _check_ego(ego, f"{program}{line_of(source, program)}: ")


def _check_ego(ego: Any, place: str) -> None:
    """The driver under test needs a vehicle that obeys its pedals."""
    from scenic.domains.driving.actions import Steers

    kind = str(getattr(ego, "kind", "car"))
    if not isinstance(ego, Steers) or kind not in VEHICLES:
        raise Ad2Error(
            f"{place}the ego is a {type(ego).__name__} of kind {kind}; the driver needs a vehicle: ego = new Car ..."
        )
    if getattr(ego, "rail", None) is not None:
        raise Ad2Error(f"{place}the ego has a rail, which would drive it instead of the driver: omit `with rail`")
    if getattr(ego, "gone", False):
        raise Ad2Error(f"{place}the ego is gone from the scene: omit `with gone`")


def _check_blueprint(one: Any, place: str) -> None:
    name = getattr(one, "blueprint", None)
    if name is None:
        return
    if not isinstance(name, str):
        raise Ad2Error(f"{place}blueprint: expected the name of a CARLA blueprint, found {name!r}")
    known = known_blueprints()
    if name in known:
        return
    family, _, last = name.rpartition(".")
    near = difflib.get_close_matches(name, sorted(known), 1, 0.7)
    if family == "static.prop":  # Scenic lists some of CARLA's props only
        twin = difflib.get_close_matches(last, [k.rpartition(".")[2] for k in known if k.startswith(family)], 1, 0.9)
        if not twin or twin[0].rstrip("0123456789") == last.rstrip("0123456789"):
            return
        near = [f"{family}.{twin[0]}"]
    elif family.count(".") == 1:  # vehicle.MAKE.MODEL: the other models of the make
        near = near or sorted(k for k in known if k.startswith(f"{family}."))
    hint = f"did you mean '{near[0]}'?" if near else f"they begin with: {', '.join(_families(known))}"
    raise Ad2Error(f"{place}blueprint '{name}': CARLA has no such blueprint; {hint}")


def _families(known: Collection[str]) -> list[str]:
    """The beginnings of the names of vehicles and walkers."""
    return sorted({k.rpartition(".")[0] for k in known if not k.startswith("static")})


@cache
def known_blueprints() -> frozenset[str]:
    """Blueprints of actors in the CARLA versions that the installed Scenic lists, with their former names."""
    from scenic.simulators.carla._blueprintData import _IDS
    from scenic.simulators.carla.blueprints import oldBlueprintNames

    listed = {name for version in _IDS.values() for names in version.values() for name in names}
    return frozenset({*listed, *(n for names in oldBlueprintNames.values() for n in names), *BLUEPRINTS.values()})


def checked_after(own: Callable[..., None], check: Callable[[Any], None]) -> Callable[..., None]:
    """An __init__ that checks what it has made."""

    @wraps(own)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        own(self, *args, **kwargs)
        check(self)

    return init
