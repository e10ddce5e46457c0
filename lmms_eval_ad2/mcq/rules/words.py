"""Closed vocabularies of driving annotations: numbers, classes, colours, directions, states, and what each excludes."""

from __future__ import annotations

import re
from collections.abc import Mapping

Shares = Mapping[str, float]

# Shares of the counts among DriveLM's annotations, roughly: a wrong count is drawn as often as it is right elsewhere.
COUNTS: Shares = {"one": 0.45, "two": 0.27, "many": 0.14, "three": 0.12, "four": 0.02}
CLASS_SHARES: Shares = {
    "car": 0.3, "truck": 0.2, "barrier": 0.14, "pedestrian": 0.1, "traffic cone": 0.08, "trailer": 0.08, "bus": 0.05,
    "construction vehicle": 0.04, "obstacle": 0.02, "motorcycle": 0.01, "bicycle": 0.01,
}  # fmt: skip
STATE_SHARES: Shares = {"moving": 0.6, "parked": 0.33, "stopped": 0.05, "standing": 0.02}
ACTION_SHARES: Shares = {
    "keep": 0.4, "stationary": 0.33, "brake_stop": 0.15, "slow": 0.06, "turn_left": 0.05, "turn_right": 0.04,
    "accelerate": 0.03, "back": 0.01,
}  # fmt: skip
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "many", "several", "some")
# class -> classes that it can be confused with
CLASSES: Mapping[str, tuple[str, ...]] = {
    "car": ("truck", "bus", "motorcycle"), "truck": ("bus", "car", "trailer"), "bus": ("truck", "trailer", "car"),
    "trailer": ("truck", "bus", "car"), "construction vehicle": ("truck", "bus", "trailer"),
    "barrier": ("traffic cone", "trailer", "pedestrian"), "traffic cone": ("barrier", "pedestrian", "motorcycle"),
    "pedestrian": ("traffic cone", "bicycle", "barrier"), "motorcycle": ("bicycle", "pedestrian", "car"),
    "bicycle": ("motorcycle", "pedestrian", "car"), "obstacle": ("pedestrian", "truck", "car"),
}  # fmt: skip
NO_VEHICLES = frozenset(("barrier", "traffic cone", "obstacle", "pedestrian"))
# Looks: a colour, or a kind of vehicle, and those that nobody takes it for.
COLOURS: Mapping[str, tuple[str, ...]] = {
    "white": ("black", "red", "blue"), "black": ("white", "red", "yellow"), "gray": ("red", "blue", "yellow"),
    "grey": ("red", "blue", "yellow"), "silver": ("red", "blue", "black"), "red": ("white", "black", "blue"),
    "blue": ("white", "red", "yellow"), "green": ("white", "red", "black"), "yellow": ("white", "black", "blue"),
    "brown": ("white", "red", "blue"), "golden": ("black", "white", "blue"), "orange": ("white", "black", "blue"),
    "champagne-colored": ("black", "blue", "red"), "purple": ("white", "black", "yellow"),
}  # fmt: skip
KINDS: Mapping[str, tuple[str, ...]] = {
    "sedan": ("truck", "van", "bus"), "suv": ("truck", "bus", "sedan"), "car": ("truck", "bus", "van"),
    "truck": ("sedan", "bus", "van"), "van": ("sedan", "truck", "bus"), "bus": ("truck", "sedan", "van"),
    "trailer": ("bus", "sedan", "van"), "motorcycle": ("bicycle", "sedan", "van"),
    "bicycle": ("motorcycle", "sedan", "van"), "pedestrian": ("cyclist", "motorcyclist", "dog"),
    "cyclist": ("pedestrian", "motorcyclist", "dog"),
}  # fmt: skip
SIGNS: Shares = {"red light": 0.35, "green light": 0.3, "yellow light": 0.1, "no entry": 0.15, "stop sign": 0.1}
STATES: Mapping[str, tuple[str, ...]] = {
    "moving": ("parked", "stopped"), "parked": ("moving", "stopped"), "stopped": ("moving", "parked"),
    "standing": ("moving", "sitting"),
}  # fmt: skip
MOTIONS: Mapping[str, tuple[str, ...]] = {
    "going ahead": ("turning left", "turning right", "stationary"),
    "turning left": ("going ahead", "turning right", "stationary"),
    "turning right": ("going ahead", "turning left", "stationary"),
    "stationary": ("going ahead", "turning left", "turning right"),
}  # fmt: skip
SPEEDS = ("not moving", "driving slowly", "driving with normal speed", "driving fast", "driving very fast")
LANES: Mapping[str, tuple[str, ...]] = {
    "ego": ("left", "right", "oncoming"), "left": ("right", "ego", "oncoming"),
    "right": ("left", "ego", "oncoming"), "oncoming": ("ego", "right", "left"),
}  # fmt: skip
LIGHTS: Mapping[str, tuple[str, ...]] = {
    "red": ("green", "yellow"), "green": ("red", "yellow"), "yellow": ("red", "green"),
    "go straight": ("turn left", "turn right"), "turn left": ("turn right", "go straight"),
    "turn right": ("turn left", "go straight"), "no entry": ("no parking", "stop sign"),
}  # fmt: skip
_OPPOSITE = {"front": "back", "back": "front", "left": "right", "right": "left"}


def directions_instead(direction: str) -> tuple[str, ...]:
    """Directions that exclude `direction`: left and right, or front and back, exchanged; then the two sides."""
    ends = direction.split()
    if len(ends) == 2:
        along, across = ends
        return f"{along} {_OPPOSITE[across]}", f"{_OPPOSITE[along]} {across}", f"{_OPPOSITE[along]} {_OPPOSITE[across]}"
    sides = ("left", "right") if direction in ("front", "back") else ("front", "back")
    return _OPPOSITE[direction], *sides


def plural(kind: str, count: str) -> str:
    """The class in the grammatical number that `count` ("one", "two", "many") requires."""
    if count == "one":
        return kind
    return kind + ("es" if kind.endswith(("s", "x")) else "s")


def singular(kind: str) -> str:
    if kind.endswith("buses"):
        return kind[:-2]
    return kind[:-1] if kind.endswith("s") and not kind.endswith("bus") else kind


def be(count: str) -> str:
    return "is" if count == "one" else "are"


def with_article(phrase: str) -> str:
    return f"{'an' if re.match('[aeio]', phrase, re.IGNORECASE) or phrase.startswith('SUV') else 'a'} {phrase}"


def capital_like(text: str, like: str) -> str:
    """`text` with an initial capital if `like` has one; an abbreviation ("SUV") is no example."""
    return text[:1].upper() + text[1:] if like[:1].isupper() and not like.isupper() else text


def any_of(words: object) -> str:
    """A regular expression for any of the words, the longest first."""
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))  # type: ignore[call-overload]
