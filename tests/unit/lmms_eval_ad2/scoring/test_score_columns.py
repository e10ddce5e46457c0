"""The packaged table of AD2-Bench's sub-tasks."""

from __future__ import annotations

from lmms_eval_ad2.scoring.score_columns import column_of, subtasks

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
