"""What an exception blames, and whether another try can help."""

from __future__ import annotations

import pytest

from closedloop_plugin.core.state import EpisodeFault
from closedloop_plugin.maps.opendrive_file import opendrive_root
from closedloop_plugin.runner.faults import DriverFailed, fault_of, is_certain
from closedloop_plugin.worlds.base import InvalidScene, WorldError


def raised(call: object, *args: object) -> BaseException:
    with pytest.raises(BaseException) as found:
        call(*args)  # type: ignore[operator]
    return found.value


def throw(exc: BaseException) -> None:
    raise exc


@pytest.mark.parametrize(
    ("exc", "fault", "certain"),
    [
        (WorldError("no frame"), EpisodeFault.WORLD, False),
        (ConnectionResetError("gone"), EpisodeFault.WORLD, False),
        (MemoryError(), EpisodeFault.WORLD, False),
        (ZeroDivisionError("somewhere"), EpisodeFault.WORLD, False),
        (InvalidScene("no scene in 2000 tries"), EpisodeFault.PROGRAM, True),
        (DriverFailed("start() raised"), EpisodeFault.DRIVER, True),
    ],
)
def test_the_fault_of_an_exception(exc: BaseException, fault: EpisodeFault, certain: bool) -> None:
    found = raised(throw, exc)
    assert (fault_of(found), is_certain(found)) == (fault, certain)


def test_an_exception_on_the_way_through_the_maps_is_a_fault_of_the_map() -> None:
    found = raised(opendrive_root, b"no map", "town.xodr")
    assert (fault_of(found), is_certain(found)) == (EpisodeFault.MAP, True)
