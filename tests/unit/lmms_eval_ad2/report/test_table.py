"""Table: alignment, indent, tables without headers, escaping."""

from __future__ import annotations

from lmms_eval_ad2.report.page import plots, report_page
from lmms_eval_ad2.report.table import (
    CategoryPlot,
    DifferencePlot,
    PlotSeries,
    ReportSection,
    SectionRun,
    Table,
    TableCell,
    columns_of,
    few,
    wrapped,
)

ROWS = [("one", 1), ("a | b", "12")]


def test_plain_is_aligned_and_indented() -> None:
    lines = Table(("name", "n"), ROWS, "lr").plain(indent=2).splitlines()
    assert lines == ["  name      n", "  ------  ---", "  one       1", "  a | b    12"]


def test_few_names_some_and_counts_the_others() -> None:
    assert few(["a", "b"], 2) == "a, b"
    assert few(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_without_headers_there_is_no_heading() -> None:
    assert Table(("", ""), ROWS).plain().splitlines() == ["one    1", "a | b  12"]


def test_cells_of_several_lines() -> None:
    assert Table(("name",), [("one\ntwo",)]).plain().splitlines()[-2:] == ["one", "two"]


def test_markdown_escapes_headers_and_cells() -> None:
    lines = Table(("a|b", "n"), ROWS, "lr").markdown().splitlines()
    assert lines[1].startswith("|:--") and lines[1].endswith("-:|")
    assert "a\\|b" in lines[0] and "a \\| b" in lines[3]
    assert Table(("a",), [("x",)]).markdown(str.upper).splitlines()[2] == "| X   |"


def test_control_characters_are_removed() -> None:
    table = Table(("a",), [("x\x1b[2J",)])
    assert "\x1b" not in table.plain() + table.markdown()


def test_a_table_without_rows_has_its_headers() -> None:
    assert Table(("a", "b"), [], "lr").plain().split() == ["a", "b", "---", "---"]


def test_a_wide_table_is_wrapped_then_split_into_blocks() -> None:
    name = "organisation/model-with-a-long-name"
    table = Table(["model", "a long heading", "score", "x"], [[name, "1.0", "2.0", "3.0"]], "lrrr")
    assert table.within(100).splitlines()[2].split() == [name, "1.0", "2.0", "3.0"]
    narrow = table.within(44)
    assert max(map(columns_of, narrow.splitlines())) <= 44 and "\n\n" not in narrow
    rows = [line.split() for line in narrow.splitlines()]
    assert rows[-2:] == [["organisation/model-", "1.0", "2.0", "3.0"], ["with-a-long-name"]]
    first, second = table.within(30).split("\n\n")
    assert max(map(columns_of, [*first.splitlines(), *second.splitlines()])) <= 30
    assert "score" in second and "score" not in first and first.split()[0] == second.split()[0] == "model"


def test_wrapped_text_keeps_every_character() -> None:
    for text in ("a" * 50, "Qwen/Qwen2.5-VL-72B-Instruct-run-0001", "视觉语言模型" * 5, "ab " * 20):
        lines = wrapped(text, 16, "  ").splitlines()
        assert max(map(columns_of, lines)) <= 16
        assert "".join("".join(lines).split()) == "".join(text.split())
    assert wrapped("one two", 16) == "one two"
    assert wrapped("a\nb", 1) == "a\nb"


def test_wide_characters_take_two_columns() -> None:
    assert (columns_of("视觉"), columns_of("ab\nabc"), columns_of("e\u0301"), columns_of("")) == (4, 3, 1, 0)


BAD = "<b>|x\x1b[2J"
PLOT = CategoryPlot(["x", "y"], [PlotSeries("one", [50.0, None], [(40.0, 60.0), None])], "percent", 100.0)
TABLE = Table(
    ["run", "score"], [[BAD, TableCell("50.0", "[40.0, 60.0]")]], "lr", "Scores", caption=["of a suite"],
    notes=["a note"], plot=PLOT,
)  # fmt: skip
DETAIL = Table(["route"], [["7"]], title="Routes", detail=True)
SECTION = ReportSection(
    name="kind", title="A kind", runs=[SectionRun("one", {"world": BAD})], tables=[TABLE, DETAIL], head=["A: one"],
    warnings=["careful"], notes=["last"], footer=[Table(["f"], [["1"]], title="Paper")],
)  # fmt: skip


def test_text_has_every_table_but_details() -> None:
    blocks = [[line.split() for line in block.splitlines()] for block in SECTION.render().split("\n\n")]
    head, table, notes, paper = blocks
    assert (head, notes) == ([["-", "A:", "one"], ["-", "careful"]], [["-", "last"]])
    assert table[:3] == [["Scores"], ["of", "a", "suite"], ["run", "score"]]
    assert table[4:] == [["<b>|x\\x1b[2J", "50.0"], ["[40.0,", "60.0]"], ["-", "a", "note"]]
    assert paper[0] == ["Paper"] and paper[-1] == ["1"]
    assert "Routes\nroute\n" in SECTION.render(details=True)


def test_text_has_100_columns_except_wide() -> None:
    name = "a-model-with-a-very-long-name-" * 4
    cells = [TableCell("100.00", "[43.85, 100.00]")] * 8
    table = Table(["run", *["a long heading"] * 8], [[name, *cells]], "l" + "r" * 8, f"Title of {name}",
                         caption=[f"about {name}"], notes=["word " * 60])  # fmt: skip
    section = ReportSection("k", "K", [], [table], head=[name], warnings=["w " * 90], footer=[table])
    assert max(map(columns_of, section.render().splitlines())) <= 100
    assert max(map(columns_of, section.render(wide=True).splitlines())) > 200
    assert section.render().count("Title of") == 2 and section.render(published=False).count("Title of") == 1


def test_markdown_escapes_cells() -> None:
    out = SECTION.render(markdown=True)
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
    marked = Table(["d"], [[TableCell("+5.0", marked=True)]], "r", "Marked")
    html = report_page.page([], sections=[ReportSection(name="m", title="M", runs=(), tables=[marked])])
    assert '<td class="num marked">+5.0</td>' in html


def test_plots_need_a_value() -> None:
    colours = plots.section_colours(SECTION)
    empty = CategoryPlot(["x"], [PlotSeries("one", [None], [None])], "percent")
    assert plots.draw(None, colours) is None
    assert plots.draw(empty, colours) is None
    assert plots.draw(DifferencePlot([0.0], "points", ("up", "down")), colours) is None


def test_plots_name_what_they_leave_out() -> None:
    many = CategoryPlot(["x"], [PlotSeries(f"r{i}", [1.0], [None]) for i in range(8)], "percent", 100.0, lines=True)
    drawn = plots.draw(many, {})
    assert drawn is not None and "first 6 of 8 runs" in drawn and "r5" in drawn and "r6" not in drawn
    drawn = plots.draw(DifferencePlot([2.0, 0.0, -1.0, 3.0], "points", ("A higher", "B higher")), {})
    assert drawn is not None and "A higher: 2" in drawn and "B higher: 1" in drawn
    assert "1 without a difference, not drawn" in drawn
