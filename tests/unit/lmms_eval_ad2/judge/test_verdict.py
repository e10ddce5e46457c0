"""Parsing of verdicts: which replies contain a mark; no other text is read as one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.judge import verdict


def strict(reply: str, finish: str | None = "stop") -> float | str:
    found = verdict.read(reply, finish, "strict", "r")
    return found.reason if isinstance(found, Unscored) else found


def official(reply: str) -> float | str:
    found = verdict.read(reply, "stop", "official", "r")
    return found.reason if isinstance(found, Unscored) else found


@pytest.mark.parametrize(
    ("reply", "mark"),
    [
        ("Good.\nRating: [[7]]", 7),
        ("Rating: [[10]]", 10),
        ("Rating: [[1]]", 1),
        ("[[ 6.5 ]]", 6.5),
        ("[[3]] is fair. Rating: [[3]], that is [[3.0]]", 3),
        ("[[5]] out of [[10]]", "several_ratings"),
        ("I rate [[3]]. The scale is [[1]] to [[10]]", "several_ratings"),
        ("between [[1]] and [[10]]: 4", "several_ratings"),
        ("First I thought [[9]], but the light is wrong. Rating: [[3]]", "several_ratings"),
        ("The scale ends at [[10]].\n\nRating: [[2]]\n", "several_ratings"),
        ("Rating: [[8]] on ten, so [[80]]", "several_ratings"),
        ("<think>[[1]] to [[10]]</think>[[n]] is what you want: [[4]]", 4),
        ("**Rating: [[8]]**", 8),
        ("理由充分。\nRating: [[8]]", 8),
        ("<think>Could be [[9]].</think>Rating: [[4]]", 4),
        ("Score: 0 (rule 1 violated)", "unparsed_reply"),
        ("Score: 10", "unparsed_reply"),
        ("10", "unparsed_reply"),
        ("Rating: 7", "unparsed_reply"),
        ("Rating: [7]", "unparsed_reply"),
        ("Rating: [[7/10]]", "unparsed_reply"),
        ("Rating: [[n]]", "unparsed_reply"),
        ("Rating: [[seven]]", "unparsed_reply"),
        ("Rating: [[7", "unparsed_reply"),
        ("Rating: [·[10]·]", "unparsed_reply"),
        ("I cannot help with that.", "unparsed_reply"),
        ("<html><body>Rating 9</body></html>", "unparsed_reply"),
        ("<think>It deserves [[9]], or maybe", "unparsed_reply"),
        ("Rating: [[0]]", "out_of_range"),
        ("Rating: [[11]]", "out_of_range"),
        ("Rating: [[100]]", "out_of_range"),
        ("Rating: [[-3]]", "out_of_range"),
        ("Rating: [[0.9]]", "out_of_range"),
        ("", "empty_reply"),
        (" \n", "empty_reply"),
        ("<think>[[5]]</think>", "empty_reply"),
    ],
)
def test_strict_verdicts(reply: str, mark: float | str) -> None:
    assert strict(reply) == mark


@pytest.mark.parametrize(
    ("reply", "mark"),
    [
        ("Rating: [[7]]", 7),
        ("The rating is: [[6]]", 6),
        ("so [[5]]", 5),
        ("[[5]] out of [[10]]", 5),  # as the official script reads it
        ("between [[1]] and [[10]]: 4", 1),
        ("so [[5]], or rather Rating: [[8]]", 8),  # its lead comes first in the order of leads
        ("Rating: [[4]] ... Rating: [[9]]", 4),  # the first one, as in the official script
        ("Rating: [[4 ]]", 4),
        ("Rating: [[x]]; rating is: [[3]]", 3),
        ("Rating: [[7.5]]", "unparsed_reply"),  # int() of the official script
        ("Rating: [[8/10]]", "unparsed_reply"),
        ("Score: 0 (rule 1 violated)", "unparsed_reply"),
        ("Rating: 10", "unparsed_reply"),
        ("Rating: [[0]]", "out_of_range"),
        ("Rating: [[77]]", "out_of_range"),
        ("<think>Rating: [[9]]</think> Rating: [[2]]", 9),  # the script reads the whole reply
        ("<think>Rating: [[9]]", 9),
        ("Rating: [[1_0]]", 10),  # int() accepts it
        ("Rating: [[" + "9" * 4000 + "]]", "out_of_range"),
        ("Rating: [[" + "9" * 5000 + "]]", "unparsed_reply"),  # int() refuses it
        ("Rating: [[5" + " " * 400 + "x]]", "unparsed_reply"),
        ("", "empty_reply"),
    ],
)
def test_official_verdicts(reply: str, mark: float | str) -> None:
    assert official(reply) == mark


@pytest.mark.parametrize(("finish", "reason"), [("length", "truncated_reply"), ("content_filter", "refused")])
def test_the_finish_reason_overrides_the_text(finish: str, reason: str) -> None:
    found = verdict.read("Rating: [[9]]", finish, "strict", "coda_general")
    assert isinstance(found, Unscored) and (found.metric, found.reason) == ("coda_general", reason)


@given(st.text() | st.text(alphabet="[]0123456789.-+ Rating:is\n"), st.sampled_from(verdict.REPLY_FORMS))
def test_any_text_gives_a_mark_on_the_scale_or_none(reply: str, form: verdict.ReplyForm) -> None:
    found = verdict.read(reply, "stop", form, "r")
    if isinstance(found, Unscored):
        assert found.reason in (verdict.UNPARSED, verdict.SEVERAL, verdict.OUT_OF_RANGE, verdict.EMPTY)
    else:
        assert 1 <= found <= 10 and "[[" in reply


def test_a_reply_without_a_mark_is_kept() -> None:
    reply = "Because " + "x" * 1000 + " no verdict"
    assert verdict.read(reply, "stop", "strict", "r") == Unscored("r", verdict.UNPARSED, reply)


@pytest.mark.parametrize(("finish", "reason"), [("length", "truncated_reply"), ("content_filter", "refused")])
def test_the_official_form_reads_the_mark_of_an_incomplete_reply(finish: str, reason: str) -> None:
    assert verdict.read("Rating: [[4]] and", finish, "official", "r") == 4
    found = verdict.read("Well,", finish, "official", "r")
    assert isinstance(found, Unscored) and found.reason == reason
    assert strict("Rating: [[4]] and", finish) == reason
