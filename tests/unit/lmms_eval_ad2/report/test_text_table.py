"""TextTable: alignment, indent, tables without headers, escaping."""

from __future__ import annotations

from lmms_eval_ad2.report.text_table import TextTable, few

ROWS = [("one", 1), ("a | b", "12")]


def test_plain_is_aligned_and_indented() -> None:
    lines = TextTable(("name", "n"), ROWS, "lr").plain(indent=2).splitlines()
    assert lines == ["  name      n", "  ------  ---", "  one       1", "  a | b    12"]


def test_few_names_some_and_counts_the_others() -> None:
    assert few(["a", "b"], 2) == "a, b"
    assert few(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_without_headers_there_is_no_heading() -> None:
    assert TextTable(("", ""), ROWS).plain().splitlines() == ["one    1", "a | b  12"]


def test_cells_of_several_lines() -> None:
    assert TextTable(("name",), [("one\ntwo",)]).plain().splitlines()[-2:] == ["one", "two"]


def test_markdown_escapes_headers_and_cells() -> None:
    lines = TextTable(("a|b", "n"), ROWS, "lr").markdown().splitlines()
    assert lines[1].startswith("|:--") and lines[1].endswith("-:|")
    assert "a\\|b" in lines[0] and "a \\| b" in lines[3]
    assert TextTable(("a",), [("x",)]).markdown(str.upper).splitlines()[2] == "| X   |"


def test_control_characters_are_removed() -> None:
    table = TextTable(("a",), [("x\x1b[2J",)])
    assert "\x1b" not in table.plain() + table.markdown()


def test_a_table_without_rows_has_its_headers() -> None:
    assert TextTable(("a", "b"), [], "lr").plain().split() == ["a", "b", "---", "---"]
