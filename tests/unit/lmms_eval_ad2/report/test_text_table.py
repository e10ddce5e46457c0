"""TextTable: alignment, indent, tables without headers, escaping."""

from __future__ import annotations

from lmms_eval_ad2.report.text_table import TextTable, columns_of, few, wrapped

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


def test_a_wide_table_is_wrapped_then_split_into_blocks() -> None:
    name = "organisation/model-with-a-long-name"
    table = TextTable(["model", "a long heading", "score", "x"], [[name, "1.0", "2.0", "3.0"]], "lrrr")
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
