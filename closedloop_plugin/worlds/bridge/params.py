"""A program's free parameters: `param name = Range(low, high)` (or DiscreteRange, Uniform, Options, VerifaiRange ...).

Scenic draws them with the scene; `Setup.values` fixes them instead; a search chooses them. Weather parameters
(`param fog_density = Range(20, 60)`: CARLA's names, as in routes.Weather) replace the route's weather in every world.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from closedloop_plugin.core.routes import Weather
from closedloop_plugin.worlds.base import ParameterDomain
from lmms_eval_ad2.errors import Ad2Error

WEATHER = tuple(f.name for f in fields(Weather))
# What the worlds themselves put among a program's params, or read there.
RESERVED = frozenset({
    "map", "map_options", "stage", "render", "timestep", "weather", "time", "route", "address", "port", "timeout",
    "carla_map", "snapToGround", "record", "verifaiSamplerType", "verifaiSamplerParams",
    "externalSampler", "externalSamplerRejectionFeedback",
})  # fmt: skip


def space_of(scenario: Any) -> dict[str, ParameterDomain]:
    """Name -> domain of every param of a compiled scenario that is a distribution of constants."""
    return _domains(scenario.params)


def _domains(params: Mapping[str, Any]) -> dict[str, ParameterDomain]:
    from scenic.core.distributions import Distribution

    found = {}
    for name, value in params.items():
        if name in RESERVED or not isinstance(value, Distribution):
            continue
        domain = _domain(value)
        if domain is not None:
            found[name] = domain
    return found


def _domain(value: Any) -> ParameterDomain | None:
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
        return ParameterDomain(options=tuple(value.options)) if plain else None
    if isinstance(value, DiscreteRange):
        return _between(value.low, value.high, whole=True)
    if isinstance(value, Range | TruncatedNormal):
        return _between(value.low, value.high)
    return None


def _between(low: Any, high: Any, whole: bool = False) -> ParameterDomain | None:
    return ParameterDomain(float(low), float(high), whole) if _finite(low) and _finite(high) else None


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
        if not _finite(value):
            raise Ad2Error(f"param {name}: expected a number, found {value!r}")
    return replace(otherwise, **{name: float(value) for name, value in given.items()})


@contextmanager
def stated() -> Iterator[dict[str, Any]]:
    """Name -> what the program says of each of its params while it is compiled here. Scenic itself forgets those that a
    value from outside replaces, and lists that value as if the program had such a param."""
    import scenic.syntax.veneer as veneer

    found: dict[str, Any] = {}
    own = veneer.param

    def noting(params: dict[str, Any]) -> None:
        found.update(params)
        own(params)

    veneer.param = noting
    try:
        yield found
    finally:
        veneer.param = own


def check_names(values: Mapping[str, Any], program: Any) -> None:
    """Before anything is compiled: names that are the world's own cannot be set from outside."""
    taken = sorted(RESERVED & set(values))
    if taken:
        raise Ad2Error(f"{program}: {taken[0]!r} is no parameter of the scenario and cannot be set: the world needs it")


def check_values(values: Mapping[str, Any], said: Mapping[str, Any], program: Any) -> None:
    """A value for a parameter that the program does not have would change nothing, silently; one of another type would
    fail later, far away. `said`: see stated."""
    domains = _domains(said)
    for name, value in sorted(values.items()):
        if name not in said:
            free = ", ".join(domains) or "none"
            raise Ad2Error(f"{program}: has no param {name!r} to be set; its free parameters: {free}")
        domain = domains.get(name)
        wrong = _mismatch(value, domain) if domain is not None else ""
        if wrong:
            raise Ad2Error(f"{program}: param {name} is {wrong}, found {value!r}")


def _mismatch(value: Any, domain: ParameterDomain) -> str:
    """What was expected where a value is none such; numbers beyond the program's own bounds are the user's choice."""
    if domain.options:
        return "" if value in domain.options else f"one of {', '.join(map(str, domain.options))}"
    fits = _finite(value) and not (domain.whole and value != int(value))
    return "" if fits else f"a {'whole ' if domain.whole else ''}number ({domain.low:g} to {domain.high:g})"


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
