"""Reference lines of OpenDRIVE roads against points computed by hand."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from closedloop_plugin.maps.towns.reference_line import polynomial, sampled


def plan_view(shape: str, length: float) -> ET.Element:
    return ET.fromstring(
        f'<planView><geometry s="0" x="1" y="2" hdg="0" length="{length}">{shape}</geometry></planView>'
    )


def test_reference_line_shapes_match_hand_computed_points() -> None:
    quarter = 10 * math.pi / 2
    arc = sampled(plan_view('<arc curvature="0.1"/>', quarter), np.array([0, quarter]))
    assert arc[1] == pytest.approx([11, 12, math.pi / 2])
    spiral = sampled(plan_view('<spiral curvStart="0.1" curvEnd="0.1"/>', quarter), np.array([quarter]))
    assert spiral[0] == pytest.approx([11, 12, math.pi / 2], abs=0.01)
    cubic = '<paramPoly3 aU="0" bU="10" cU="0" dU="0" aV="0" bV="0" cV="0" dV="0" pRange="normalized"/>'
    assert sampled(plan_view(cubic, 10), np.array([4.0]))[0] == pytest.approx([5, 2, 0])
    poly = '<poly3 a="0" b="0.75" c="0" d="0"/>'  # 3-4-5
    assert sampled(plan_view(poly, 10), np.array([5.0]))[0] == pytest.approx([5, 5, math.atan(0.75)])
    assert polynomial([(0, 1, 0, 0, 0), (5, 1, 2, 0, 0)], np.array([4.0, 6.0])).tolist() == [1, 3]
