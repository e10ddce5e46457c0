"""Validates and limits actuations before they are published to the wheels.

An actuation is {"twist": {"vx", "vy", "wz"}} (m/s forward, m/s left, rad/s left) or {"word": text}; `vehicle` is the
dict of vehicles.base.Vehicle.to_onboard() from the settings. The planner calls this module too before it sends, so that
both ends apply the same limits. Python 3.6, standard library.
"""

import math
from typing import Any, Dict, Optional

Actuation = Dict[str, Any]

KINDS = ("twist", "word")
WORDS = ("forward", "left", "right", "backward", "stop")
PARTS = ("vx", "vy", "wz")
# The bases take whole mm/s and mrad/s, so smaller values are lost. LIMO's driver steers by the quotient of two such
# values, where rounding noise would become a steering angle.
SMALLEST = 0.001
_LIMITS = ("speed", "yaw_rate", "lateral", "turning_radius")


def stop(vehicle: Dict[str, Any]) -> Actuation:
    """The actuation for standing still."""
    return {"word": "stop"} if vehicle["kind"] == "word" else {"twist": {"vx": 0.0, "vy": 0.0, "wz": 0.0}}


def problem(actuation: Any, vehicle: Dict[str, Any]) -> Optional[str]:
    """Why this actuation is invalid, in a few words, or None. Excess speed is not a problem: it is clamped."""
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
    """The actuation within the limits; an invalid one becomes a stop. Never raises.

    A twist that is too fast is scaled as a whole, which keeps its curvature wz / vx. A vehicle with a turning radius R
    (Ackermann) gets at most |wz| = |vx| / R, and no yaw rate while standing: LIMO's driver would convert that into an
    impossible wheel angle.
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
    # One factor for all three components, so that the largest ratio |value| / limit becomes 1.
    scale = min([1.0] + [most / abs(v) for v, most in ((vx, speed), (vy, lateral), (wz, yaw_rate)) if abs(v) > most])
    vx, vy = _within(vx * scale, speed), _within(vy * scale, lateral)
    if limits["turning_radius"] > 0.0:
        yaw_rate = min(yaw_rate, abs(vx) / limits["turning_radius"])
    return {"twist": {"vx": vx, "vy": vy, "wz": _within(wz * scale, yaw_rate)}}


def vehicle_problem(vehicle: Any) -> Optional[str]:
    """Why the vehicle in the settings is invalid, or None. Checked once at the start, so that clamp() need not."""
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
    """As a float, or None if it is not a finite number."""
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
