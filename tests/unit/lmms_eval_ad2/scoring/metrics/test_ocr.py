"""CER and character F1: by hand, and against jiwer."""

from __future__ import annotations

import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_eval_ad2.scoring.metrics.ocr import cer, char_f1, score_ocr, word_count

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
