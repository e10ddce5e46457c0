"""A program's free parameters: `param name = Range(low, high)` (or DiscreteRange, Uniform, Options, VerifaiRange ...).

Scenic draws them with the scene, unless EpisodeSetup.values fixes them; a search chooses such values. Weather
parameters (`param fog_density = Range(20, 60)`, CARLA's names as in routes.Weather) replace the route's weather in
every world. Perception conditions (`param worn_markings = Range(40, 80)`, names of core/perception.py) change the
pictures of worlds that can show them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from closedloop_plugin.core.perception import PERCEPTION_CONDITIONS, PerceptionConditions
from closedloop_plugin.core.routes import Weather
from closedloop_plugin.worlds.base import InvalidScene, ParameterDomain
from lmms_eval_ad2.core.errors import Ad2Error, near_hint
from lmms_eval_ad2.core.numbers import is_number

WEATHER = tuple(f.name for f in fields(Weather))
# Of the sun's angles, degrees; all other weather parameters are percentages.
BOUNDS = {"sun_altitude_angle": (-90.0, 90.0), "sun_azimuth_angle": (-360.0, 360.0)}
# Params that the worlds set or read themselves.
RESERVED = frozenset({
    "map", "map_options", "stage", "render", "timestep", "weather", "time", "route", "address", "port", "timeout",
    "carla_map", "snapToGround", "snapToGroundDefault", "record", "verifaiSamplerType", "verifaiSamplerParams",
    "externalSampler", "externalSamplerRejectionFeedback",
})  # fmt: skip


def domains_of(params: Mapping[str, Any]) -> dict[str, ParameterDomain]:
    """Name -> domain of every param that is a distribution of constants."""
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
    """None if it has no bounds or depends on others: such a parameter is drawn but cannot be searched."""
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
    return ParameterDomain(float(low), float(high), whole) if is_number(low) and is_number(high) else None


def drawn_of(scenario: Any, scene: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the free parameters in this scene, of those fixed by `values`, and of perception conditions."""
    from scenic.core.distributions import Distribution

    names = {n for n, v in scenario.params.items() if n not in RESERVED and isinstance(v, Distribution)} | set(values)
    names |= set(PERCEPTION_CONDITIONS) & set(scene.params)
    found = {name: scene.params[name] for name in sorted(names)}
    return {
        name: float(value) if isinstance(value, float) else value  # numpy's floats become Python's
        for name, value in found.items()
        if isinstance(value, str | int | float | bool)
    }


def weather_of(scene: Any, otherwise: Weather) -> Weather:
    """`otherwise` with the weather that the program sets: `param weather`, and single parameters."""
    otherwise = program_weather(scene.params.get("weather"), otherwise)
    given = {name: scene.params[name] for name in WEATHER if name in scene.params}
    for name, value in given.items():
        if not is_number(value):
            raise Ad2Error(f"param {name}: expected a number, found {value!r}")
        low, high = BOUNDS.get(name, (0.0, 100.0))
        if not low <= value <= high:
            raise Ad2Error(f"param {name}: expected {low:g} to {high:g}, found {value:g}")
    return replace(otherwise, **{name: float(value) for name, value in given.items()})


def perception_of(scene: Any, shown: Sequence[str], backend: str) -> PerceptionConditions:
    """Perception conditions that the program sets.

    Raises Ad2Error for a wrong value, and InvalidScene for a condition that is not among those `shown` by the world's
    cameras: pictures without it must not count as pictures with it.
    """
    found = PerceptionConditions.of(scene.params)
    absent = [name for name in found.present if name not in shown]
    if absent:
        raise InvalidScene(
            f"the pictures of the {backend} world do not show {' and '.join(absent)} (params of the program); it shows "
            f"{', '.join(shown) or 'none of these conditions'}"
        )
    return found


@contextmanager
def declared_params() -> Iterator[dict[str, Any]]:
    """Collect name -> value of every `param` statement compiled within the context.

    Scenic itself drops those that an external value replaces, and lists that value as if the program had such a param.
    """
    import scenic.syntax.veneer as veneer

    found: dict[str, Any] = {}
    own = veneer.param

    def recording(params: dict[str, Any]) -> None:
        found.update(params)
        own(params)

    veneer.param = recording
    try:
        yield found
    finally:
        veneer.param = own


def check_names(values: Mapping[str, Any], program: Any) -> None:
    """Raise Ad2Error for names that are reserved for the world. Called before compiling."""
    taken = sorted(RESERVED & set(values))
    if taken:
        raise Ad2Error(f"{program}: {taken[0]!r} is no parameter of the scenario and cannot be set: the world needs it")


def check_domains(declared: Mapping[str, Any]) -> None:
    """Raise Ad2Error for a free parameter whose bounds are reversed: no value of --set or of a search lies in it."""
    for name, domain in domains_of(declared).items():
        if domain.low > domain.high:
            raise Ad2Error(
                f"param {name}: from {domain.low:g} to {domain.high:g}; the lower bound comes first: "
                f"{domain.high:g}, {domain.low:g}"
            )


def check_values(values: Mapping[str, Any], declared: Mapping[str, Any], program: Any) -> None:
    """Raise Ad2Error for a value whose parameter the program lacks, or of the wrong type. `declared`: declared_params.

    Without the check the first would have no effect, and the second would fail later without a useful location.
    """
    domains = domains_of(declared)
    for name, value in sorted(values.items()):
        if name not in declared:
            free = ", ".join(domains) or "none"
            raise Ad2Error(f"{program}: has no param {name!r} to be set; its free parameters: {free}")
        domain = domains.get(name)
        wrong = _mismatch(value, domain) if domain is not None else ""
        if wrong:
            raise Ad2Error(f"{program}: param {name} is {wrong}, found {value!r}")


def _mismatch(value: Any, domain: ParameterDomain) -> str:
    """Expected type if the value does not fit, else "". Numbers beyond the program's bounds are allowed."""
    if domain.options:
        return "" if value in domain.options else f"one of {', '.join(map(str, domain.options))}"
    fits = is_number(value) and not (domain.whole and value != int(value))
    return "" if fits else f"a {'whole ' if domain.whole else ''}number ({domain.low:g} to {domain.high:g})"


# CARLA's weather presets by name, and the weather of a program's `param weather`.
#
# Values of carla.WeatherParameters of CARLA 0.9.16; a test compares them if the carla package is installed.

NIGHT, SUNSET, NOON = -90.0, 15.0, 45.0  # altitude of the sun, degrees
# name -> cloudiness, precipitation, deposits, wetness, wind (%), altitude of the sun (degrees), fog (%).
_ROWS: dict[str, tuple[float, float, float, float, float, float, float]] = {
    "ClearNight": (5, 0, 0, 0, 10, NIGHT, 60),
    "ClearNoon": (5, 0, 0, 0, 10, NOON, 2),
    "ClearSunset": (5, 0, 0, 0, 10, SUNSET, 2),
    "CloudyNight": (60, 0, 0, 0, 10, NIGHT, 60),
    "CloudyNoon": (60, 0, 0, 0, 10, NOON, 3),
    "CloudySunset": (60, 0, 0, 0, 10, SUNSET, 3),
    "DustStorm": (100, 0, 0, 0, 100, NOON, 2),
    "HardRainNight": (100, 100, 90, 100, 100, NIGHT, 100),
    "HardRainNoon": (100, 100, 90, 0, 100, NOON, 7),
    "HardRainSunset": (100, 100, 90, 0, 100, SUNSET, 7),
    "MidRainSunset": (60, 60, 60, 0, 60, SUNSET, 3),
    "MidRainyNight": (80, 60, 60, 80, 60, NIGHT, 60),
    "MidRainyNoon": (60, 60, 60, 0, 60, NOON, 3),
    "SoftRainNight": (60, 30, 50, 60, 30, NIGHT, 60),
    "SoftRainNoon": (20, 30, 50, 0, 30, NOON, 3),
    "SoftRainSunset": (20, 30, 50, 0, 30, SUNSET, 2),
    "WetCloudyNight": (60, 0, 50, 60, 10, NIGHT, 60),
    "WetCloudyNoon": (60, 0, 50, 0, 10, NOON, 3),
    "WetCloudySunset": (60, 0, 50, 0, 10, SUNSET, 2),
    "WetNight": (5, 0, 50, 60, 10, NIGHT, 60),
    "WetNoon": (5, 0, 50, 0, 10, NOON, 3),
    "WetSunset": (5, 0, 50, 0, 10, SUNSET, 2),
}
_COLUMNS = (
    "cloudiness", "precipitation", "precipitation_deposits", "wetness", "wind_intensity", "sun_altitude_angle",
    "fog_density",
)  # fmt: skip
PRESETS = {name: replace(Weather(), **dict(zip(_COLUMNS, map(float, row), strict=True))) for name, row in _ROWS.items()}


def program_weather(value: Any, otherwise: Weather) -> Weather:
    """Weather from a program's `param weather`: the name of a preset, or a dict of parameters (as in Scenic)."""
    if value is None:
        return otherwise
    if isinstance(value, str):
        if value not in PRESETS:
            raise Ad2Error(f"param weather: CARLA has no preset {value!r}{near_hint(value, PRESETS)}; or a dict")
        return PRESETS[value]
    if not isinstance(value, Mapping):
        raise Ad2Error(f"param weather: expected a preset's name or a dict, found {type(value).__name__}")
    for name, number in value.items():
        if name not in WEATHER:
            raise Ad2Error(f"param weather: unknown {name!r}{near_hint(str(name), WEATHER)}")
        if not is_number(number):
            raise Ad2Error(f"param weather: {name}: expected a number, found {number!r}")
    return replace(otherwise, **{name: float(number) for name, number in value.items()})
