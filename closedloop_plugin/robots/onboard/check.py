"""What is ready on the vehicle, without motion: python3 -m closedloop_plugin.robots.onboard.check SETTINGS.json SECONDS

Prints one JSON line per check: {"name", "good", "found"}. Subscribes to all topics for SECONDS and counts messages;
nothing is published. Python 3.6.
"""

import hashlib
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from closedloop_plugin.robots.onboard.io import VehicleIO, VehicleNotReady, open_io
from closedloop_plugin.robots.onboard.latch import EmergencyStopLatch
from closedloop_plugin.robots.onboard.relay import is_held
from closedloop_plugin.robots.onboard.settings import SettingsError, read_settings, read_token

USAGE = "usage: check SETTINGS.json SECONDS"
RATE_MIN_HZ = 2.0  # of odometry and status: half of what makes a value count as missing (io.LATEST_S)
Finding = Tuple[str, bool, str]  # name, whether it is as needed, what was found


def findings(settings_file: Path, seconds: float) -> Iterator[Finding]:
    yield "python", True, platform.python_version()
    try:
        settings = read_settings(settings_file)
        token = read_token(settings["planner"]["token_file"])
    except SettingsError as exc:
        yield "settings", False, str(exc)
        return
    yield "settings", True, digest(settings_file)
    yield "token", True, hashlib.sha256(token).hexdigest()
    held = EmergencyStopLatch(settings["folder"]).held()
    yield "emergency stop", held is None, "not set" if held is None else f"holds: {held}"
    running = is_held(settings["folder"] / "client.lock")
    yield "client", True, "runs" if running else "not started"
    try:
        io = open_io(settings, "ad2_check", sees=True)
    except VehicleNotReady as exc:
        yield settings["backend"], False, str(exc)
        return
    try:
        yield settings["backend"], True, "connected"
        time.sleep(seconds)  # messages are counted
        yield from _topics(io, settings, seconds)
    finally:
        io.close()


def digest(settings_file: Path) -> str:
    """SHA-256 of the settings and of the client's files, in the order of their names."""
    content = hashlib.sha256(settings_file.read_bytes())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        content.update(file.name.encode() + b"\0" + file.read_bytes())
    return content.hexdigest()


def _topics(io: VehicleIO, settings: Dict[str, Any], seconds: float) -> Iterator[Finding]:
    vehicle = settings["vehicle"]
    topics, rates = vehicle["topics"], {name: count / seconds for name, count in io.received().items()}
    try:
        fault = io.fault()
    except VehicleNotReady as exc:
        fault = str(exc)
    yield "base", fault is None, fault or f"subscribes to {topics['cmd']}"
    yield _camera(io, topics["camera"], rates["camera"], settings["camera_stall_s"])
    if topics["odom"]:
        values = io.odometry() or {}
        text = " ".join(f"{name} {value:.2f}" for name, value in sorted(values.items()))
        yield _regular("odometry", topics["odom"], rates["odometry"], text)
    if topics["status"]:
        status = io.status() or {}
        text = ", ".join(f"{name} {value:g}" for name, value in sorted(status.items()))
        yield _regular("status", topics["status"], rates["status"], text)
        if vehicle["mode"] is not None:
            found, wanted = status.get("mode", "unknown"), vehicle["mode"]
            good = found == wanted
            yield "mode", good, f"{found}" if good else f"{found}, needed {wanted}: switch it on the vehicle"


def _camera(io: VehicleIO, topic: str, rate_hz: float, stall_s: float) -> Finding:
    frame = io.latest_frame()
    if frame is None:
        return "camera", False, f"no frame on {topic}: see `rostopic list` or `ros2 topic list`"
    _, blob, width, height = frame
    found = f"{topic}: {width} x {height}, {rate_hz:.1f} frames/s, {len(blob)} bytes"
    if rate_hz * stall_s < 1.0:
        return "camera", False, f"{found}; onboard.camera_stall_s {stall_s:g} needs more than {1.0 / stall_s:.1f}"
    return "camera", True, found


def _regular(name: str, topic: str, rate_hz: float, text: str) -> Finding:
    if not text:
        return name, False, f"nothing valid on {topic}"
    return name, rate_hz >= RATE_MIN_HZ, f"{topic}: {rate_hz:.1f} Hz, {text}"


def main(argv: Optional[List[str]] = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    if len(words) != 2:
        print(USAGE, file=sys.stderr)
        return 2
    for name, good, found in findings(Path(words[0]), float(words[1])):
        print(json.dumps({"name": name, "good": good, "found": found}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
