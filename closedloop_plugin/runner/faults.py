"""What is to blame when an episode ends with an exception, and whether another try can help."""

from __future__ import annotations

import traceback
from pathlib import Path

from closedloop_plugin.core.state import EpisodeFault
from closedloop_plugin.core.xml_files import MapError
from closedloop_plugin.worlds.base import InvalidScene, WorldError
from lmms_eval_ad2.core.errors import Ad2Error

_PACKAGE = Path(__file__).parents[1]
# Folders whose code depends on its input alone: an exception on the way through them comes again at every try.
_CERTAIN = {EpisodeFault.MAP: _PACKAGE / "maps", EpisodeFault.PROGRAM: _PACKAGE / "scenarios"}
OF_THE_MACHINE = (WorldError, OSError, EOFError, MemoryError)


class UnhealthyRun(Ad2Error):
    """A drive was stopped because it would measure nothing: its world, driver or endpoint has to be repaired first."""

    exit_code = 3


class DriverFailed(Exception):
    """An agent or interpreter could not be made, or its start raised an exception, which the text names."""


def fault_of(exc: BaseException) -> EpisodeFault:
    """The fault behind an exception that ended an episode."""
    if isinstance(exc, DriverFailed | MapError):
        return EpisodeFault.DRIVER if isinstance(exc, DriverFailed) else EpisodeFault.MAP
    frames = [Path(frame.filename) for frame in traceback.extract_tb(exc.__traceback__)]
    for fault, folder in _CERTAIN.items():
        if any(folder in file.parents for file in frames):
            return fault
    return EpisodeFault.PROGRAM if isinstance(exc, InvalidScene) else EpisodeFault.WORLD


def is_certain(exc: BaseException) -> bool:
    """Whether the same episode would fail again: its map or program is at fault, not the machine or a connection."""
    return not isinstance(exc, OF_THE_MACHINE) and fault_of(exc) is not EpisodeFault.WORLD
