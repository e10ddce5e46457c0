"""`ad2 threats export` on the command line: files, the list of what they do not express, mistakes, exit codes."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.threats.every_behaviour import one_of_each
from support.threats.suite_folder import write_suite

from closedloop_plugin.suites.programs import index_of
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.storage.files import file_sha256

pytest.importorskip("scenic")
pytest.importorskip("scenariogeneration")
pytestmark = pytest.mark.integration
CHOSEN = ("cross", "emergency_pass", "turn_across")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TQDM_DISABLE", "1")
    monkeypatch.setenv("AD2_HOME", str(tmp_path / "home"))


def suite(folder: Path, names: Sequence[str] = CHOSEN, **index: object) -> Path:
    every = one_of_each(folder.parent / "maps")
    return write_suite(folder, {name: every[name] for name in names}, **index)


def export(*words: object) -> int:
    return main(["threats", "export", *map(str, words)])


def test_a_suite_is_exported_with_roads_ranges_and_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = suite(tmp_path / "threats"), tmp_path / "osc"
    program = folder / "scenarios" / "cross.scenic"
    played = {"ahead": 36.5, "due": 2.25, "pace": 2.0}
    checked = {"cross": {"passed": True, "drawn": played, "program_sha256": file_sha256(program)}}
    (folder / "check.json").write_text(json.dumps(checked))
    (folder / "scenarios" / "turn_across.scenic").write_text("# edited\n" + program.read_text())
    assert export(folder, "--openscenario", "--out", out) == 1  # one was edited
    printed = capsys.readouterr()
    assert f"2 of 3 scenarios written to {out}: read back, valid by OpenSCENARIO_1_3_1.xsd" in printed.out
    assert "ranges that are parameters of the files: 8 of 8" in printed.out
    assert "the standard scenario's actors" in printed.out
    assert "not written: turn_across: " in printed.err and "it was edited" in printed.err
    listed = json.loads((out / "export.json").read_text())
    assert listed["cross"]["values"] == played
    assert set(listed["turn_across"]) == {"problem"}
    root = ET.parse(out / "cross.xosc").getroot()
    road = root.find("RoadNetwork/LogicFile")
    assert road is not None and (out / road.get("filepath", "")).is_file()
    assert {p.get("name"): float(p.get("value", "")) for p in root.iter("ParameterDeclaration")} == played
    ranges = {
        d.get("parameterName"): d.find(".//Range")
        for d in ET.parse(out / "emergency_pass.distribution.xosc").iter("StochasticDistribution")
    }
    assert set(ranges) == {"ahead", "due", "pace", "back", "fog_density"}
    limits = ranges["fog_density"]
    assert limits is not None and limits.attrib == {"lowerLimit": "20.0", "upperLimit": "60.0"}


def test_mistakes_end_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = suite(tmp_path / "threats", ("cross",), finished=False)
    (tmp_path / "x.xsd").write_text("<a/>")
    cases = [
        ((tmp_path / "no", "--openscenario"), "no such folder"),
        ((folder,), "name a format: --openscenario"),
        ((folder, "--openscenario"), "not finished"),
    ]
    for words, expected in cases:
        assert export(*words) == 2
        assert expected in capsys.readouterr().err
    (folder / "suite.json").write_text(json.dumps({**index_of(folder), "finished": True, "left_out": {"cross": "x"}}))
    assert export(folder, "--openscenario") == 2
    assert "every scenario is excluded" in capsys.readouterr().err
    (folder / "suite.json").write_text(json.dumps({**index_of(folder), "left_out": {}}))
    for name, expected in [("n.xsd", "no such file"), ("x.xsd", "not an XML schema")]:
        assert export(folder, "--openscenario", "--schema", tmp_path / name) == 2
        assert expected in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert export(folder, "--openscenario", "--out", tmp_path / "file" / "osc") == 2
    assert "cannot be written to" in capsys.readouterr().err
    (folder / "suite.json").unlink()
    assert export(folder, "--openscenario") == 2
    assert "no suite.json" in capsys.readouterr().err


def test_a_violated_schema_and_a_missing_town_are_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = suite(tmp_path / "threats", ("cross", "emergency_pass"))
    file = folder / "transcripts" / "emergency_pass.json"
    file.write_text(re.sub(r'"map": ?"corridor"', '"map":"town"', file.read_text()))
    (tmp_path / "x.xsd").write_text(
        '<xsd:schema xmlns:xsd="http://www.w3.org/2001/XMLSchema"><xsd:element name="a" type="xsd:int"/></xsd:schema>'
    )
    assert export(folder, "--openscenario", "--schema", tmp_path / "x.xsd") == 1
    err = capsys.readouterr().err
    assert "not valid by x.xsd: line 2: " in err and "give its folder with --towns DIR" in err
    assert list((folder / "openscenario").glob("*.xosc")) == []
