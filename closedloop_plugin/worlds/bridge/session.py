"""A running Scenic simulation, stepped from outside.

Scenic runs a whole simulation inside one call and requests actions from the agents' behaviours. The ego's behaviour
here switches from a greenlet out to the caller, which switches back with a Control. All of it runs in one OS thread,
the main one, as Scenic requires. Works with any Scenic simulator (embedded, CARLA).
"""

from __future__ import annotations

import traceback
from typing import Any

from closedloop_plugin.core.state import Control
from closedloop_plugin.scenarios.known_words import UnknownWord
from closedloop_plugin.worlds.base import InvalidScene, WorldError
from closedloop_plugin.worlds.bridge.compiled_scene import ENDS_PROCESS, CompiledScene
from closedloop_plugin.worlds.bridge.faults.endless import no_endless_loop
from closedloop_plugin.worlds.bridge.faults.place import APPLY, place_of, rejection_of_simulation
from closedloop_plugin.worlds.bridge.stage import ScenarioStage
from lmms_eval_ad2.core.errors import Ad2Error, require

_RUNNING: list[ScenicSession] = []  # at most one: Scenic keeps the running simulation in a global


def close_running() -> None:
    """End the simulation that is running in this process, if any; required before a program is compiled."""
    for session in list(_RUNNING):
        session.close()


class ScenicSession:
    """One simulation of one scene. `start()`, then `advance(control)` until `done`; `close()` in any case."""

    def __init__(self, compiled: CompiledScene, simulator: Any, stage: ScenarioStage, max_ticks: int) -> None:
        self.stage = stage
        self.simulation: Any = None
        self.done: str | None = None
        self._compiled, self._simulator, self._max = compiled, simulator, max_ticks
        greenlet = require("greenlet", "stepping Scenic from outside")
        self._caller = greenlet.getcurrent()
        self._exit = greenlet.GreenletExit
        self._run = greenlet.greenlet(self._simulate)

    def start(self) -> Any:
        """Set up the scene; returns the Scenic simulation at tick 0, which waits for the ego's control."""
        ego = self._compiled.scene.egoObject
        ego.behavior = _external_behavior(self)
        close_running()
        _RUNNING.append(self)
        return self._switch()

    def advance(self, control: Control) -> Any:
        """Run one tick with this control. `simulation` then holds the next state; `done` may be set."""
        if self.done:
            raise WorldError(f"the simulation has ended: {self.done}")
        return self._switch(self.stage.disturbed(control))

    def close(self) -> None:
        """Stop the simulation, with Scenic's clean-up."""
        if self._run and not self._run.dead:
            self._run.throw(self._exit)
        self.done = self.done or "closed"
        if self in _RUNNING:
            _RUNNING.remove(self)

    def _switch(self, *values: Any) -> Any:
        try:
            with no_endless_loop(stepping=True):
                return self._run.switch(*values)
        except (InvalidScene, Ad2Error):
            raise
        except (SystemExit, GeneratorExit) as exc:
            raise Ad2Error(f"{place_of(self._compiled.program, exc)}: {ENDS_PROCESS}") from exc
        except Exception as exc:
            where = place_of(self._compiled.program, exc)
            self.done = self.done or f"failed: {where}"
            raise (Ad2Error if self._in_user_program(exc) else WorldError)(where) from exc

    def _in_user_program(self, exc: BaseException) -> bool:
        """True if a user's program is running, and the error was raised in a step of a program, ours that it uses
        included, or by what it did; not in the simulator."""
        from scenic.core.errors import InvalidScenarioError

        if self.stage.kind:
            return False
        steps = traceback.extract_tb((exc if exc.__cause__ is None else exc.__cause__).__traceback__)
        return isinstance(exc, UnknownWord | InvalidScenarioError) or any(
            f.filename.endswith(".scenic") or f.name == APPLY for f in steps
        )

    def _simulate(self, *_: Any) -> Any:
        result = self._simulator.simulate(
            self._compiled.scene, maxSteps=self._max, timestep=self.stage.timestep, enableReplay=False, verbosity=0
        )
        if result is None:  # rejected by a requirement, at the start or later
            self.done = "rejected"
            reason = rejection_of_simulation()
            raise InvalidScene(
                f"{self._compiled.program.name}: the simulation was rejected by a requirement of the scenario"
                + (reason and f": {reason}")
            )
        self.done = str(result.result.terminationReason)
        return result

    def wait(self, simulation: Any) -> Control:
        """Called by the ego's behaviour: hand the simulation to the caller and return its control."""
        self.simulation = simulation
        self.stage.observe(simulation.objects[0], simulation.currentTime)
        return self._caller.switch(simulation)


def _external_behavior(session: ScenicSession) -> Any:
    """A Scenic behaviour whose actions come from `session.wait`."""
    from scenic.core.dynamics.behaviors import Behavior
    from scenic.domains.driving.actions import SetBrakeAction, SetSteerAction, SetThrottleAction

    class Driven(Behavior):
        def checkPreconditions(self, *_: Any, **__: Any) -> None: ...

        def checkInvariants(self, *_: Any, **__: Any) -> None: ...

        def makeGenerator(self, agent: Any):
            import scenic.syntax.veneer as veneer

            while True:
                c = session.wait(veneer.currentSimulation)
                yield SetThrottleAction(c.throttle), SetBrakeAction(c.brake), SetSteerAction(c.steer)

    return Driven()
