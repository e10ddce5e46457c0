"""The packaged table of AD2-Bench's sub-tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.builders import record

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.records import BilingualText
from lmms_eval_ad2.scoring.pipeline import summarise
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.sample_summary import SampleSummary
from lmms_eval_ad2.scoring.score_columns import column_of, mean_columns, subtasks
from lmms_eval_ad2.scoring.variant import TaskVariant

# Section 3.2 and appendix A.5 to A.9 of the paper, with the column of Tables 5, 6 and 7 ("category" has none).
NAMED = {
    "perception_base": {
        "existence": "existence", "existence_left_right": "existence", "category": "category", "counting": "counting",
        "location": "location", "detection": "detection", "reference_detection": "detection",
    },
    "perception_advanced": {
        "ocr": "ocr_f1", "attribute": "attribute", "position": "position", "motion": "position",
        "dense_caption": "caption_others", "lane_line": "caption_others", "others": "caption_others",
    },
    "relation": {name: name for name in ("spatial", "social", "causal", "occlusion")},
    "reasoning": dict.fromkeys(
        ("weather", "night", "region", "occlusion_reasoning", "cross_role", "holistic"), "reasoning"
    ),
}  # fmt: skip


def test_sub_tasks_that_the_paper_names_have_their_columns() -> None:
    found: dict[str, dict[str, str]] = {}
    for row in subtasks().values():
        found.setdefault(row.part, {})[row.name] = row.column
    assert found == NAMED
    for part, columns in NAMED.items():
        assert {name: column_of("ad2_bench", part, name) for name in columns} == columns


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "subtasks.yaml"
    file.write_text(
        "yield_rule: {part: reasoning, column: traffic_rule, mean: true}\n"
        "sign_rule: {part: reasoning, column: traffic_rule}\n"
        "night: {part: reasoning, column: dark}\n"
        "intent: {part: relation, column: intent, mean: true, id: 31}\n"
    )
    monkeypatch.setenv("AD2_SUBTASKS", str(file))
    return file


@pytest.mark.usefixtures("table")
def test_columns_of_the_users_table_in_reasoning_and_in_means() -> None:
    assert [column_of("ad2_bench", "reasoning", name) for name in ("yield_rule", "night", "weather", "new")] == [
        "traffic_rule", "dark", "reasoning", "reasoning",
    ]  # fmt: skip
    assert column_of("ad2_bench", "cot", "yield_rule") == "cot"  # chains have the four columns of their scores
    assert mean_columns("ad2_bench", "reasoning") == ("reasoning", "traffic_rule")
    assert mean_columns("ad2_bench", "relation") == ("spatial", "occlusion", "social", "causal", "intent")
    assert mean_columns("world", "relation") == ("relation",)


@pytest.mark.usefixtures("table")
def test_a_column_with_mean_true_is_part_of_the_score() -> None:
    """reasoning 1 of 2, traffic_rule 1 of 1, dark 0 of 1: the mean is over the first two columns."""
    variant = TaskVariant("ad2_bench", "reasoning", form="mc")
    asked = [("weather", "A"), ("weather", "B"), ("yield_rule", "A"), ("night", "B")]
    samples = [
        score_sample(record(f"r{i}", task="reasoning", subtask=name, answer=BilingualText("A")), reply, variant, "t")
        for i, (name, reply) in enumerate(asked)
    ]
    found = summarise([SampleSummary.of(sample, variant) for sample in samples], variant, None)
    assert {name: cell["official"] for name, cell in found["columns"].items()} == {
        "reasoning": 50, "traffic_rule": 100, "dark": 0,
    }  # fmt: skip
    assert (found["score"]["columns"], found["score"]["official"]) == (["reasoning", "traffic_rule"], 75)


@pytest.mark.parametrize(
    ("row", "field", "expected"),
    [
        ("{part: cot, column: x}", "part", "Chains have the columns sacs, slps, orcs, djss"),
        ("{part: reasonning, column: x}", "part", "one of perception_base, perception_advanced, relation, reasoning"),
        ("{part: relation, column: ocr_cer}", "column", "a name, none of"),
        ("{part: relation, column: [x]}", "column", "a name, none of"),
        ("{part: relation, column: x, mean: yes please}", "mean", "true or false"),
        ("{part: relation, column: x, id: one}", "id", "a whole number from 1"),
        ("{part: relation, column: x, form: count}", "form", "mc or vqa"),
        ("{part: relation, colum: x}", "row", "mean: true or false"),
    ],
)
def test_wrong_rows_of_a_users_table_are_refused(tmp_path: Path, row: str, field: str, expected: str) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(f"intent: {row}\n")
    with pytest.raises(DataError, match=f"t.yaml, row intent: field '{field}'") as caught:
        subtasks(str(file))
    assert expected in str(caught.value)
