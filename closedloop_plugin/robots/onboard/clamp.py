"""The last word on what may leave for the wheels, on the vehicle itself.

An actuation is {"twist": {"vx", "vy", "wz"}} (m/s forward, m/s left, rad/s left) or {"word": text}; `vehicle` is what
closedloop_plugin.robots.vehicles.base.Vehicle.to_onboard() wrote into the settings. The planner asks this module too
before it sends, so both ends obey one rule. Python 3.6, standard library.
"""

import math
from typing import Any, Dict, Optional

Actuation = Dict[str, Any]

KINDS = ("twist", "word")
WORDS = ("forward", "left", "right", "backward", "stop")
PARTS = ("vx", "vy", "wz")
# The bases take whole mm/s and mrad/s; what is smaller never arrives. For LIMO's driver, which steers by the quotient
# of two such numbers, it would be noise.
SMALLEST = 0.001
_LIMITS = ("speed", "yaw_rate", "lateral", "turning_radius")


def stop(vehicle: Dict[str, Any]) -> Actuation:
    """The actuation that stands still."""
    return {"word": "stop"} if vehicle["kind"] == "word" else {"twist": {"vx": 0.0, "vy": 0.0, "wz": 0.0}}


def problem(actuation: Any, vehicle: Dict[str, Any]) -> Optional[str]:
    """Why this actuation cannot be obeyed, in a few words, or None. What is merely too fast can: it is clamped."""
    kind = vehicle["kind"]
    if not isinstance(actuation, dict) or kind not in actuation:
        return f"no {kind} for a vehicle that obeys one"
    wanted = actuation[kind]
    if kind == "word":
        if wanted not in WORDS:
            return "unknown word"
        return "backward is not allowed" if wanted == "backward" and not vehicle["limits"]["reverse"] else None
    if not isinstance(wanted, dict) or any(_number(wanted.get(part)) is None for part in PARTS):
        return "a twist needs finite numbers vx, vy, wz"
    return None


def clamp(actuation: Any, vehicle: Dict[str, Any]) -> Actuation:
    """What may be published instead. Always within the limits; what has a problem() becomes a stop; never raises.

    Too fast a twist is slowed as a whole, so that the vehicle keeps its path. A vehicle with a turning radius
    (Ackermann) gets no more yaw rate than its speed makes room for, and none when it stands: LIMO's driver turns yaw
    without speed into a wheel angle that no wheel has.
    """
    if problem(actuation, vehicle) is not None:
        return stop(vehicle)
    if vehicle["kind"] == "word":
        return {"word": actuation["word"]}
    limits = vehicle["limits"]
    speed, yaw_rate, lateral = limits["speed"], limits["yaw_rate"], limits["lateral"]
    vx, vy, wz = (float(actuation["twist"][part]) for part in PARTS)
    if vx < 0.0 and not limits["reverse"]:
        return stop(vehicle)
    vy = vy if lateral > 0.0 else 0.0
    slower = min([1.0] + [most / abs(v) for v, most in ((vx, speed), (vy, lateral), (wz, yaw_rate)) if abs(v) > most])
    vx, vy = _within(vx * slower, speed), _within(vy * slower, lateral)
    if limits["turning_radius"] > 0.0:
        yaw_rate = min(yaw_rate, abs(vx) / limits["turning_radius"])
    return {"twist": {"vx": vx, "vy": vy, "wz": _within(wz * slower, yaw_rate)}}


def vehicle_problem(vehicle: Any) -> Optional[str]:
    """What is wrong with the settings' vehicle, or None; asked once at the start, so that clamp() need not."""
    if not isinstance(vehicle, dict) or vehicle.get("kind") not in KINDS:
        return f"kind: expected one of {', '.join(KINDS)}"
    limits = vehicle.get("limits")
    if not isinstance(limits, dict) or not isinstance(limits.get("reverse"), bool):
        return "limits.reverse: expected true or false"
    for name in _LIMITS:
        value = _number(limits.get(name))
        if value is None or value < 0.0:
            return f"limits.{name}: expected a finite number, not negative"
    return None


def _number(value: Any) -> Optional[float]:
    """As a float, or None for everything that is no finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:  # an int of hundreds of digits
        return None
    return number if math.isfinite(number) else None


def _within(value: float, most: float) -> float:
    value = min(max(value, -most), most)
    return value if abs(value) >= SMALLEST else 0.0
