"""The text that `ad2 mcq build` prints at its end."""

from __future__ import annotations

from pathlib import Path

from lmms_eval_ad2.cli.mcq.build import summary
from lmms_eval_ad2.mcq.output_files import CardCounts, McqBuildResult


def test_unusable_replies_and_unfinished_questions_are_named_with_their_reasons(tmp_path: Path) -> None:
    made = {
        "name": "autodrive_qa", "split": "test", "kind": "all", "maker": "openai:m", "seed": 0, "account": {},
        "counts": CardCounts().facts(), "sources": [], "rejected": {"ambiguous": 2}, "unfinished": {"no_proposals": 27},
        "notes": {"duplicate": 4, "proposer_failed": 135, "reply_not_json": 405, "reply_wrong_shape": 3},
    }  # fmt: skip
    lines = summary(McqBuildResult(tmp_path / "questions.jsonl", made), tmp_path).splitlines()
    assert "unusable replies: not_json 405, wrong_shape 3" in lines
    assert "rejected: ambiguous 2 (rejected.jsonl)" in lines
    (line,) = [line for line in lines if line.startswith("NOT FINISHED: ")]
    assert line == (
        "NOT FINISHED: 27 questions failed at the endpoint or got no usable reply (no_proposals 27): "
        "run the same command again"
    )
