"""Coverage by package: files are summed by the folders of the two packages."""

from __future__ import annotations

from typing import Any

from support.scripts import script


def summary(lines: int, of_lines: int, branches: int, of_branches: int) -> dict[str, Any]:
    counts = (lines, of_lines, branches, of_branches)
    names = ("covered_lines", "num_statements", "covered_branches", "num_branches")
    return {"summary": dict(zip(names, counts, strict=True))}


def test_files_of_a_folder_are_summed() -> None:
    files = {
        "lmms_eval_ad2/evaluation.py": summary(3, 4, 1, 2),
        "lmms_eval_ad2/mcq/a.py": summary(10, 20, 3, 6),
        "lmms_eval_ad2/mcq/rules/b.py": summary(5, 5, 0, 0),
    }
    assert script("coverage_by_package").by_package(files) == {
        "lmms_eval_ad2": {"lines": 3, "of lines": 4, "branches": 1, "of branches": 2},
        "lmms_eval_ad2/mcq": {"lines": 15, "of lines": 25, "branches": 3, "of branches": 6},
    }
