"""UnreadReplies: which replies are unread, samples and file; the command that reads one again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.closedloop.models import decision_request

from closedloop_plugin.core.state import Control, Decision, InterpretedControl
from closedloop_plugin.runner.decisions import DecisionResponse
from closedloop_plugin.runner.unread_replies import KEPT, TEXT, UnreadReplies, UnreadReply, unread_reply

WORDS = Decision({"action": "turtles"})


def reply(text: str = "turtles", time_s: float = 0.0, **other: object) -> UnreadReply:
    known = {"reason": "no_command", "mode": "rules", "texts": {"action": text}}
    return UnreadReply(**{"episode": "101_rep0", "time_s": time_s, "reply": text, **known, **other})  # type: ignore[arg-type]


def filled(*texts: str) -> UnreadReplies:
    replies = UnreadReplies()
    for i, text in enumerate(texts):
        replies.add(reply(text, time_s=i / 10))
    return replies


@pytest.mark.parametrize(
    ("response", "replied", "unread"),
    [
        (DecisionResponse(Decision(control=Control())), False, None),
        (DecisionResponse(Decision(error="timeout")), False, None),
        (DecisionResponse(WORDS), False, None),
        (DecisionResponse(WORDS, InterpretedControl(None, "500", "no_reply HTTP 500", "cng")), False, None),
        (DecisionResponse(WORDS, InterpretedControl(None, "", "no_description", "cng")), False, None),
        (DecisionResponse(WORDS, InterpretedControl(Control(), "{}", mode="cng")), True, None),
        (DecisionResponse(WORDS, InterpretedControl(None, "{}", "no_keys", "cng")), True, "no_keys"),
        (DecisionResponse(WORDS, InterpretedControl(None, "{}", None, "cng")), True, "no reason given"),
        (
            DecisionResponse(WORDS, InterpretedControl(Control(float("nan")), "nan", mode="cng")),
            True,
            "control is not finite",
        ),
    ],
)
def test_a_failure_is_neither_read_nor_unread(response: DecisionResponse, replied: bool, unread: str | None) -> None:
    assert (response.replied, response.unread) == (replied, unread)
    found = unread_reply(decision_request(), response)
    assert (found and found.reason) == unread


def test_a_sample_has_the_slow_systems_text_or_else_the_fast_systems() -> None:
    slow = unread_reply(decision_request(), DecisionResponse(WORDS, InterpretedControl(None, "{}", "no_keys", "cng")))
    fast = unread_reply(decision_request(), DecisionResponse(WORDS, InterpretedControl(None, "", "failed", "cng")))
    assert slow and fast and (slow.reply, fast.reply) == ("{}", "turtles")
    assert slow.texts == {"action": "turtles"}


def test_long_texts_are_cut_before_they_are_sent() -> None:
    text = "x" * 10 * TEXT
    response = DecisionResponse(Decision({"action": text}), InterpretedControl(None, text, text, "rules"))
    found = unread_reply(decision_request(), response)
    assert found and {len(found.reply), len(found.reason), len(found.texts["action"])} == {TEXT}
    assert len(str(found)) < 300


def test_a_read_reply_starts_the_count_again() -> None:
    replies = filled("a", "b")
    assert replies.count == 2
    replies.add(None)
    assert replies.count == 0 and replies.samples() == []


def test_samples_are_different_texts_if_there_are_enough() -> None:
    assert [s.reply for s in filled("a", "a", "b", "a", "c").samples()] == ["a", "b", "c"]
    assert [s.reply for s in filled("a", "a", "b", "a").samples()] == ["a", "a", "b"]
    assert [s.time_s for s in filled("a", "a", "a", "a").samples()] == [0.0, 0.1, 0.2]
    assert [s.reply for s in filled("a").samples()] == ["a"]


def test_a_sample_is_one_line_without_control_characters() -> None:
    shown = str(reply("red\x1b[31m\nnext\u2028\u202eline " + "é" * 100, time_s=1.25))
    assert shown.splitlines() == [shown] and shown.isprintable()
    assert shown.startswith(r"101_rep0 at 1.2 s 'red\x1b[31m next")
    assert shown.endswith("ééé...' (no_command)")


def test_the_file_has_the_whole_texts_of_the_first_replies(tmp_path: Path) -> None:
    replies = filled("turtles\n\ud800", *("b" for _ in range(2 * KEPT)))
    assert replies.count == 2 * KEPT + 1
    assert replies.write(tmp_path / "logs/unread.jsonl") == KEPT
    rows = [json.loads(line) for line in (tmp_path / "logs/unread.jsonl").read_text("utf-8").splitlines()]
    assert len(rows) == KEPT and rows[0]["reply"].startswith("turtles\n")
    assert set(rows[0]) == {"episode", "time_s", "reason", "mode", "reply", "texts"}


@pytest.mark.parametrize(
    ("unread", "policy", "command"),
    [
        (reply(), "strict", "ad2 drive read"),
        (reply(texts={"trajectory": "turtles"}), "official", "ad2 drive read --task trajectory"),
        (reply(mode="cng"), "official", "ad2 drive read --interpreter cng"),
        (reply(mode="dcs"), "strict", "ad2 drive read --interpreter dcs --policy strict"),
    ],
)
def test_the_command_reads_as_the_run_does(unread: UnreadReply, policy: str, command: str) -> None:
    assert unread.command("bench2advlm", policy) == f"{command} --profile bench2advlm TEXT"
