"""Yes and no by a statement: it names the thing that the question asks about."""

from __future__ import annotations

import pytest

from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.records import Answer

STATEMENTS = [
    ("Is there a bus in the scene?", "Yes.", "yes"),
    ("Is there a bus in the scene?", "No, there is no bus.", "no"),
    ("Is there a bus in the scene?", "There is a bus.", "yes"),
    ("Is there a bus in the scene?", "There is no bus.", "no"),
    ("Is there a bus in the scene?", "I cannot see a bus.", "no"),
    ("Is there a bus in the scene?", "I don't see any bus.", "no"),
    ("Is there a bus in the scene?", "There are none.", "no"),
    ("Is there a bus in the scene?", "I see one.", "yes"),
    ("Is there a bus in the scene?", "There isn't one.", "no"),
    ("Is the traffic light red?", "The light is green.", "no"),
    ("Is the traffic light red?", "No, it is green.", "no"),
    ("Is it safe to overtake?", "It is not safe to overtake.", "no"),
    ("Is it safe to overtake?", "Overtaking is not safe.", "no"),
    ("图中有没有行人?", "没有行人。", "no"),
    ("图中有没有行人?", "有两名行人。", "yes"),
    ("图中有没有行人?", "图中没有行人。", "no"),
    ("图中有没有行人?", "有。", "yes"),
    ("图中有没有行人?", "没有。", "no"),
    ("现在可以左转吗?", "不可以。", "no"),
    ("现在可以左转吗?", "可以左转。", "yes"),
    ("Is there a bus in the scene?", "The sky is blue and there are no clouds.", None),
    ("Is there a bus in the scene?", "There are two cars.", None),
    ("Is there a bus in the scene?", "There is a tree.", None),
    ("Is there a bus in the scene?", "There are no people.", None),
    ("Is there a bus in the scene?", "The road is empty.", None),
    ("图中有没有行人?", "图中有一辆车。", None),
    ("图中有没有行人?", "没有车辆。", None),
    ("Is there a bus in the scene?", "I see a truck.", None),
    ("Is there a bus in the scene?", "A truck is visible.", None),
    ("Is there a bus in the scene?", "No trucks are visible.", None),
    ("Is the traffic light red?", "There are no pedestrians.", None),
    ("Is the traffic light red?", "It does not contain a car.", None),
    ("Is there a bus in the scene?", "The bus question is hard.", None),
    ("Is there a bus in the scene?", "I am looking for a bus.", None),
    ("Is there a bus in the scene?", "You asked about a bus.", None),
    ("Is there a bus in the scene?", "Yes. I can't tell which line it is.", "yes"),
    ("Is there a bus in the scene?", "Some might say no, but the answer is yes.", "yes"),
    ("Is there a bus in the scene?", "I cannot read the sign, but there is a bus.", "yes"),
    ("Is there a bus in the scene?", "Unfortunately the bus in the image is not clear.", None),
    ("Is there a bus in the scene?", "I cannot see the bus clearly.", None),
    ("Is there a bus in the scene?", "I cannot determine whether there is a bus.", None),
    ("Is there a bus in the scene?", "It is unclear if there is a bus.", None),
    ("Is there a bus in the scene?", "The image does not show whether a bus is there.", None),
    ("Is there a bus in the scene?", "There isn't enough information about the bus.", None),
    ("Is there a bus in the scene?", "There is no information about a bus.", None),
    ("Is there a bus in the scene?", "There is no clear evidence of a bus.", None),
    ("Is there a bus in the scene?", "The image is not clear enough to see a bus.", None),
    ("图中有没有行人?", "看不清有没有行人。", None),
    ("图中有没有行人?", "没有关于行人的信息。", None),
    ("图中有没有行人?", "行人看不清楚。", None),
    ("图中有没有行人?", "没有足够信息判断行人是否存在。", None),
    ("Is there a bus in the scene?", "No. There isn't enough information to tell.", None),
    ("Is there a bus in the scene?", "Yes, but I cannot be certain.", None),
]


@pytest.mark.parametrize(("question", "reply", "verdict"), STATEMENTS)
def test_a_statement_about_something_else_is_no_verdict(question: str, reply: str, verdict: str | None) -> None:
    got = parse(reply, "yesno", question=question)
    assert (got.value if isinstance(got, Answer) else None) == verdict
