"""The report of an audit in text, Markdown, JSON and on the page; texts of lists and files are escaped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.closedloop.audits import audited_result, entry

from closedloop_plugin.scoring.audit.audit_section import audit_section
from closedloop_plugin.scoring.audit.recomputed import OWN_KEYS, AuditedResult, to_json
from closedloop_plugin.scoring.audit.result_list import PrintedFigures, ResultList
from lmms_eval_ad2.report.page import report_page
from lmms_eval_ad2.report.table import TableCell
from lmms_eval_ad2.storage.identity import code_label

STRONG = np.array([60.0, 100.0, 100.0, 100.0] * 10)
WEAK = np.array([0.0, 0.0, 60.0, 100.0] * 10)


def audit_of(results: Sequence[AuditedResult]) -> dict[str, Any]:
    routes = {k: v for k, v in entry("x").items() if k not in ("id", "name")}
    raw = {"routes": routes, "results": [r.listed.model_dump() for r in results],
           "not_available": [{"name": "Absent", "reason": "no file"}],
           "other_sets": [{"name": "Newer set", "source": "a page", "note": "its count differs",
                           "printed": [{"name": "Fast", "driving_score": 71.5, "success_rate": 40.0},
                                       {"name": "Slow", "driving_score": 20.0}]}]}  # fmt: skip
    data = to_json(ResultList.model_validate(raw), len(results[0].run.routes), results, draws=50)
    copied: dict[str, Any] = json.loads(json.dumps(data))
    return copied


@pytest.fixture
def found() -> dict[str, Any]:
    weak = audited_result("weak", WEAK, 44.44, missing=[7], note="driven on one computer")
    return audit_of([audited_result("strong", STRONG, 90.0), weak])


def test_text_has_every_table(found: dict[str, Any]) -> None:
    text = audit_section(found).render()
    for title in (
        "Figures over all 40 routes", "Published and recomputed", "Missing routes",
        "Published ranking by Driving Score", "Published ranking by Success Rate", "Paired differences: Driving Score",
        "Files", "Not available",
        "Routes and seeds needed to see a difference of 2 points", "Inconsistent records",
    ):  # fmt: skip
        assert f"\n{title}\n" in f"\n{text}", title
    for part in ("Published figures: 4, of which 4 are printed and 0 are keys of the file. Equal", "Unexplained: 4.",
                 "Absent", "Results with missing routes: 1 of 2", "- Weak: driven on one computer"):  # fmt: skip
        assert part in text
    assert max(map(len, text.split("\nFiles\n")[0].splitlines())) <= 160


def test_figures_of_other_sets_are_listed_as_printed(found: dict[str, Any]) -> None:
    text = " ".join(audit_section(found).render(wide=True).split())
    assert "Newer set: published, not recomputed" in text and "As printed in a page." in text
    assert "Fast 71.50 40.00" in text and "Slow 20.00 –" in text and "its count differs" in text
    assert audit_section(found).data["other_sets"][0]["printed"][1]["success_rate"] is None


def test_figures_that_are_cut_off_are_named() -> None:
    text = " ".join(audit_section(audit_of([audited_result("thirds", [100.0, 100.0, 0.0], 66.66)])).render().split())
    assert "counts (Thirds, Driving Score 66.66 for 66.667; Thirds, Success Rate 66.66 for 66.667)" in text
    text = " ".join(audit_section(audit_of([audited_result("thirds", [100.0, 100.0, 0.0], 66.67)])).render().split())
    assert "counts (none here)" in text


def test_the_data_of_the_report_is_the_whole_audit(found: dict[str, Any]) -> None:
    assert audit_section(found).data == found and found["version"] == code_label()
    assert [one["id"] for one in found["results"]] == ["strong", "weak"]
    (pair,) = found["pairs"]["driving_score"]
    assert pair["difference"] == pytest.approx(52.5) and pair["routes"] == 40 and pair["verdict"] == "holds"


def test_the_matrix_marks_intervals_that_exclude_0(found: dict[str, Any]) -> None:
    tables = audit_section(found).tables
    matrix = next(table for table in tables if table.title == "Paired differences: Driving Score")
    ((name, cell),) = matrix.rows
    assert isinstance(cell, TableCell) and cell.marked
    assert name == "2 Weak" and cell.figure == "+52.5 *" and cell.span.startswith("±")


def test_pairs_over_fewer_routes_are_named(found: dict[str, Any]) -> None:
    assert "over 39 routes" not in audit_section(found).render()
    found["pairs"]["driving_score"][0]["routes"] = 39
    assert "- Strong and Weak: over 39 routes" in audit_section(found).render()


def test_inconsistent_records_are_listed(found: dict[str, Any]) -> None:
    assert "Inconsistent: 0 of 79 records." in audit_section(found).render()
    found["results"][0] |= {
        "n_inconsistent": 1,
        "inconsistent": [{"text": "route 5: score_composed"}],
        "unchecked": {"odd": ["7"]},
    }
    text = audit_section(found).render()
    assert "Inconsistent: 1 of 79 records." in text and "route 5: score_composed" in text
    assert "- Strong: not checked, odd: 1 record(s)" in text


def test_a_complete_single_result_has_a_report() -> None:
    section = audit_section(audit_of([audited_result("strong", STRONG)]))
    assert not any(table.title.startswith("Routes and seeds") for table in section.tables)
    assert "Every file has a record" in section.render()


def test_the_ranking_names_sources_denominators_and_results_without_a_figure() -> None:
    weak = audited_result("weak", WEAK, missing=[7])
    (mean,) = weak.bases
    own = PrintedFigures(source=OWN_KEYS, driving_score=mean["driving_score"])
    weak = replace(weak, printed=(own,), bases=[{**mean, "what": "records", "n": 39, "whole": False}])
    tables = audit_section(audit_of([audited_result("strong", STRONG, 90.0), weak])).tables
    score, rate = (t for t in tables if t.title.startswith("Published ranking"))
    assert [(row[1], row[3], row[-1]) for row in score.rows] == [
        ("Strong", "unexplained", "page"),
        ("Weak", "39 records", OWN_KEYS),
    ]
    assert score.notes == [
        "published figures over unexplained: 1, 39 records: 1",
        "not printed, but stated by the file itself: Weak",
    ]
    assert [row[1] for row in rate.rows] == ["Strong"]
    assert rate.notes[-1] == "no Success Rate published, without a place and a verdict: Weak"
    assert "Of all 0 pairs" in rate.caption[0]


def test_texts_are_escaped_on_the_page_and_in_markdown() -> None:
    name = "<script>alert(1)</script> | [x](http://y) \x1b[31m"
    section = audit_section(audit_of([audited_result("strong", STRONG, name=name), audited_result("weak", WEAK)]))
    page = report_page.page((), sections=[section], title="Audit of a list")
    assert "<h1>Audit of a list</h1>" in page
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page and "\x1b" not in page
    assert "script-src 'none'" in page and 'class="num marked"' in page
    text = section.render(markdown=True)
    assert "<script>" not in text and "](http" not in text and "\x1b" not in text
