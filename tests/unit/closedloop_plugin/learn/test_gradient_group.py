"""A group of processes, one of which dies while the group starts."""

from __future__ import annotations

import multiprocessing
import os

import pytest

from closedloop_plugin.learn.gradient_group import gradient_group
from lmms_eval_ad2.core.errors import Ad2Error


class KillsItsReader:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return os._exit, (7,)


@pytest.mark.integration
@pytest.mark.timeout(120)
def test_a_process_that_dies_before_it_joins_is_noticed() -> None:
    match = r"ended at its start \(exit code 7\)"
    with pytest.raises(Ad2Error, match=match), gradient_group(3, print, [KillsItsReader()]):
        raise AssertionError("not reached")
    assert not multiprocessing.active_children()
