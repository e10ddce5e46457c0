"""`ad2 report --unparsed`: unread replies by reason, most frequent first, with shortened examples."""

from __future__ import annotations

from pathlib import Path

from support.make_runs import cell, sample, summary, task, write_run

from lmms_eval_ad2 import report
from lmms_eval_ad2.report.table import columns_of
from lmms_eval_ad2.report.unread import EXAMPLES, REASONS, REPLY, render, unread

TASK = "ad2_perception_base"


def runs_of(folder: Path, rows: list[dict[str, object]], **more: object) -> list[report.RunSummary]:
    bad = sum(row["status"] == "unparsed" for row in rows)
    table = task("ad2_bench", "perception_base", cell(50.0, n=len(rows), unparsed=bad), **more)
    write_run(folder, summary({TASK: table}), {TASK: rows} if rows else None)
    return report.load([folder])


def test_reasons_are_counted_and_sorted(tmp_path: Path) -> None:
    rows = [sample(f"a{i}", 0.0, raw=f"Maybe {i}", status="unparsed", reason="hedged") for i in range(2)]
    rows += [sample(f"b{i}", 0.0, raw="", status="unparsed", reason="no_verdict") for i in range(5)]
    rows += [sample("c", 100.0), sample("d", None, status="unscored", reason="request_failed")]
    found = unread(runs_of(tmp_path, rows))
    assert [(one.reason, one.n, one.asked, len(one.examples)) for one in found] == [
        ("no_verdict", 5, 9, EXAMPLES), ("hedged", 2, 9, 2),
    ]  # fmt: skip
    text = render(found)
    assert text.startswith("Unread replies: 7\n")
    assert "toy-7b, ad2_perception_base, hedged: 2 of 9\n  a0 [yesno]: Maybe 0\n  a1 [yesno]: Maybe 1\n" in text
    assert "b0 [yesno]: (empty)" in text and "request" not in text


def test_hostile_replies_are_short_and_printable(tmp_path: Path) -> None:
    reply = "\x1b[2J\u202e" + "x" * 5000 + "\nerror: fine, the last words"
    rows = [sample("i" * 500, 0.0, raw=reply, status="unparsed", reason="r" * 500, form="point")]
    found = unread(runs_of(tmp_path, rows))
    assert len(found[0].examples[0].reply) <= REPLY and found[0].examples[0].reply.endswith("the last words")
    text = render(found)
    assert "\x1b" not in text and "\u202e" not in text and "\nerror: fine" not in text
    assert "[point, frame auto]" in " ".join(text.split())
    assert max(map(columns_of, text.splitlines())) <= 100
    assert "\x1b" not in render(found, markdown=True)


def test_the_number_of_reasons_is_bounded(tmp_path: Path) -> None:
    rows = [sample(f"s{i}", 0.0, status="unparsed", reason=f"reason {i}") for i in range(REASONS + 20)]
    found = unread(runs_of(tmp_path, rows))
    assert len(found) == REASONS + 1
    assert (found[0].reason, found[0].n) == ("other", 20)


def test_letters_offered_are_named(tmp_path: Path) -> None:
    row = sample("m", 0.0, raw="It depends", status="unparsed", reason="hedged")
    row |= {"form": "mc", "record": {"options": [{"letter": letter} for letter in "ABC"]}}
    assert unread(runs_of(tmp_path, [row]))[0].examples[0].expected == "mc A/B/C"


def test_turns_are_joined(tmp_path: Path) -> None:
    row = sample("m", 0.0, status="unparsed", reason="empty") | {"raw": ["", "step two"]}
    assert unread(runs_of(tmp_path, [row]))[0].examples[0].reply == " | step two"


def test_without_samples_the_counts_of_the_summary_remain(tmp_path: Path) -> None:
    table = task("ad2_bench", "relation", cell(50.0, unparsed=3), reasons={"unparsed:hedged": 3, "unscored:x": 1})
    write_run(tmp_path, summary({"t": table}))
    (found,) = unread(report.load([tmp_path]))
    assert (found.reason, found.n, found.asked, found.examples) == ("hedged", 3, 100, ())


def test_nothing_unread(tmp_path: Path) -> None:
    assert (
        render(unread(runs_of(tmp_path, [sample("a", 100.0)])))
        == "No unread reply: every reply was read, or is unscored.\n"
    )
