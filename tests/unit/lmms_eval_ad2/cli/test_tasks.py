"""`ad2 tasks`: patterns of tasks and groups."""

from __future__ import annotations

import json

import pytest

from lmms_eval_ad2.cli.main import main


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("ad2demo_relation", ["ad2demo_relation"]),
        ("ad2_mcq_*", ["ad2_mcq_perception", "ad2_mcq_planning", "ad2_mcq_prediction"]),
        ("bench_coda_lm", ["ad2_coda_general", "ad2_coda_region", "ad2_coda_suggestion"]),
    ],
)
def test_a_pattern_lists_tasks_and_members_of_groups(
    pattern: str, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tasks", pattern, "--json"]) == 0
    assert sorted(row["task"] for row in json.loads(capsys.readouterr().out)) == names


@pytest.mark.parametrize("more", [[], ["--json"]])
@pytest.mark.parametrize(
    ("pattern", "hint"), [("ad2_relatoin", "did you mean ad2_relation"), ("zzz*", "all: ad2 tasks")]
)
def test_a_pattern_without_a_match_is_one_line(
    pattern: str, hint: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tasks", pattern, *more]) == 2
    output = capsys.readouterr()
    assert output.err.startswith(f"error: no task matches '{pattern}'; {hint}") and output.err.count("\n") == 1
    assert not output.out
