"""Untrusted text on a terminal: no control character, no forged line, whatever prints it."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.printed import one_line, printable, shortened
from lmms_eval_ad2.report.table import Table

ESC = "\x1b]0;owned\x07\x1b[2J"


def test_control_characters_are_shown_as_escapes() -> None:
    assert printable("a\x1b[31mb\x07\n\u202ec\x9b\ud800d\te\u3000f") == (
        "a\\x1b[31mb\\x07\n\\u202ec\\x9b\\ud800d\te\u3000f"
    )
    assert one_line("a\r\nerror: fine\tb") == "a\\r\\nerror: fine\\tb"


@given(st.text())
def test_any_text_is_without_effect(text: str) -> None:
    shown = printable(text)
    assert {unicodedata.category(c) for c in shown if c not in "\n\t"}.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})
    assert one_line(text).splitlines() in ([one_line(text)], [])


def test_a_data_error_is_one_line_whatever_it_quotes() -> None:
    error = DataError(f"dir{ESC}\n/x.json", "1\nerror: fine", "field\nerror: fine", "a\u2028text", ESC, "hint\n")
    assert str(error).splitlines() == [str(error)] and str(error).isprintable()


def test_a_table_has_no_control_characters() -> None:
    assert "\x1b" not in Table(("a", ESC), [(ESC, "b")]).plain()


def test_a_field_name_of_a_release_cannot_forge_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"a{ESC}.jsonl"
    path.write_text(json.dumps({"id": "1", f"x\nerror: fine{ESC}": 2}) + "\n", "utf-8")
    assert main(["data", "import", "ad2_bench", str(path)]) == 2
    output = capsys.readouterr()
    assert "\x1b" not in output.out + output.err
    assert [line for line in output.err.splitlines() if line.startswith("error")] == output.err.splitlines()[:1]


def test_names_in_a_manifest_are_printed_without_effect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "images"
    root.mkdir()
    (root / "a.jpg").write_bytes(b"")  # an import without any of its images is refused
    row = {"id": ESC, "benchmark": "b", "task": f"t{ESC}", "images": ["a.jpg"], "question": "q", "answer": "a"}
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(row) + "\n", "utf-8")
    assert main(["data", "import", "records", str(path), "--images", str(root)]) == 0
    assert main(["data", "list"]) == 0
    assert main(["data", "verify", "records", "--decode"]) == 1  # there is no a.jpg
    output = capsys.readouterr()
    assert "\x1b" not in output.out + output.err and "\\x1b" in output.out


def test_the_middle_of_a_long_text_is_left_out() -> None:
    assert shortened("abc", 10) == "abc"
    text = shortened("start" + "x" * 100 + "end", 20)
    assert text.startswith("start") and text.endswith("end") and len(text) == 20
