"""The sections of the report, in text, Markdown and on the page; texts of lists and files are escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.closedloop.audits import audited_result, entry

from closedloop_plugin.audit.audit_page import write_page
from closedloop_plugin.audit.audit_sections import as_markdown, as_text, sections
from closedloop_plugin.audit.audited_result import AuditedResult
from closedloop_plugin.audit.file_audit import FileAudit
from closedloop_plugin.audit.printed_figures import MEASURES, explain
from closedloop_plugin.audit.rankings import differences, ranking
from closedloop_plugin.audit.result_list import parse_list
from closedloop_plugin.audit.sample_size import plan

STRONG = np.array([60.0, 100.0, 100.0, 100.0] * 10)
WEAK = np.array([0.0, 0.0, 60.0, 100.0] * 10)


def audit_of(results: Sequence[AuditedResult]) -> FileAudit:
    routes = {k: v for k, v in entry("x").items() if k not in ("id", "name")}
    raw = {"routes": routes, "results": [r.listed.model_dump() for r in results],
           "not_available": [{"name": "Absent", "reason": "no file"}]}  # fmt: skip
    pairs = {measure: differences(results, measure) for measure in MEASURES}
    others = [{o.name: o.bases for o in results if o is not r} for r in results]
    return FileAudit(
        listed=parse_list(raw, "list.yaml"),
        routes=tuple(map(str, range(len(results[0].values["driving_score"])))),
        results=tuple(results),
        explained=tuple(tuple(explain(r.printed, r.bases, o)) for r, o in zip(results, others, strict=True)),
        pairs=pairs,
        rankings={measure: ranking(results, measure, pairs[measure]) for measure in MEASURES},
        plans={measure: plan(results, measure, draws=50) for measure in MEASURES},
    )


@pytest.fixture
def found() -> FileAudit:
    weak = audited_result("weak", WEAK, 44.44, note="driven on one computer")
    weak = replace(weak, summary={**weak.summary, "missing": [["7", 0]], "n_missing": 1})
    return audit_of([audited_result("strong", STRONG, 90.0), weak])


def test_text_has_every_section(found: FileAudit) -> None:
    text = as_text(sections(found))
    for title in (
        "Figures over all 40 routes", "Printed and recomputed", "Missing routes", "Published ranking by Driving Score",
        "Published ranking by Success Rate", "Paired differences: Driving Score", "Files", "Not available",
        "How many routes and seeds to see two points",
    ):  # fmt: skip
        assert f"\n{title}\n===" in f"\n{text}", title
    for part in ("Of 4 printed figures 2 are the mean over all 40 routes", "Weak: driven on one computer", "Absent"):
        assert part in text
    assert max(map(len, text.split("Files\n===")[0].splitlines())) <= 160


def test_the_matrix_marks_intervals_that_exclude_0(found: FileAudit) -> None:
    matrix = next(part for part in sections(found) if part.title == "Paired differences: Driving Score")
    assert matrix.table is not None
    ((name, cell),) = matrix.table.rows
    assert name == "2 Weak" and str(cell).startswith("+50.0 ±") and str(cell).endswith(" *")


def test_inconsistent_records_are_listed_if_the_summary_checked_them(found: FileAudit) -> None:
    assert "Inconsistent records" not in [part.title for part in sections(found)]
    summary = {**found.results[0].summary, "n_inconsistent": 1, "inconsistent": [{"text": "route 5: score_composed"}]}
    checked = replace(found, results=(replace(found.results[0], summary=summary), *found.results[1:]))
    text = as_text(sections(checked))
    assert "1 records of 1 results" in text and "route 5: score_composed" in text


def test_a_complete_single_result_has_a_report() -> None:
    titles = [part.title for part in sections(audit_of([audited_result("strong", STRONG)]))]
    assert "How many routes and seeds to see two points" not in titles
    assert "Every file has a record" in as_text(sections(audit_of([audited_result("strong", STRONG)])))


def test_texts_are_escaped_on_the_page_and_in_markdown(tmp_path: Path) -> None:
    name = "<script>alert(1)</script> | [x](http://y) \x1b[31m"
    parts = sections(audit_of([audited_result("strong", STRONG, name=name), audited_result("weak", WEAK)]))
    write_page(tmp_path / "page.html", "Audit", parts)
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page and "\x1b" not in page
    assert "script-src 'none'" in page and 'class="num marked"' in page
    text = as_markdown("Audit", ["    command"], parts)
    assert "<script>" not in text and "](http" not in text and "\x1b" not in text
