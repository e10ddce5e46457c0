"""CARLA's traffic lights, driven by our own cycle (bodies/lights.py): the same seed gives the same lights, and a
program holds them as in the embedded world. Without that each light group runs on timers that nobody can seed."""

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
LOOK_AGAIN = 20  # ticks until a light is looked for anew: those of a large map's far tiles come later


class CarlaTrafficLights:
    """The lights of one episode's stop lines (a line's id is its light's OpenDRIVE signal); the town's others stand
    still meanwhile, as they are after a reset."""

    def __init__(self, world: Any, lights: TrafficLightCycle) -> None:
        self._world, self._lights = world, lights
        self._actors: dict[str, Any] = {}
        self._shown: dict[str, SignalState] = {}
        self._calls = 0
        world.reset_all_traffic_lights()
        world.freeze_all_traffic_lights(True)
        self.show()

    @property
    def missing(self) -> tuple[str, ...]:
        """Lines whose light the server does not know."""
        return tuple(line.id for line in self._lights.lines if line.id not in self._actors)

    def show(self) -> None:
        """Set those that changed."""
        if self._calls % LOOK_AGAIN == 0:
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
        """A program sets a light by Scenic's own functions: one of ours is held, so that the referee knows of it. Dark
        and broken ones (`Off`, `Unknown`) only look so."""
        name = str(light.get_opendrive_id())
        signal = next((s for s, shown in STATES.items() if shown == state), None)
        if name in self._actors and signal is not None:
            held[name] = signal
        else:
            light.set_state(state)

    def release(self) -> None:
        """Back to the town's own timers."""
        self._world.freeze_all_traffic_lights(False)
