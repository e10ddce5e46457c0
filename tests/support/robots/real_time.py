"""Real-time tests on machines that may stall: a test that failed while the machine stalled is called again.

This applies to modules with `RENEWED`: the fixtures (beside tmp_path) that each further call needs again: by name a
function of the folder of that call and of the present fixtures. A failure without a stall is final. Each further call
emits a warning.
"""

from __future__ import annotations

import threading
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

STALL_S = 0.2  # s: four periods of the wheel controller
CALLS = 4
PULSE_S = 0.01


class MachineStalled(RuntimeWarning):
    """A test was called again because the machine stalled."""


class Pulse:
    """Measures stalls of this machine during a block. `late_s`: delay of each timer, s; `worst_s`: the longest."""

    def __init__(self) -> None:
        self.late_s: list[float] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    @property
    def worst_s(self) -> float:
        return max(self.late_s, default=0.0)

    def _beat(self) -> None:
        while not self._ended.is_set():
            begun = time.monotonic()
            self._ended.wait(PULSE_S)
            self.late_s.append(max(0.0, time.monotonic() - begun - PULSE_S))

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    renewed = getattr(pyfuncitem.module, "RENEWED", None)
    if renewed is None:
        return None
    for n in range(CALLS):
        with ExitStack() as stack, Pulse() as pulse:
            arguments = _arguments(pyfuncitem, stack, renewed if n else None)
            try:
                pyfuncitem.obj(**arguments)
                return True
            except Exception as exc:
                worst_s = pulse.worst_s
                if n == CALLS - 1 or worst_s < STALL_S:
                    raise
                message = f"{pyfuncitem.nodeid}: this machine stalled for {worst_s:.2f} s, called again: {exc!r:.200}"
        warnings.warn(MachineStalled(message), stacklevel=1)
    return True


def _arguments(item: pytest.Function, stack: ExitStack, renewed: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments of the test; from the second call on with a new folder and the renewed fixtures."""
    found = dict(item.funcargs)
    if renewed is not None:
        folder: Path = item._request.getfixturevalue("tmp_path_factory").mktemp("again")
        found["tmp_path"] = folder
        for name in [name for name in renewed if name in found]:
            found[name] = stack.enter_context(renewed[name](folder, found))
    return {name: found[name] for name in item._fixtureinfo.argnames}
