"""The one way to the wheels: nothing outdated, nothing while the emergency stop is set, nothing beyond the limits."""

import time
from typing import Any, Dict, Optional

from closedloop_plugin.robots.onboard import clamp
from closedloop_plugin.robots.onboard.io import VehicleIO
from closedloop_plugin.robots.onboard.journal import OnboardJournal
from closedloop_plugin.robots.onboard.latch import EmergencyStopLatch


class ActuationGate:
    """Held by the relay; by the client where there is none, and for zeros where the relay was lost."""

    def __init__(
        self, io: VehicleIO, vehicle: Dict[str, Any], latch: EmergencyStopLatch, journal: OnboardJournal
    ) -> None:
        self._io, self._vehicle, self._latch, self._journal = io, vehicle, latch, journal
        self.zero = clamp.stop(vehicle)

    def publish(self, actuation: Dict[str, Any], until: float) -> bool:
        """`until`: s on the monotonic clock, from when on zeros leave instead. True: the actuation left, clamped."""
        stopped = self._latch.held()
        problem = clamp.problem(actuation, self._vehicle)
        if problem:
            self._journal.count("no actuation", problem)
        moves = not (stopped or problem) and time.monotonic() < until
        self._io.publish(clamp.clamp(actuation, self._vehicle) if moves else self.zero)
        if stopped:
            self._latch.confirm()
        return moves

    def fault(self) -> Optional[str]:
        """Why commands would not arrive, or None."""
        return None

    def mend(self) -> None:
        """Try to be rid of the fault."""

    def close(self) -> None:
        """The last zeros have been published."""
