"""The table at the end of `make soak`: repetitions are added up, failed seeds are listed."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from support.soak_table import PROPERTIES, SOAK, soak_table


def report(
    name: str, outcome: Literal["passed", "failed", "skipped"] = "passed", when: Any = "call", **figures: float
) -> pytest.TestReport:
    soak = "property" not in name
    properties: list[tuple[str, object]] = [(key.replace("_", " "), value) for key, value in figures.items()]
    keywords = {} if soak else {"hypothesis": 1}
    properties += [(SOAK, "")] * soak
    return pytest.TestReport(name, ("", 0, ""), keywords, outcome, None, when, user_properties=properties)


def test_repetitions_are_one_row() -> None:
    lines = soak_table(
        [
            report("tests/system/test_a.py::test_x[seed1]", when="setup"),
            report("tests/system/test_a.py::test_x[seed1]", kills=3, most_growth=1.5),
            report("tests/system/test_a.py::test_x[seed2]", kills=1200, most_growth=0.5),
            report("tests/system/test_a.py::test_x[seed17]", "failed"),
            report("tests/system/test_a.py::test_x[seed18]", "failed", when="setup"),
            report("tests/system/test_a.py::test_x[seed19]", "skipped", when="setup"),
            report("tests/unit/test_b.py::test_property[1]"),
            report("tests/unit/test_b.py::test_other_property"),
        ]
    )
    assert lines[2:] == [
        f"| {PROPERTIES} | 2 | all passed |  |",
        "| system/test_a.py::test_x | 4 | 2 failed: seed17, seed18 | kills 1,203, most growth 1.5 |",
    ]


def test_property_based_tests_alone_give_no_table() -> None:
    assert soak_table([report("tests/unit/test_b.py::test_property"), object()]) == []
