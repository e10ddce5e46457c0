"""The control of a decision where the runner's ControlScheduler is not used: behind an endpoint and on a vehicle."""

from __future__ import annotations

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Control, Decision, InterpretedControl
from closedloop_plugin.driver.interpreter import NO_REPLY_REASONS


def verdict(
    decision: Decision, interpreted: InterpretedControl | None, profile: Profile, speed: float
) -> tuple[Control | None, str | None, str | None]:
    """(control, error, unparsed), exactly one of them not None. Same rules as ControlScheduler."""
    if decision.error is not None:
        return None, decision.error, None
    if decision.control is not None:
        try:
            return decision.control.checked(), None, None
        except ValueError as exc:
            return None, str(exc), None
    if interpreted is None:
        return None, "the agent answers in words and there is no interpreter", None
    if interpreted.control is None:
        why = interpreted.reason or "no reason given"
        if why.startswith(NO_REPLY_REASONS):
            return None, f"slow system: {why}: {' '.join(interpreted.raw.split())[:200]}", None
        return None, None, why
    try:
        return profile.post(interpreted.control, speed), None, None
    except ValueError:
        return None, None, "control is not finite"
