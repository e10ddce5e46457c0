"""Every vehicle that has a name here."""

from __future__ import annotations

from collections.abc import Mapping

from closedloop_plugin.robots.vehicles.base import Vehicle
from closedloop_plugin.robots.vehicles.jetbot import JETBOTS
from closedloop_plugin.robots.vehicles.limo import LIMOS

VEHICLES: Mapping[str, Vehicle] = {vehicle.name: vehicle for vehicle in (*LIMOS, *JETBOTS)}
