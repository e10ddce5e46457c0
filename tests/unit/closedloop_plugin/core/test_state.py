"""Control: limits, and values that are not finite."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.core.state import Control


@given(st.floats(allow_nan=True, allow_infinity=True), st.floats(-9, 9), st.floats(-9, 9))
def test_control_is_clamped_or_refused(steer: float, throttle: float, brake: float) -> None:
    control = Control(steer, throttle, brake)
    if not math.isfinite(steer):
        with pytest.raises(ValueError, match="not finite"):
            control.checked()
        return
    c = control.checked()
    assert c == Control(sorted((-1, steer, 1))[1], sorted((0, throttle, 1))[1], sorted((0, brake, 1))[1])
