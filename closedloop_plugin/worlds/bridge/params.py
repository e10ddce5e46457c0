"""A program's free parameters: `param name = Range(low, high)` (or DiscreteRange, Uniform, Options, VerifaiRange ...).

Scenic draws them with the scene; `Setup.values` fixes them instead; a search chooses them. Weather parameters
(`param fog_density = Range(20, 60)`: CARLA's names, as in routes.Weather) replace the route's weather in every world.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from closedloop_plugin.routes import Weather
from closedloop_plugin.worlds.base import Domain
from lmms_eval_ad2.errors import Ad2Error

WEATHER = tuple(f.name for f in fields(Weather))
# What the worlds themselves put among a program's params, or read there.
RESERVED = frozenset({
    "map", "map_options", "stage", "render", "timestep", "weather", "time", "route", "address", "port", "timeout",
    "carla_map", "snapToGround", "record", "verifaiSamplerType", "verifaiSamplerParams",
    "externalSampler", "externalSamplerRejectionFeedback",
})  # fmt: skip


def space_of(scenario: Any) -> dict[str, Domain]:
    """Name -> domain of every param of a compiled scenario that is a distribution of constants."""
    from scenic.core.distributions import Distribution

    found = {}
    for name, value in scenario.params.items():
        if name in RESERVED or not isinstance(value, Distribution):
            continue
        domain = _domain(value)
        if domain is not None:
            found[name] = domain
    return found


def _domain(value: Any) -> Domain | None:
    """None for one that has no bounds or depends on others (it is drawn, but nothing can search it)."""
    from scenic.core.distributions import DiscreteRange, Options, Range, TruncatedNormal
    from scenic.core.external_params import VerifaiDiscreteRange, VerifaiRange

    if isinstance(value, VerifaiRange):
        (low, high), *_ = value.domain.intervals
        return _between(low, high)
    if isinstance(value, VerifaiDiscreteRange):
        (low, high), *_ = value.domain.intervals
        return _between(low, high, whole=True)
    if isinstance(value, Options):
        plain = all(isinstance(o, str | int | float | bool) for o in value.options)
        return Domain(options=tuple(value.options)) if plain else None
    if isinstance(value, DiscreteRange):
        return _between(value.low, value.high, whole=True)
    if isinstance(value, Range | TruncatedNormal):
        return _between(value.low, value.high)
    return None


def _between(low: Any, high: Any, whole: bool = False) -> Domain | None:
    constant = all(isinstance(v, int | float) and math.isfinite(v) for v in (low, high))
    return Domain(float(low), float(high), whole) if constant else None


def drawn_of(scenario: Any, scene: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """What the free parameters became in this scene, those fixed from outside included."""
    from scenic.core.distributions import Distribution

    names = {n for n, v in scenario.params.items() if n not in RESERVED and isinstance(v, Distribution)} | set(values)
    found = {name: scene.params[name] for name in sorted(names)}
    return {name: _plain(value) for name, value in found.items() if isinstance(value, str | int | float | bool)}


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, float) else value


def weather_of(scene: Any, otherwise: Weather) -> Weather:
    """The weather with the parameters that the program names."""
    given = {name: scene.params[name] for name in WEATHER if name in scene.params}
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise Ad2Error(f"param {name}: expected a number, found {value!r}")
    return replace(otherwise, **{name: float(value) for name, value in given.items()})


def check_values(values: Mapping[str, Any], scenario: Any, program: Any) -> None:
    """A value for a parameter that the program does not have would change nothing, silently."""
    strange = sorted(set(values) - set(scenario.params))
    if strange:
        free = ", ".join(space_of(scenario)) or "none"
        raise Ad2Error(f"{program}: has no param {strange[0]!r} to be set; its free parameters: {free}")
