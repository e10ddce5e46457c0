"""Publishes actuations to the wheels: only fresh ones, within the limits, zeros while the emergency stop is set."""

import time
from typing import Any, Dict, Optional

from closedloop_plugin.robots.onboard import clamp
from closedloop_plugin.robots.onboard.io import VehicleIO
from closedloop_plugin.robots.onboard.journal import OnboardJournal
from closedloop_plugin.robots.onboard.latch import EmergencyStopLatch


class ActuationGate:
    """Used by the relay; by the client if there is no relay, and for zeros after the relay is lost."""

    def __init__(
        self, io: VehicleIO, vehicle: Dict[str, Any], latch: EmergencyStopLatch, journal: OnboardJournal
    ) -> None:
        self._io, self._vehicle, self._latch, self._journal = io, vehicle, latch, journal
        self.zero = clamp.stop(vehicle)

    def publish(self, actuation: Dict[str, Any], until: float) -> bool:
        """Publish once. After `until` (s, monotonic clock) zeros are published instead.

        True: the (clamped) actuation was published, not zeros.
        """
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
        """Why commands would not reach the wheels, or None."""
        return None

    def repair(self) -> None:
        """Try to clear the fault; nothing to do here."""

    def close(self) -> None:
        """Nothing to do: the last zeros have been published."""
