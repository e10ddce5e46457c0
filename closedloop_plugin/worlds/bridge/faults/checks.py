"""Checks of compiled programs. Scenic accepts words without a meaning (misspelt properties, parameters and attributes,
unknown lamps and doors, arguments of the library's behaviours of the wrong type), and values that cannot be meant
(bounds between which nothing is drawn, negative speeds, an ego that cannot be driven, sizes and places that are no
numbers, unknown CARLA blueprints)."""

from __future__ import annotations

import difflib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any

from closedloop_plugin.core.perception import PERCEPTION_CONDITIONS
from closedloop_plugin.core.state import VEHICLES
from closedloop_plugin.core.xml_files import FARTHEST_M
from closedloop_plugin.scenarios.catalogue import HERE
from closedloop_plugin.scenarios.known_words import DOORS, LAMPS, WHEN, UnknownWord, known_words
from closedloop_plugin.scenarios.looks import BLUEPRINTS
from closedloop_plugin.worlds.bridge.faults.names import line_with, near_of, shown_behavior
from closedloop_plugin.worlds.bridge.faults.place import line_of, of_packages
from closedloop_plugin.worlds.bridge.params import RESERVED, WEATHER
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.numbers import is_number

_TEXTS = frozenset({"kind", "side", "meet", "walks_on", "truck", "traffic", "convoy", "self"})  # arguments, no numbers
_MOVED = "the world sets it at every tick; move the actor by its rail, by actions, or by setPose(x, y, heading, speed)"
_AT_START = "it is read at the start of the episode only: with {} VALUE, where the object is made"
_WITHOUT_EFFECT = {
    **dict.fromkeys(("position", "heading", "orientation", "yaw", "speed", "velocity", "angularSpeed"), _MOVED),
    **{name: _AT_START.format(name) for name in ("kind", "role", "fixed", "blueprint", "width", "length", "height")},
}
_RAIL_OR_NOT = {"StandHidden"}  # an object without one is removed
_ROLES = ("scenario", "background", "standard")


def check_words(objects: Iterable[Any], declared: Mapping[str, Any], program: Path) -> None:
    """Raise Ad2Error for the first word of the program that would have no effect, or another than meant.

    objects: of the compiled scenario. declared: its `param`s.
    """
    text = program.read_text("utf-8-sig", errors="replace")
    names = re.findall(r"^(?:from|import|model)[ \t]+([A-Za-z_]\w*)", text, re.M)
    beside = [program.parent / f"{name}{ending}" for name in names for ending in (".scenic", ".py")]  # imported modules
    text = "\n".join([text, *(file.read_text("utf-8-sig", errors="replace") for file in beside if file.is_file())])
    _check_params(declared, program, text)
    _check_assignments(program, text)
    for one in objects:
        _check_object(one, program, text)


def _check_params(declared: Mapping[str, Any], program: Path, text: str) -> None:
    """A parameter that is never read, and is near one that the world reads."""
    known = [*WEATHER, *PERCEPTION_CONDITIONS, "route", "map", "weather"]
    for name in declared:
        near = near_of(name, known, 0.8)
        if near and name not in RESERVED and not re.search(rf"globalParameters\s*\.\s*{re.escape(name)}\b", text):
            line = line_with(program, "param", name)
            raise Ad2Error(f"{program}{line}: param {name}: the program does not use it; did you mean '{near}'?")


def _check_assignments(program: Path, text: str) -> None:
    """An attribute of `self` that is set but never read, and is near one that the world reads, or has no effect; a
    second ego, of which a driver drives the last one only."""
    egos = [text.count("\n", 0, found.start()) + 1 for found in re.finditer(r"^ego\s*=\s*new\b", text, re.M)]
    if len(egos) > 1:
        raise Ad2Error(f"{program}, line {egos[1]}: a second ego (the first: line {egos[0]}); a program has one driver")
    for name, instead in _WITHOUT_EFFECT.items():
        if re.search(rf"^\s+self\.{name}\s*=(?!=)", text, re.M):
            raise Ad2Error(f"{program}{line_with(program, f'self.{name}')}: self.{name} = ...: {instead}")
    known = ("kind", "lamps", "doors", "rail", "fixed", "gone", "behavior", "blueprint", "position", "heading", "speed")
    for name in dict.fromkeys(re.findall(r"\bself\.(\w+)\s*=(?!=)", text)):
        near = near_of(name, known)
        if near and len(re.findall(rf"\.{name}\b", text)) == len(re.findall(rf"\bself\.{name}\s*=(?!=)", text)):
            raise Ad2Error(
                f"{program}{line_with(program, f'self.{name}')}: self.{name}: not read; did you mean 'self.{near}'?"
            )


def _check_object(one: Any, program: Path, text: str) -> None:
    line = line_of(one, program)
    for name in set(one.properties) - set(type(one)._defaults):
        near = near_of(name, (known for known in type(one)._defaults if not known.startswith("_")))
        if near and not re.search(rf"\.{re.escape(name)}\b", text):
            raise Ad2Error(
                f"{program}{line}: with {name}: a {type(one).__name__} has no such property; did you mean '{near}'?"
            )
    try:
        for what, name, known in (("lamp", "lamps", LAMPS), ("door", "doors", DOORS)):
            words: Any = getattr(one, name, ())
            if isinstance(words, str):
                raise Ad2Error(f'{program}{line}: with {name} "{words}": expected a set: {{"{words}"}}')
            if not isinstance(words, Iterable):
                raise Ad2Error(f'{program}{line}: with {name} {words!r}: expected a set, such as {{"left"}}')
            if isinstance(words, set | frozenset | list | tuple):
                known_words(what, words, known)
        role = getattr(one, "role", None)
        if isinstance(role, str):
            known_words("role", [role], _ROLES)
    except UnknownWord as exc:
        raise Ad2Error(f"{program}{line}: {exc}") from exc
    _check_behavior(one, program, line)


def _check_behavior(one: Any, program: Path, line: str) -> None:
    """The arguments of a behaviour of our library, and the rail that it needs."""
    from scenic.core.distributions import needsSampling
    from scenic.core.dynamics.behaviors import Behavior

    behavior = getattr(one, "behavior", None)
    if not isinstance(behavior, Behavior) or not _is_of_library(type(behavior)):
        return
    given = inspect.signature(behavior.makeGenerator).bind(None, *behavior._args, **behavior._kwargs).arguments
    name = type(behavior).__name__
    line = line_with(program, f"{name}(") or line
    for argument, value in list(given.items())[1:]:
        if argument == "kind":
            drawn = [word for word in getattr(value, "options", ()) if isinstance(word, str)]
            for word in drawn if needsSampling(value) else [value]:
                if word not in WHEN:
                    raise Ad2Error(
                        f"{program}{line}: {name}: '{word}' is no way to measure when the ego is due; expected "
                        '"time" (seconds before the place) or "distance" (metres before it)'
                    )
        if (
            argument not in _TEXTS
            and isinstance(value, str | list | tuple | dict | bool | None.__class__)
            and value != ()
        ):
            default = inspect.signature(behavior.makeGenerator).parameters[argument].default
            if value is not default:
                raise Ad2Error(
                    f"{program}{line}: {name}: {argument}: expected a number, found {value!r}; "
                    f"its arguments: {shown_behavior(type(behavior))}"
                )
    if (
        getattr(one, "rail", None) is None
        and name not in _RAIL_OR_NOT
        and "rail" in behavior.makeGenerator.__code__.co_names
    ):
        raise Ad2Error(
            f"{program}{line}: {name} moves its actor on a rail, and this {type(one).__name__} has none: "
            "with rail rail_at(s), or rail_across(s, side)"
        )


def _is_of_library(behavior: type) -> bool:
    try:
        return Path(inspect.getfile(behavior)).parent == HERE
    except (TypeError, OSError):
        return behavior.__module__.startswith("closedloop_plugin.scenarios.")


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
    families = sorted({k.rpartition(".")[0] for k in known if not k.startswith("static")})
    hint = f"did you mean '{near[0]}'?" if near else f"they begin with: {', '.join(families)}"
    raise Ad2Error(f"{place}blueprint '{name}': CARLA has no such blueprint; {hint}")


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
