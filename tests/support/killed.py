"""Run a module as a program, and kill it (SIGKILL) before one of its operations on files below a folder.

    python killed.py FOLDER NUMBER MODULE [ARGUMENT ...]

Operations: opening a file for writing, renaming, removing, making a folder, opening a database, counted from 1. With
NUMBER 0 nothing is killed, and FOLDER.operations has their number at the end. Moments between them (within a write or
a computation) are reached only by a kill from outside.
"""

from __future__ import annotations

import atexit
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "sqlite3.connect")


class OperationCounter:
    """Audit hook of this process; processes that it starts are not counted."""

    def __init__(self, folder: str, number: int) -> None:
        self.folder, self.number, self.count, self.pid = Path(folder).absolute(), number, 0, os.getpid()

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            _, mode, flags = args
            if not (set(mode or "") & set("wax+") or int(flags or 0) & (os.O_WRONLY | os.O_RDWR)):
                return
        elif event not in CHANGES:
            return
        if os.getpid() == self.pid and self._below(args[0]):
            self.count += 1
            if self.count == self.number:
                os.kill(self.pid, signal.SIGKILL)

    def _below(self, path: Any) -> bool:
        return isinstance(path, str | bytes | os.PathLike) and self.folder in Path(os.fsdecode(path)).absolute().parents


if __name__ == "__main__":
    counter = OperationCounter(sys.argv[1], int(sys.argv[2]))
    if not counter.number:
        atexit.register(lambda: Path(f"{counter.folder}.operations").write_text(str(counter.count)))
    sys.addaudithook(counter)
    module = sys.argv[3]
    sys.argv = sys.argv[3:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
