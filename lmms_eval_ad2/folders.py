"""A folder that one process at a time writes into, bound to the settings of its first start."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from lmms_eval_ad2.errors import Ad2Error

try:
    import fcntl
except ImportError:  # Windows has no flock: two processes in one folder are then the user's care
    fcntl = None  # type: ignore[assignment]

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no room left: whoever writes says what that means for the work


def locked(folder: Path) -> IO[bytes]:
    """The folder's lock, held until the handle is closed; the folder itself is made where it is new.

    Raises Ad2Error where another process holds it or nothing can be written there, OSError (of FULL) for a full disk.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / "lock").open("ab")
    except FileExistsError as exc:
        raise Ad2Error(f"{folder}: a file, and a folder is needed; choose another --out") from exc
    except OSError as exc:
        if exc.errno in FULL:
            raise
        raise Ad2Error(
            f"{folder}: cannot be written to ({exc.strerror}); choose another place, or mend its permissions"
        ) from exc
    if fcntl is None:
        return handle
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        handle.close()
        raise Ad2Error(
            f"{folder}: another process is running into this folder; wait for it, or choose another --out"
        ) from exc
    return handle


def differences(there: Mapping[str, Any], here: Mapping[str, Any], above: str = "") -> list[str]:
    """ "name is A there and B here" of every value that differs, nested names with dots."""
    found: list[str] = []
    for key in sorted({*there, *here}):
        a, b = there.get(key), here.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, f"{above}{key}.")
        elif a != b:
            found.append(f"{above}{key} is {_short(a)} there and {_short(b)} here")
    return found


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
