"""CARLA's traffic lights, driven by our own cycle (bodies/lights.py): the same seed gives the same lights, and a
program holds them as in the embedded world. Without that each light group runs on timers that nobody can seed."""

from __future__ import annotations

from typing import Any

import carla

from closedloop_plugin.state import Signal
from closedloop_plugin.worlds.bodies.lights import Lights

STATES = {
    Signal.RED: carla.TrafficLightState.Red,
    Signal.YELLOW: carla.TrafficLightState.Yellow,
    Signal.GREEN: carla.TrafficLightState.Green,
}


class LightShow:
    """The lights of one episode's stop lines (a line's id is its light's OpenDRIVE signal); the town's others stand
    still meanwhile. `missing`: lines whose light the server does not know."""

    def __init__(self, world: Any, lights: Lights) -> None:
        self._world, self._lights = world, lights
        self._actors = {line.id: world.get_traffic_light_from_opendrive_id(line.id) for line in lights.lines}
        self.missing = tuple(name for name, actor in self._actors.items() if actor is None)
        self._shown: dict[str, Signal] = {}
        world.freeze_all_traffic_lights(True)
        self.show()

    def show(self) -> None:
        """Set those that changed."""
        for name, state in self._lights.state.items():
            actor = self._actors[name]
            if actor is not None and self._shown.get(name) is not state:
                actor.set_state(STATES[state])
                self._shown[name] = state

    def release(self) -> None:
        """Back to the town's own timers."""
        self._world.freeze_all_traffic_lights(False)
