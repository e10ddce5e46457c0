"""The on-board settings: a JSON file that `ad2 robot deploy` writes. Python 3.6, standard library.

Its folder also holds the emergency stop (latch.py) and the lock files of client and relay.
"""

import difflib
import json
import os
import stat
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

from closedloop_plugin.robots.onboard import clamp, wire

_SIZE_MAX = 256 * 1024
_TOKEN_MIN = 16  # bytes


class SettingsError(ValueError):
    """The settings are invalid; the message names file and key."""


def _number(low: float, high: float) -> Tuple[Callable[[Any], bool], str]:
    def valid(value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high

    return valid, f"a number from {low:g} to {high:g}"


def _whole(low: int, high: int) -> Tuple[Callable[[Any], bool], str]:
    def valid(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high

    return valid, f"a whole number from {low} to {high}"


def _named(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _backend(value: Any) -> bool:
    return _named(value) and (value in ("ros1", "ros2") or all(value.partition(":")))


_OBJECT = (lambda value: isinstance(value, dict), "an object")
_NAME = (_named, "a text")
_NAME_OR_NULL = (lambda value: value is None or isinstance(value, str), "a text or null")
# key -> (default, (validator, expected value in words)); default None: required
_KEYS: Dict[str, Tuple[Any, Tuple[Callable[[Any], bool], str]]] = {
    "planner": (None, _OBJECT),
    "vehicle": (None, _OBJECT),
    "backend": ("ros1", (_backend, "ros1, ros2 or MODULE:CLASS")),
    "relay": (True, (lambda value: isinstance(value, bool), "true or false")),
    "motion_s": (0.5, _number(0.05, 1.0)),  # upper limit for the duration of a command
    "rate_hz": (20.0, _number(20.0, 100.0)),  # LIMO's base needs 20 Hz or more
    "max_age_s": (5.0, _number(0.1, 120.0)),  # of a command, counted from when its frame was sent
    "jpeg_quality": (80, _whole(1, 100)),  # for encoding raw frames
    "frame_max_bytes": (1024 * 1024, _whole(1024, wire.BLOB_MAX)),
    "heartbeat_hz": (50.0, _number(1.0, 200.0)),
    "reconnect_s": (0.5, _number(0.05, 60.0)),  # before the second attempt; doubled each time, up to four times
    "camera_stall_s": (0.1, _number(0.02, 5.0)),  # without a new frame, while it moves; two periods at 20 Hz
    "link_silence_s": (0.3, _number(0.05, 5.0)),  # without a byte from the planner, while it moves
}
_PLANNER: Dict[str, Tuple[Any, Tuple[Callable[[Any], bool], str]]] = {
    "host": ("127.0.0.1", _NAME),  # this end of the ssh tunnel
    "port": (None, _whole(1, 65535)),
    "token_file": (None, _NAME),
}
_TOPICS: Dict[str, Tuple[Callable[[Any], bool], str]] = {
    "cmd": _NAME,
    "camera": _NAME,
    "camera_type": (lambda value: value in ("compressed", "raw"), "compressed or raw"),
    "odom": _NAME_OR_NULL,
    "status": _NAME_OR_NULL,
    "status_type": _NAME_OR_NULL,
}


def read_settings(path: Path) -> Dict[str, Any]:
    """Read and validate every key, with defaults for missing ones; adds "folder", the folder of the file.

    A vehicle without its own watchdog always gets the relay. SettingsError names file and key.
    """
    path = path.expanduser().absolute()
    found = _filled(_load(path), _KEYS, f"{path}")
    found["planner"] = _filled(found["planner"], _PLANNER, f"{path}: planner")
    _check_vehicle(found["vehicle"], f"{path}: vehicle")
    found["folder"] = path.parent
    found["planner"]["token_file"] = path.parent / Path(found["planner"]["token_file"]).expanduser()
    if not os.access(str(path.parent), os.W_OK):
        raise SettingsError(f"{path.parent}: must be writable, the emergency stop file is kept there")
    found["relay"] = found["relay"] or found["vehicle"].get("watchdog_s") is None
    return found


def read_token(path: Path) -> bytes:
    """The secret that planner and vehicle share: at least 32 hex digits, in a file readable by its owner only."""
    try:
        with path.open("rb") as stream:
            mode, text = os.fstat(stream.fileno()).st_mode, stream.read(4096)
    except OSError as exc:
        raise SettingsError(f"token file {path}: {exc.strerror}; `ad2 robot deploy` puts it there") from None
    if stat.S_IMODE(mode) & 0o077:
        raise SettingsError(f"token file {path}: others may read it; chmod 600 {path}")
    try:
        token = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        raise SettingsError(f"token file {path}: expected hex digits") from None
    if len(token) < _TOKEN_MIN:
        raise SettingsError(f"token file {path}: {len(token)} bytes, expected at least {_TOKEN_MIN}")
    return token


def _load(path: Path) -> Dict[str, Any]:
    try:
        with path.open("rb") as stream:
            data = stream.read(_SIZE_MAX)
        found = json.loads(data.decode("utf-8"))
    except OSError as exc:
        raise SettingsError(f"{path}: {exc.strerror}; `ad2 robot deploy` writes it") from None
    except (ValueError, RecursionError) as exc:
        raise SettingsError(f"{path}: not JSON: {exc}") from None
    if not isinstance(found, dict):
        raise SettingsError(f"{path}: expected an object")
    return found


def _filled(found: Dict[str, Any], keys: Dict[str, Any], where: str) -> Dict[str, Any]:
    for key in found:
        if key not in keys:
            near: List[str] = difflib.get_close_matches(key, list(keys), 1)
            raise SettingsError(f"{where}: unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    filled = {}
    for key, (default, (valid, expected)) in keys.items():
        value = filled[key] = found.get(key, default)
        if not valid(value):
            raise SettingsError(f"{where}: {key}: expected {expected}, not {value!r:.80}")
    return filled


def _check_vehicle(vehicle: Dict[str, Any], where: str) -> None:
    """Check the fields that the client reads; clamp.py checks its own."""
    problem = clamp.vehicle_problem(vehicle)
    if problem:
        raise SettingsError(f"{where}: {problem}")
    topics = vehicle.get("topics")
    if not isinstance(topics, dict):
        raise SettingsError(f"{where}: topics: expected an object")
    for key, (valid, expected) in _TOPICS.items():
        if not valid(topics.get(key)):
            raise SettingsError(f"{where}: topics.{key}: expected {expected}, not {topics.get(key)!r:.80}")
    if not _named(vehicle.get("name")):
        raise SettingsError(f"{where}: name: expected a text")
    mode, watchdog_s = vehicle.get("mode"), vehicle.get("watchdog_s")
    if mode is not None and not _whole(0, 255)[0](mode):
        raise SettingsError(f"{where}: mode: expected a whole number or null")
    if mode is not None and not topics["status"]:
        raise SettingsError(f"{where}: topics.status: needed to check the vehicle's mode")
    if watchdog_s is not None and not _number(0.01, 60.0)[0](watchdog_s):
        raise SettingsError(f"{where}: watchdog_s: expected seconds or null")
