"""Unread replies of drives: the counts of the records by reason, with the episodes that have most."""

from __future__ import annotations

from pathlib import Path

from support.closedloop.run_folders import record, run_folder

from closedloop_plugin.cli.drive.run_kind import RUN_KIND
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


def test_runs_with_every_reply_read_have_none(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", [record("101", 50.0, counts={"decisions": 10})])
    assert RUN_KIND.unread([folder]) == []
