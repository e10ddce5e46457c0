"""The text at the end of `ad2 drive run`."""

from __future__ import annotations

import pytest
from support.closedloop.scored import episode

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.record import PROGRAM
from closedloop_plugin.report.score_text import closing_text


@pytest.mark.parametrize(("length_m", "named"), [(40.0, True), (198.5, False), (0.0, False)])
def test_a_path_ahead_that_ends_early_is_named(length_m: float, named: bool) -> None:
    town = {"source": "town", "sha256": "ab"}
    driven = episode("p", scenario=PROGRAM, town="two_arms", route_length_m=length_m, map=town)
    text = closing_text([driven], [], profile("bench2drive"), 1)
    assert (f"route of {length_m:.0f} m: no lane begins at its end" in text) == named
    assert "1 real town (two_arms 1)" in text
