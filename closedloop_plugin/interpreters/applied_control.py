"""What is driven of an answer, where no runner's Pilot judges it: behind an endpoint, and on a vehicle."""

from __future__ import annotations

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Control, Decision, InterpretedControl
from closedloop_plugin.interpreters.base import SILENT


def verdict(
    decision: Decision, reading: InterpretedControl | None, profile: Profile, speed: float
) -> tuple[Control | None, str | None, str | None]:
    """(control, error, unparsed), at most one of them: what the runner's Pilot would make of the same answer."""
    if decision.error is not None:
        return None, decision.error, None
    if decision.control is not None:
        try:
            return decision.control.checked(), None, None
        except ValueError as exc:
            return None, str(exc), None
    if reading is None:
        return None, "the agent answers in words and there is no interpreter", None
    if reading.control is None:
        why = reading.reason or "no reason given"
        if why.startswith(SILENT):
            return None, f"slow system: {why}: {' '.join(reading.raw.split())[:200]}", None
        return None, None, why
    try:
        return profile.post(reading.control, speed), None, None
    except ValueError:
        return None, None, "control is not finite"
