"""Unread replies of drives: the counts of the records by reason, with the episodes that have most."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.closedloop.run_folders import record, run_folder

from closedloop_plugin.cli.drive.run_kind import RUN_KIND
from closedloop_plugin.runner.decisions import UnreadReply
from closedloop_plugin.runner.early_stop import UNREAD_FILE, UnreadReplies
from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.report.unread import UnreadExample, render


def test_reasons_of_all_episodes_are_added(tmp_path: Path) -> None:
    one = {"decisions": 10, "unparsed": 5, "unparsed: unknown_words": 4, "unparsed: truncated": 1}
    two = {"decisions": 10, "unparsed": 6, "unparsed: unknown_words": 6}
    folder = run_folder(tmp_path / "run", [record("101", 50.0, counts=one), record("102", 50.0, counts=two)])
    found = {replies.reason: replies for replies in RUN_KIND.unread([folder])}
    words = found["unknown_words"]
    assert (words.n, words.asked, words.task) == (10, 20, "demo")
    assert words.examples[0] == UnreadExample(
        "route 102, repetition 0", "driving decision", "6 replies, not in the record"
    )
    assert found["truncated"].n == 1
    assert "unknown words: 10 of 20" in render(list(found.values()))


def test_replies_after_which_a_run_stopped_are_examples(tmp_path: Path) -> None:
    counts = {"decisions": 10, "unparsed": 2, "unparsed: unknown_words": 2}
    folder = run_folder(tmp_path / "run", [record("101", 50.0, counts=counts)])
    replies = UnreadReplies()
    for i in range(20):
        replies.add(UnreadReply("102, 0", 0.1 * i, "unknown_words", "", "\x1b[2JOnward!" if i % 2 else "Go", {}))
    (folder / "logs").mkdir()
    replies.write(folder / UNREAD_FILE)
    (found,) = RUN_KIND.unread([folder])
    assert (found.n, found.asked) == (20, 20)
    assert [example.reply for example in found.examples] == ["Go", "\x1b[2JOnward!"]
    assert "102, 0 [driving decision]: \\x1b[2JOnward!" in render([found])
    (folder / UNREAD_FILE).write_text("{}\n")
    with pytest.raises(DataError, match="unread"):
        RUN_KIND.unread([folder])


def test_runs_with_every_reply_read_have_none(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", [record("101", 50.0, counts={"decisions": 10})])
    assert RUN_KIND.unread([folder]) == []
