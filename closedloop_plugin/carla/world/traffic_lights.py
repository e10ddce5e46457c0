"""CARLA's traffic lights, set by our own cycle (bodies/traffic_lights.py).

The same seed then gives the same states, and a program holds them as in the embedded world. CARLA's own timers cannot
be seeded.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import carla

from closedloop_plugin.core.state import SignalState
from closedloop_plugin.worlds.bodies.traffic_lights import TrafficLightCycle

STATES = {
    SignalState.RED: carla.TrafficLightState.Red,
    SignalState.YELLOW: carla.TrafficLightState.Yellow,
    SignalState.GREEN: carla.TrafficLightState.Green,
}
RETRY_TICKS = 20  # ticks between searches for missing lights: those in far tiles of a large map are loaded later


class CarlaTrafficLights:
    """Lights of one episode's stop lines (a line's id is its light's OpenDRIVE signal id). The others stay frozen."""

    def __init__(self, world: Any, lights: TrafficLightCycle) -> None:
        self._world, self._lights = world, lights
        self._actors: dict[str, Any] = {}
        self._shown: dict[str, SignalState] = {}
        self._calls = 0
        world.reset_all_traffic_lights()
        world.freeze_all_traffic_lights(True)
        self.update()

    @property
    def missing(self) -> tuple[str, ...]:
        """Ids of lines whose light has not been found on the server."""
        return tuple(line.id for line in self._lights.lines if line.id not in self._actors)

    def update(self) -> None:
        """Set the lights whose state has changed."""
        if self._calls % RETRY_TICKS == 0:
            for name in self.missing:
                actor = self._world.get_traffic_light_from_opendrive_id(name)
                if actor is not None:
                    self._actors[name] = actor
        self._calls += 1
        for name, actor in self._actors.items():
            state = self._lights.state[name]
            if self._shown.get(name) is not state:
                actor.set_state(STATES[state])
                self._shown[name] = state

    def hold(self, light: Any, state: Any, held: MutableMapping[str, SignalState]) -> None:
        """Set a light for a program that uses Scenic's functions.

        A light of a stop line is held in `held`, which the referee reads. `Off` and `Unknown` only change the display.
        """
        name = str(light.get_opendrive_id())
        signal = next((s for s, shown in STATES.items() if shown == state), None)
        if name in self._actors and signal is not None:
            held[name] = signal
        else:
            light.set_state(state)

    def release(self) -> None:
        """Return to the town's timers."""
        self._world.freeze_all_traffic_lights(False)
