"""The annotation of left/right questions (AD2-Bench A.5)."""

from __future__ import annotations

from dataclasses import replace

from support.annotate.folders import text_record

from lmms_eval_ad2.core.records import SIDES, YES_NO, Answer, BilingualText, Unparsed
from lmms_eval_ad2.parsing import parse


def test_a_record_names_the_two_answers_of_its_question() -> None:
    record = replace(text_record(), form="yesno", answer=BilingualText(en="left"))
    assert record.words == SIDES
    assert parse("on the left", "yesno", words=record.words) == Answer("yesno", "left")
    assert isinstance(parse("left", "yesno"), Unparsed)
    assert replace(record, answer=BilingualText(en="no")).words == YES_NO
    assert replace(record, form="vqa").words == YES_NO
