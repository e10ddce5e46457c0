"""The emergency stop: a file, so that it holds through a restart of everything, and needs nothing that runs.

It lies in the folder of the settings. Whoever publishes to the wheels looks at it before each command, 20 times a
second, and writes the stop's id into the file beside it once zeros have left: that is how `relay --stop` knows.
"""

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Any, Dict, Optional

VEHICLE, PLANNER = "vehicle", "planner"  # who has set it; the planner cannot undo what was set on the vehicle
_SIZE_MAX = 4096


class EmergencyStopLatch:
    """`held()` is cheap: one stat. What cannot be read, or written, counts as held."""

    def __init__(self, folder: Path) -> None:
        self._file, self._seen = folder / "stop.json", folder / "stop_seen.json"
        self._stat: Any = None
        self._known: Optional[Dict[str, str]] = None
        self._unwritten: Optional[Dict[str, str]] = None
        self._confirmed: Optional[str] = None

    def held(self) -> Optional[str]:
        """Why everything stands, or None."""
        found = self._read()
        return None if found is None else found["reason"]

    def set(self, by: str, reason: str) -> str:
        """Stop until released. The id of this stop; a stop set on the vehicle is not replaced by the planner's."""
        held = self._read()
        if held is not None and not (held["by"] == PLANNER and by == VEHICLE):
            return held["id"]
        stop = {"id": secrets.token_hex(8), "by": by, "reason": " ".join(reason.split())[:200] or "stop"}
        try:
            _write(self._file, stop)
        except OSError:
            self._unwritten = stop  # a full disk: this process at least stands
        return stop["id"]

    def release(self, by: str) -> bool:
        """Undo it; False where the planner may not."""
        held = self._read()
        if held is not None and held["by"] != PLANNER and by == PLANNER:
            return False
        self._unwritten = None
        if self._file.exists():
            self._file.unlink()
        return True

    def confirm(self) -> None:
        """By whoever publishes to the wheels, after zeros."""
        held = self._read()
        if held is None or held["id"] == self._confirmed:
            return
        self._confirmed = held["id"]
        with contextlib.suppress(OSError):  # then nobody is told; the wheels stand all the same
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
    """Its text fields; none where it is missing or no such file."""
    try:
        with file.open("rb") as stream:
            found = json.loads(stream.read(_SIZE_MAX).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}
