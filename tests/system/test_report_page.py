"""The report page in a real browser, in a narrow and a wide window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.annotate.browser import browser
from support.make_runs import ad2_tasks, cell, sample, summary, task, write_run

from lmms_eval_ad2 import report
from lmms_eval_ad2.report.page import report_page
from lmms_eval_ad2.report.table import ReportSection, SectionRun, Table

pytestmark = pytest.mark.system

LONG = "Qwen/Qwen2.5-VL-72B-Instruct-with-a-very-long-suffix-of-training-run-0001"
JUDGES = ("lexical", "openai:gpt-4o-2024-11-20", "embedding:all-MiniLM-L6-v2")
LARGEST_SHARE = 0.4  # of the window, for the first column, which stays in place when a table is scrolled
MEASURE = """() => ({
  page: document.documentElement.scrollWidth,
  first: Math.max(...[...document.querySelectorAll("tbody td:first-child")].map(c => c.getBoundingClientRect().width)),
  scrolled: [...document.querySelectorAll(".scroll")].filter(s => s.scrollWidth > s.clientWidth).length,
  names: [...document.querySelectorAll("tbody td:first-child")].map(c => c.innerText),
})"""


def write_page(folder: Path) -> Path:
    """Three judges, long names, published rows, breakdowns with plots, worst samples, and a section of drives."""
    for number, judge in enumerate(JUDGES):
        tasks = ad2_tasks(judge)
        weather = {f"weather {i}": cell(40.0 + i, n=20, ci=[30, 50], judge=judge) for i in range(9)}
        tasks["ad2_relation"]["breakdowns"] = {"weather": weather}
        tasks["mcq"] = task("autodrive_qa", "perception", cell(60.0), error_kinds={"logical_inconsistencies": 3})
        rows = [sample(f"{'id' * 40}{i}", 10.0 * i, raw="word" * 100) for i in range(5)]
        data = summary(tasks, label=f"{LONG}{number}", judge=judge)
        write_run(folder / f"run{number}", data, dict.fromkeys(tasks, rows))
    headers = ["run", *(f"a heading {i}" for i in range(12))]
    drives = Table(headers, [[LONG, *["100.00"] * 12]], "l" + "r" * 12, "Scores")
    section = ReportSection("drive", "Closed loop", [SectionRun(LONG, {"suite": "x" * 90})], [drives])
    report_page.write(report.load([folder]), folder / "page.html", sections=[section])
    return folder / "page.html"


def measured(chromium: Any, page: Path, width: int) -> dict[str, Any]:
    tab = chromium.new_page(viewport={"width": width, "height": 900})
    tab.goto(page.as_uri())
    found: dict[str, Any] = tab.evaluate(MEASURE)
    return found


def test_the_page_fits_narrow_and_wide_windows(tmp_path: Path) -> None:
    page = write_page(tmp_path)
    with browser() as chromium:
        for width in (480, 1280):
            found = measured(chromium, page, width)
            assert found["page"] <= width, "the page itself is scrolled sideways"
            assert found["first"] <= LARGEST_SHARE * width
            assert found["scrolled"] > 0  # wide tables scroll in their own container
            assert {f"{LONG}{number}" for number in range(len(JUDGES))} <= {*found["names"]}
