"""The emergency stop latch: a file, so that it survives restarts and works without any running process.

stop.json lies in the folder of the settings. The process that publishes to the wheels checks it before each command,
20 times a second, and writes the stop's id to stop_seen.json after publishing zeros: `relay --stop` waits for that.
"""

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Any, Dict, Optional

VEHICLE, PLANNER = "vehicle", "planner"  # where it was set; the planner cannot release a stop set on the vehicle
_SIZE_MAX = 4096


class EmergencyStopLatch:
    """Reads and writes the stop file. `held()` costs one stat. An unreadable or unwritable file counts as held."""

    def __init__(self, folder: Path) -> None:
        self._file, self._seen = folder / "stop.json", folder / "stop_seen.json"
        self._stat: Any = None
        self._known: Optional[Dict[str, str]] = None
        self._unwritten: Optional[Dict[str, str]] = None
        self._confirmed: Optional[str] = None

    def held(self) -> Optional[str]:
        """The reason of the stop, or None if there is no stop."""
        found = self._read()
        return None if found is None else found["reason"]

    def set(self, by: str, reason: str) -> str:
        """Stop until released; returns the id of the stop. The planner cannot replace a stop set on the vehicle."""
        held = self._read()
        if held is not None and not (held["by"] == PLANNER and by == VEHICLE):
            return held["id"]
        stop = {"id": secrets.token_hex(8), "by": by, "reason": " ".join(reason.split())[:200] or "stop"}
        try:
            _write(self._file, stop)
        except OSError:
            self._unwritten = stop  # disk full: the stop holds in this process at least
        return stop["id"]

    def release(self, by: str) -> bool:
        """Release the stop; False if it was set on the vehicle and `by` is the planner."""
        held = self._read()
        if held is not None and held["by"] != PLANNER and by == PLANNER:
            return False
        self._unwritten = None
        if self._file.exists():
            self._file.unlink()
        return True

    def confirm(self) -> None:
        """Called by the process that publishes to the wheels, after zeros."""
        held = self._read()
        if held is None or held["id"] == self._confirmed:
            return
        self._confirmed = held["id"]
        with contextlib.suppress(OSError):  # the confirmation is lost; the wheels have stopped nevertheless
            _write(self._seen, {"id": held["id"]})

    def confirmed(self, stop: str) -> bool:
        return _load(self._seen).get("id") == stop

    def _read(self) -> Optional[Dict[str, str]]:
        try:
            stat = self._file.stat()
        except FileNotFoundError:
            self._stat, self._known = None, self._unwritten
            return self._known
        except OSError as exc:
            return {"id": "", "by": VEHICLE, "reason": f"the stop file cannot be looked at: {exc}"}
        mark = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if mark != self._stat or self._known is None:
            self._stat, self._known = mark, self._parsed()
        return self._known

    def _parsed(self) -> Dict[str, str]:
        found = _load(self._file)
        by = found.get("by") if found.get("by") in (VEHICLE, PLANNER) else VEHICLE
        return {"id": found.get("id", ""), "by": str(by), "reason": found.get("reason", "the stop file is unreadable")}


def _write(file: Path, content: Dict[str, str]) -> None:
    new = file.with_suffix(f".{os.getpid()}.new")
    new.write_text(json.dumps(content), "utf-8")
    new.replace(file)


def _load(file: Path) -> Dict[str, str]:
    """The text fields of the file; none if it is missing or invalid."""
    try:
        with file.open("rb") as stream:
            found = json.loads(stream.read(_SIZE_MAX).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}
