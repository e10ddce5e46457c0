"""Choices, points, boxes and text in the image (OCR): numbers worked out by hand, and of the reference library."""

from __future__ import annotations

import math

import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_eval_ad2.scoring.metrics.answer_metrics import (
    accuracy,
    cer,
    char_f1,
    iou,
    location_score,
    score_ocr,
    word_count,
)

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


plates = st.text("粤AB12 -", min_size=1, max_size=12).filter(str.strip)


@pytest.mark.parametrize(
    ("predicted", "reference", "error", "f1"),
    [
        ("STOP", "STOP", 0.0, 1.0),
        ("", "STOP", 1.0, 0.0),
        ("STOB", "STOP", 0.25, 0.75),  # 3 hits of 4 and 4
        ("STO", "STOP", 0.25, 6 / 7),  # P 3/3, R 3/4
        ("STOPS", "STOP", 0.25, 8 / 9),  # P 4/5, R 4/4
        ("粤A12345", "粤A12346", 1 / 7, 6 / 7),
        ("XXXXXXXX", "STOP", 2.0, 0.0),  # 4 substitutions, 4 insertions
        ("stop", "STOP", 1.0, 0.0),  # case counts
        (" STOP ", "STOP", 0.0, 1.0),
        ("A 12", "A12", 1 / 3, 6 / 7),  # an inner space is a character
    ],
)
def test_cer_and_char_f1_by_hand(predicted: str, reference: str, error: float, f1: float) -> None:
    assert cer(predicted, reference) == pytest.approx(error)
    assert char_f1(predicted, reference) == pytest.approx(f1)


@given(st.text("粤AB12 -", max_size=12), plates)
def test_equals_jiwer(predicted: str, reference: str) -> None:
    out = jiwer.process_characters(reference, predicted)
    assert cer(predicted, reference) == jiwer.cer(reference, predicted)
    precision = out.hits / len(predicted.strip()) if predicted.strip() else 0.0
    recall = out.hits / len(reference.strip())
    both = precision + recall
    assert char_f1(predicted, reference) == pytest.approx(2 * precision * recall / both if both else 0.0)


def test_characters_in_the_wrong_place_are_no_hits() -> None:
    assert char_f1("POTS", "STOP") < 1.0  # a bag of characters would score 1


def test_word_count() -> None:
    assert word_count("") == 0
    assert word_count("the sign reads STOP.") == 4
    assert word_count("限速60公里") == 5  # each ideograph one, the number one
    assert word_count("停车，让行。") == 4  # punctuation is no word
    assert word_count("粤A·12345 停") == 3


def test_only_the_first_hundred_characters_count() -> None:
    reference = "A" * 100
    assert score_ocr(reference + "B" * 30, reference) == {"ocr_f1": 1.0, "ocr_cer": 0.0}
    long_reference = "A" * 110
    assert score_ocr(long_reference, long_reference)["ocr_cer"] == pytest.approx(10 / 110)


def test_more_than_fifty_words_score_zero() -> None:
    fifty = " ".join(["a"] * 50)
    assert score_ocr(fifty, fifty) == {"ocr_f1": 1.0, "ocr_cer": 0.0}
    assert score_ocr(fifty + " a", fifty) == {"ocr_f1": 0.0, "ocr_cer": 1.0}
    rambling = score_ocr("word " * 60, "STOP")
    assert rambling["ocr_f1"] == 0.0
    assert rambling["ocr_cer"] == cer(("word " * 60)[:100], "STOP") > 1
    assert score_ocr("字" * 51, "字" * 51)["ocr_f1"] == 0.0


def test_empty_reference_is_rejected() -> None:
    for metric in (cer, char_f1, score_ocr):
        with pytest.raises(ValueError, match="empty"):
            metric("STOP", "  ")
