"""Words of compiled programs that Scenic accepts without a meaning: misspelt properties, parameters and attributes,
unknown lamps and doors, arguments of the library's behaviours of the wrong type."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from closedloop_plugin.core.perception import PERCEPTION_CONDITIONS
from closedloop_plugin.scenarios.catalogue import HERE
from closedloop_plugin.scenarios.known_words import DOORS, LAMPS, WHEN, UnknownWord, known_words
from closedloop_plugin.worlds.bridge.faults.names import line_with, near_of, shown_behavior
from closedloop_plugin.worlds.bridge.faults.place import line_of
from closedloop_plugin.worlds.bridge.params import RESERVED, WEATHER
from lmms_eval_ad2.core.errors import Ad2Error

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
    text = _texts(program)
    _check_params(declared, program, text)
    _check_assignments(program, text)
    for one in objects:
        _check_object(one, program, text)


def _texts(program: Path) -> str:
    """The program, and the modules beside it that it imports."""
    text = program.read_text("utf-8-sig", errors="replace")
    names = re.findall(r"^(?:from|import|model)[ \t]+([A-Za-z_]\w*)", text, re.M)
    files = [program.parent / f"{name}{ending}" for name in names for ending in (".scenic", ".py")]
    return "\n".join([text, *(file.read_text("utf-8-sig", errors="replace") for file in files if file.is_file())])


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
        if argument == "kind" and not needsSampling(value) and value not in WHEN:
            raise Ad2Error(
                f"{program}{line}: {name}: '{value}' is no way to measure when the ego is due; expected "
                '"time" (seconds before the place) or "distance" (metres before it)'
            )
        if argument == "kind" and needsSampling(value):
            _check_options(value, f"{program}{line}: {name}")
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
    if getattr(one, "rail", None) is None and name not in _RAIL_OR_NOT and "rail" in _attributes(type(behavior)):
        raise Ad2Error(
            f"{program}{line}: {name} moves its actor on a rail, and this {type(one).__name__} has none: "
            "with rail rail_at(s), or rail_across(s, side)"
        )


def _check_options(value: Any, place: str) -> None:
    """The words between which a random `kind` is chosen."""
    for option in getattr(value, "options", ()):
        if isinstance(option, str) and option not in WHEN:
            raise Ad2Error(
                f"{place}: '{option}' is no way to measure when the ego is due; expected "
                '"time" (seconds before the place) or "distance" (metres before it)'
            )


def _attributes(behavior: type) -> Sequence[str]:
    return behavior.makeGenerator.__code__.co_names  # type: ignore[attr-defined]


def _is_of_library(behavior: type) -> bool:
    try:
        return Path(inspect.getfile(behavior)).parent == HERE
    except (TypeError, OSError):
        return behavior.__module__.startswith("closedloop_plugin.scenarios.")
