"""Counts: bounds, groups and lack of information are no number."""

from __future__ import annotations

import pytest

from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.records import Answer, Unparsed

BOUNDS = [
    ">3",
    "> 3",
    "at least 3",
    "At least 3 cars.",
    "There are at least three cars.",
    "3+",
    "3 or more",
    "More than 3",
    "≥3",
    "<3",
    "a minimum of 3",
    "no fewer than 3",
    "Upwards of 3",
    "3 at least",
    "3 at minimum",
    "up to 3",
    "not more than 3",
    "as many as 3",
    "above 3",
    "Fewer than 3.",
    "3 cars or more",
    "3 cars at least",
    "three or so cars, maybe more",
    "minimum 3",
    "exceeds 3",
    "greater than 3",
    "3 plus",
    "3-5",
    "between 3 and 5",
    "3 or 4",
    "至少3辆",
    "3辆以上",
    "不少于3辆",
    "超过3辆",
    "大于3",
    "起码3辆",
    "最少3辆",
    "不止3辆",
    "3辆或更多",
    "不到3辆",
    "最多3辆",
    "3辆以内",
    "三四辆",
    "多于三辆",
    "小于3",
    "至少有三辆车",
]
GROUPS = [
    "one on the left and one on the right",
    "One on the left, one on the right.",
    "There is one on the left and one on the right.",
    "one car on the left and one car on the right",
    "One car is on the left. One car is on the right.",
    "two in front and two behind",
    "one here and another there",
    "One in the left lane, another one in the right lane.",
    "左边一辆,右边一辆",
    "左侧有一辆车,右侧也有一辆车",
    "1 red car, 1 blue car",
    "a red car and a blue car",
    "one red and one blue",
    "One ahead, and one parked.",
]
NOT_NONE = [
    "there is no way to count them",
    "There is no way to count the cars.",
    "There's no way of counting.",
    "There is no possibility to count them.",
    "There is no clear view.",
    "No information.",
    "There is no information on this.",
    "I cannot count them.",
    "I cannot see clearly.",
    "It is impossible to count.",
    "There isn't enough detail.",
    "没有办法数清。",
    "没有足够信息。",
    "数不清。",
    "无法计数",
    "看不清有几辆。",
    "There are no pedestrians.",
    "There is no answer.",
    "There is no number.",
    "No idea.",
    "None of your business.",
    "There is no image.",
]
READ = [
    ("3", 3),
    ("There are 3 cars.", 3),
    ("three", 3),
    ("No cars.", 0),
    ("There are no cars.", 0),
    ("None.", 0),
    ("There are none.", 0),
    ("about 3", 3),
    ("2 on the left and 1 on the right, so 3 in total.", 3),
    ("One on the left and one on the right: 2 in total.", 2),
    ("I can see 3 cars. The 3 cars are parked.", 3),
    ("There are 3 cars in total.", 3),
    ("3辆", 3),
    ("没有车", 0),
    ("一共三辆", 3),
    ("Exactly 3.", 3),
]


def question(reply: str) -> str:
    return "How many cars are visible?" if reply.isascii() else "图中有几辆车?"


@pytest.mark.parametrize("reply", BOUNDS)
def test_a_bound_or_a_range_is_no_count(reply: str) -> None:
    for asked in ("", question(reply)):
        got = parse(reply, "count", question=asked)
        assert isinstance(got, Unparsed), got


@pytest.mark.parametrize("reply", GROUPS)
def test_the_numbers_of_groups_are_no_count_of_all(reply: str) -> None:
    got = parse(reply, "count", question=question(reply))
    assert isinstance(got, Unparsed), got


@pytest.mark.parametrize("reply", NOT_NONE)
def test_that_there_is_none_of_something_else_is_not_zero(reply: str) -> None:
    got = parse(reply, "count", question=question(reply))
    assert isinstance(got, Unparsed), got


@pytest.mark.parametrize(("reply", "count"), READ)
def test_a_count_is_read(reply: str, count: int) -> None:
    got = parse(reply, "count", question=question(reply))
    assert isinstance(got, Answer) and got.value == count
