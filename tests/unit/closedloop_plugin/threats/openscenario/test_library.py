"""Schema files and reading back: each error is one line with the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmms_eval_ad2.errors import Ad2Error

pytest.importorskip("scenariogeneration")
from closedloop_plugin.threats.openscenario import library


def test_a_file_that_is_no_schema_is_named(tmp_path: Path) -> None:
    for text in ("<a/>", "no xml"):
        (tmp_path / "x.xsd").write_text(text)
        with pytest.raises(Ad2Error, match=r"x\.xsd: not an XML schema"):
            library.XsdSchema(tmp_path / "x.xsd")


def test_violations_have_lines(tmp_path: Path) -> None:
    schema, file = tmp_path / "x.xsd", tmp_path / "a.xosc"
    schema.write_text(
        '<xsd:schema xmlns:xsd="http://www.w3.org/2001/XMLSchema"><xsd:element name="a" type="xsd:int"/></xsd:schema>'
    )
    file.write_text("\n<a>text</a>")
    (problem,) = library.XsdSchema(schema).problems(file)
    assert problem.startswith("line 2: ")
    file.write_text("<a>3</a>")
    assert library.XsdSchema(schema).problems(file) == []


@pytest.mark.parametrize("text", ["", "<OpenSCENARIO/>", "<OpenSCENARIO><Storyboard/></OpenSCENARIO>"])
def test_a_file_that_cannot_be_read_back_is_an_error(text: str, tmp_path: Path) -> None:
    file = tmp_path / "a.xosc"
    file.write_text(text)
    with pytest.raises(Ad2Error, match=r"a\.xosc: cannot be read back: \w+"):
        library.read_back(file)
