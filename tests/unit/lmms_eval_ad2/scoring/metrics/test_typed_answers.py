"""Choices, points and boxes: numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_eval_ad2.scoring.metrics.typed_answers import accuracy, iou, location_score

coordinates = st.floats(-1e6, 1e6, allow_nan=False)


def test_accuracy() -> None:
    assert accuracy("B", "B") == 1.0
    assert accuracy(" b ", "B") == 1.0
    assert accuracy("yes", "no") == 0.0
    assert accuracy("10", "1") == accuracy("1", "10") == 0.0


def test_location_score_by_hand() -> None:
    assert location_score((5, 5), (5, 5)) == 1.0
    assert location_score((0, 0), (200, 0)) == 0.5  # 1 / (1 + 0.005 * 200)
    assert location_score((0, 0), (300, 400)) == pytest.approx(1 / 3.5)
    assert location_score((0, 0), (3, 4), alpha=1) == pytest.approx(1 / 6)


@given(coordinates, coordinates, coordinates, coordinates)
def test_location_score_is_symmetric_and_bounded(a: float, b: float, c: float, d: float) -> None:
    score = location_score((a, b), (c, d))
    assert 0 < score <= 1
    assert score == location_score((c, d), (a, b))


def test_iou_by_hand() -> None:
    assert iou((0, 0, 10, 10), (0, 0, 10, 10)) == 1.0
    assert iou((0, 0, 10, 10), (5, 5, 15, 15)) == pytest.approx(25 / 175)
    assert iou((0, 0, 10, 10), (0, 0, 10, 5)) == 0.5
    assert iou((0, 0, 10, 10), (10, 0, 20, 10)) == 0.0  # they touch
    assert iou((0, 0, 10, 10), (20, 20, 30, 30)) == 0.0


def test_boxes_without_area_score_zero() -> None:
    assert iou((5, 5, 5, 5), (5, 5, 5, 5)) == 0.0
    assert iou((5, 5, 5, 9), (0, 0, 10, 10)) == 0.0
    assert iou((10, 10, 0, 0), (0, 0, 10, 10)) == 0.0  # corners in the wrong order enclose nothing
    assert iou((0, 0, 1e300, 1e300), (0, 0, 1e300, 1e300)) == 0.0  # an area beyond any float


@given(st.tuples(*[coordinates] * 8))
def test_iou_is_symmetric_and_bounded(n: tuple[float, ...]) -> None:
    a = (min(n[0], n[1]), min(n[2], n[3]), max(n[0], n[1]), max(n[2], n[3]))
    b = (min(n[4], n[5]), min(n[6], n[7]), max(n[4], n[5]), max(n[6], n[7]))
    assert 0 <= iou(a, b) <= 1 + 1e-9
    assert math.isclose(iou(a, b), iou(b, a), abs_tol=1e-12)


def test_wrong_shapes_are_rejected() -> None:
    with pytest.raises(ValueError, match="two points"):
        location_score((1, 2, 3, 4), (1, 2))
    with pytest.raises(ValueError, match="four numbers"):
        iou((1, 2), (1, 2, 3, 4))
