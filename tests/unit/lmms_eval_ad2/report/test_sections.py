"""Sections of run kinds as text, Markdown and on the page."""

from __future__ import annotations

from lmms_eval_ad2.report.page import report_page, section_plots
from lmms_eval_ad2.report.sections import (
    CategoryPlot,
    DifferencePlot,
    PlotSeries,
    ReportSection,
    SectionCell,
    SectionRun,
    SectionTable,
    render,
)
from lmms_eval_ad2.report.text_table import columns_of

BAD = "<b>|x\x1b[2J"
PLOT = CategoryPlot(["x", "y"], [PlotSeries("one", [50.0, None], [(40.0, 60.0), None])], "percent", 100.0)
TABLE = SectionTable(
    "Scores", ["run", "score"], [[BAD, SectionCell("50.0", "[40.0, 60.0]")]], "lr", caption=["of a suite"],
    notes=["a note"], plot=PLOT,
)  # fmt: skip
DETAIL = SectionTable("Routes", ["route"], [["7"]], detail=True)
SECTION = ReportSection(
    name="kind", title="A kind", runs=[SectionRun("one", {"world": BAD})], tables=[TABLE, DETAIL], head=["A: one"],
    warnings=["careful"], notes=["last"], footer=[SectionTable("Paper", ["f"], [["1"]])],
)  # fmt: skip


def test_text_has_every_table_but_details() -> None:
    blocks = [[line.split() for line in block.splitlines()] for block in render(SECTION).split("\n\n")]
    head, table, notes, paper = blocks
    assert (head, notes) == ([["-", "A:", "one"], ["-", "careful"]], [["-", "last"]])
    assert table[:3] == [["Scores"], ["of", "a", "suite"], ["run", "score"]]
    assert table[4:] == [["<b>|x\\x1b[2J", "50.0"], ["[40.0,", "60.0]"], ["-", "a", "note"]]
    assert paper[0] == ["Paper"] and paper[-1] == ["1"]
    assert "Routes\nroute\n" in render(SECTION, details=True)


def test_text_has_100_columns_except_wide() -> None:
    name = "a-model-with-a-very-long-name-" * 4
    cells = [SectionCell("100.00", "[43.85, 100.00]")] * 8
    table = SectionTable(f"Title of {name}", ["run", *["a long heading"] * 8], [[name, *cells]], "l" + "r" * 8,
                         caption=[f"about {name}"], notes=["word " * 60])  # fmt: skip
    section = ReportSection("k", "K", [], [table], head=[name], warnings=["w " * 90], footer=[table])
    assert max(map(columns_of, render(section).splitlines())) <= 100
    assert max(map(columns_of, render(section, wide=True).splitlines())) > 200
    assert render(section).count("Title of") == 2 and render(section, published=False).count("Title of") == 1


def test_markdown_escapes_cells() -> None:
    out = render(SECTION, markdown=True)
    assert "### Scores\n\nof a suite\n\n| run" in out
    assert "| &lt;b&gt;\\|x\\x1b[2J | 50.0 [40.0, 60.0] |" in out


def test_the_page_shows_sections_without_runs() -> None:
    html = report_page.page([], sections=[SECTION])
    assert '<h2 id="kind">A kind</h2>' in html and '<h3 id="kind-1">Scores</h3>' in html and "careful" in html
    assert "&lt;b&gt;|x" in html and "<b>" not in html
    assert html.count("<svg") == 1 and "<summary>Table, 1 rows</summary>" in html
    assert "Answers that could not be read" not in html
    assert '<a href="#kind-1">Scores</a>' in html and '<a href="#kind-3">Paper</a>' in html


def test_the_page_shows_hidden_characters_and_marked_cells() -> None:
    html = report_page.page([], sections=[SECTION], title="A title\u202e")
    assert "<h1>A title[U+202E]</h1>" in html and "|x[U+001B][2J" in html and "\x1b" not in html
    assert '<td class="num marked">+5.0</td>' not in html
    marked = SectionTable("Marked", ["d"], [[SectionCell("+5.0", marked=True)]], "r")
    html = report_page.page([], sections=[ReportSection(name="m", title="M", runs=(), tables=[marked])])
    assert '<td class="num marked">+5.0</td>' in html


def test_plots_need_a_value() -> None:
    colours = section_plots.palette(SECTION)
    empty = CategoryPlot(["x"], [PlotSeries("one", [None], [None])], "percent")
    assert section_plots.draw(None, colours) is None
    assert section_plots.draw(empty, colours) is None
    assert section_plots.draw(DifferencePlot([0.0], "points", ("up", "down")), colours) is None


def test_plots_name_what_they_leave_out() -> None:
    many = CategoryPlot(["x"], [PlotSeries(f"r{i}", [1.0], [None]) for i in range(8)], "percent", 100.0, lines=True)
    drawn = section_plots.draw(many, {})
    assert drawn is not None and "first 6 of 8 runs" in drawn and "r5" in drawn and "r6" not in drawn
    drawn = section_plots.draw(DifferencePlot([2.0, 0.0, -1.0, 3.0], "points", ("A higher", "B higher")), {})
    assert drawn is not None and "A higher: 2" in drawn and "B higher: 1" in drawn
    assert "1 without a difference, not drawn" in drawn
