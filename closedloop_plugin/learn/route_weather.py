"""drawn_weather: weather of a made route; shares of night, rain and fog as in Bench2Drive's 220 routes."""

from __future__ import annotations

from closedloop_plugin.core.routes import Weather
from closedloop_plugin.learn.route_draws import RouteDraws

# Of the 220 routes: night (sun below the horizon) 24 %, sun below 20 degrees 23 %; rain 75 % at night and 40 % by day,
# four fifths of it heavy; dense fog 64 % at night and 21 % by day.
NIGHT, LOW_SUN = 0.24, 0.23
RAIN_AT_NIGHT, RAIN_BY_DAY, HEAVY = 0.75, 0.40, 0.83
FOG_AT_NIGHT, FOG_BY_DAY = 0.64, 0.21


def drawn_weather(draws: RouteDraws) -> Weather:
    night = draws.chance(NIGHT)
    low = draws.chance(LOW_SUN / (1 - NIGHT))
    rain = draws.chance(RAIN_AT_NIGHT if night else RAIN_BY_DAY)
    heavy = draws.chance(HEAVY)
    fog = draws.chance(FOG_AT_NIGHT if night else FOG_BY_DAY)
    falls = draws.between(*((50, 100) if heavy else (15, 50)), 0) if rain else 0.0
    return Weather(
        cloudiness=draws.between(60, 100, 0) if rain else draws.between(0, 80, 0),
        precipitation=falls,
        precipitation_deposits=draws.between(50, 100, 0) if rain else draws.either((0.0, 50.0), (0.55, 0.45)),
        wetness=draws.between(20, 100, 0) if draws.chance(0.5 if rain else 0.15) else 0.0,
        wind_intensity=falls if rain else 10.0,
        sun_azimuth_angle=draws.between(0, 360, 0),
        sun_altitude_angle=draws.between(*((-90, -8) if night else (0, 20) if low else (30, 90)), 0),
        fog_density=draws.between(*((50, 100) if night else (40, 70)), 0) if fog else draws.between(0, 10, 0),
    )
