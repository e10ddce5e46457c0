"""What others say, and what is only supposed, is no verdict of the reply."""

from __future__ import annotations

import pytest

from lmms_eval_ad2.core.records import Answer, Unparsed
from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.parsing.attributed import without_attributed

ENGLISH = [
    "My friend says yes.",
    "My colleague thinks no.",
    "He would say no.",
    "Some people would answer yes.",
    "The driver believes there is a bus.",
    "According to my teacher, there is a bus in the scene.",
    "Someone told me that there is a bus.",
    "A child would say no.",
    "You might say yes.",
    "The user claims yes.",
    "The other model answered no.",
    "They said yes.",
    "If it were night, the answer would be no.",
    "If there were a bus, yes.",
    "Suppose there is a bus in the scene.",
    "Assuming the truck moves, yes.",
    "Hypothetically, yes.",
    "Let us imagine there is a bus in the scene.",
    "Had it been raining, no.",
    "Were there a bus, I would see it.",
    "In another case the answer would be yes.",
    "Perhaps there is a bus.",
    "An expert might disagree and say no.",
    'My colleague said: "Yes, there is a bus."',
    "Many would argue that there's no bus.",
    "In his opinion, yes.",
    "In the opinion of the driver, no.",
    "The previous answer was yes.",
    "The correct answer was said to be yes.",
    "I was told that the answer is yes.",
    "My boss insists it's yes.",
    "The annotator marked yes.",
    "My sister believes that there is a bus.",
    "Everyone says no.",
    "Most people would say there is a bus.",
    "One could argue that there is a bus.",
    "One might think there is no bus.",
    "You could say yes.",
    "A passenger reported that there was a bus.",
    "Experts think so.",
    "GPT-4 said yes.",
    "Another model says no.",
    "ChatGPT answered yes.",
    "The label says yes.",
    "Rumour has it that there is a bus.",
    "I've heard that there is a bus.",
    "They claim there is no bus.",
    "As my friend put it, yes.",
    "As the user said, there is a bus.",
    "As he says, no.",
    "To him, yes.",
    "My friend's answer is yes.",
    "The student's answer is no.",
    "His answer: yes.",
    "Her answer would be no.",
    "Your answer is yes.",
    "The answer of my colleague is no.",
    "If the bus had not left, yes.",
    "Yes, if there were a bus.",
    "Only if the lights are on, yes.",
    "Unless the bus has moved, yes.",
    "Provided that the image is current, yes.",
    "In case of rain, no.",
    "Say there is a bus in the scene.",
    "Let's pretend there is a bus.",
    "What if there is a bus?",
    "It would be yes if the light were on.",
    "It would have been no yesterday.",
    "Should there be a bus, it would be on the left.",
    "In theory, yes.",
    "Theoretically there is a bus.",
    "Maybe yes.",
    "Possibly no.",
    "Perhaps.",
    "Probably yes, said the driver.",
    'The sentence "there is a bus" is what I was asked to check.',
    "The question is whether there is a bus.",
    "I wonder if there is a bus.",
    "I would check if there is a bus.",
]
CHINESE = [
    "我的朋友说有。",
    "同事认为没有。",
    "有人说是。",
    "有些人会回答是。",
    "他认为有行人。",
    "司机觉得没有行人。",
    "如果是晚上,那么没有。",
    "假设有行人。",
    "据说有行人。",
    "别人说没有。",
    "专家认为是。",
    "老师说:有。",
    "用户认为有行人。",
    "假如下雨,就没有行人。",
    "我妹妹说有行人。",
    "多数人认为没有。",
    "专家们说有。",
    "网上说有。",
    "用户的答案是有。",
    "他的答案是没有。",
    "同事的回答是有。",
    "有人可能会说没有。",
    "听说有行人。",
    "据报道有行人。",
    "按照他的说法,有行人。",
    "根据司机的说法,没有行人。",
    "假定有行人。",
    "倘若下雨,没有。",
    "要是晚上,没有。",
    "除非下雨,否则有。",
    "只有天亮才有。",
    "也许有。",
    "可能没有。",
    "或许是。",
    "大概有吧。",
    "别的模型回答有。",
    "另一个模型说没有。",
    "题目说有行人。",
    "理论上有。",
]
LETTERS = [
    "If the car were turning, the answer would be B.",
    "My colleague thinks the answer is B.",
    "Some would choose B.",
    "According to the user, the answer is B.",
    "He said B.",
    "A student answered B.",
    "Suppose the answer is B.",
    "Assuming it is night, the answer is B.",
    "Had the light been red, the answer would be B.",
    "My friend: B",
    "有人认为答案是B。",
    "同事说选B。",
    "如果下雨,答案是B。",
    "假设答案是B。",
    "The answer key of a different question is B.",
    "Imagine the answer is B.",
    "The previous answer was B.",
    "The other model chose B.",
    "Hypothetically, B.",
    "I was told that the answer is B.",
    "据说答案是B。",
]
COUNTS = [
    "My friend says 3.",
    "If it were day, there would be 3.",
    "He counted 3 cars.",
    "Someone might count 4.",
    "Suppose there are 3.",
    "有人说是3辆。",
    "如果是白天,有3辆。",
]


@pytest.mark.parametrize("reply", [*ENGLISH, *CHINESE])
def test_an_opinion_of_others_and_a_hypothesis_are_no_verdict(reply: str) -> None:
    question = "Is there a bus in the scene?" if reply in ENGLISH else "图中有没有行人?"
    assert isinstance(parse(reply, "yesno", question=question), Unparsed)


@pytest.mark.parametrize("reply", LETTERS)
def test_a_letter_that_others_name_is_no_verdict(reply: str) -> None:
    assert isinstance(parse(reply, "mc", letters="ABCD"), Unparsed)


@pytest.mark.parametrize("reply", COUNTS)
def test_a_number_that_others_name_is_no_count(reply: str) -> None:
    question = "How many cars are visible?" if reply.isascii() else "图中有几辆车?"
    assert isinstance(parse(reply, "count", question=question), Unparsed)


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("My colleague thinks A, but the answer is B.", "B"),
        ("Some would choose A; I choose B.", "B"),
        ("Others say A. The answer is B.", "B"),
        ("有人认为是A,但答案是B。", "B"),
    ],
)
def test_what_the_writer_says_then_counts(reply: str, letter: str) -> None:
    assert parse(reply, "mc", letters="ABCD") == Answer("mc", letter)


def test_positions_stay() -> None:
    text = "He says yes. The car is red."
    assert without_attributed(text) == " " * len("He says yes") + ". The car is red."
