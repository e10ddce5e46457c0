"""Threat suites as package data: packed, unpacked at the first use, and loaded by name."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from support.scripts import script

from closedloop_plugin.scenarios.suites import shipped_threats
from closedloop_plugin.scenarios.suites.lookup import data_home, suite
from closedloop_plugin.scenarios.suites.played_draws import played_draws
from closedloop_plugin.scenarios.suites.programs import index_of, named_programs, route_named
from closedloop_plugin.scenarios.suites.shipped_threats import shipped_folder, shipped_names
from closedloop_plugin.threats.task_suite import suite_of, threats_folder
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import file_sha256

pack_suite = script("pack_threats").pack_suite
PROGRAM = 'param route = "demo:{}"\n'


@pytest.fixture
def generated(tmp_path: Path) -> Path:
    """Two scenarios that passed the check, and one that is left out."""
    folder = tmp_path / "made"
    (folder / "scenarios").mkdir(parents=True)
    verdicts = {}
    for route in ("101", "102", "103"):
        text = PROGRAM.format(route)
        (folder / "scenarios" / f"{route}.scenic").write_text(text)
        digest = sha256(text.encode()).hexdigest()
        verdicts[route] = {"passed": route != "103", "draw_seed": int(route), "drawn": {}, "program_sha256": digest}
    index = {"name": "threat demo", "finished": True, "base_file": "/home/me/a.xml", "left_out": {"103": "too hard"}}
    (folder / "suite.json").write_text(json.dumps({**index, "base_file": None}))
    (folder / "check.json").write_text(json.dumps(verdicts))
    return folder


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shipped_threats, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setenv("AD2_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "shipped"


def test_a_packed_suite_is_loaded_by_its_name(generated: Path, shipped: Path) -> None:
    _, scenarios = pack_suite(generated, "threats_x", shipped / "threats_x.zip")
    assert scenarios == 2 and shipped_names() == ["threats_x"]
    found = suite("threats_x")
    assert (found.name, found.ids, dict(found.left_out)) == ("threats_x", ["101", "102"], {"103": "too hard"})
    assert {name: draw.seed for name, draw in found.draws.items()} == {"101": 101, "102": 102}
    assert all(file.read_text() == PROGRAM.format(name) for name, file in found.programs.items())
    assert all(data_home() in file.parents for file in found.programs.values())
    assert suite("threats_x") == found, "the second use does not unpack it again"


def test_the_task_takes_its_name_too(generated: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack_suite(generated, "threats_x", shipped / "threats_x.zip")
    monkeypatch.setenv("AD2_THREATS", "threats_x")
    assert suite_of("threat").name == "threats_x"
    monkeypatch.setenv("AD2_THREATS", str(generated))
    assert threats_folder() == generated


def test_another_version_of_a_suite_is_another_folder(generated: Path, shipped: Path) -> None:
    archive = shipped / "threats_x.zip"
    first, _ = pack_suite(generated, "threats_x", archive)
    before = suite("threats_x").programs["101"]
    assert pack_suite(generated, "threats_x", archive)[0] == first, "equal folders give equal files"
    index = json.loads((generated / "suite.json").read_text())
    (generated / "suite.json").write_text(json.dumps({**index, "left_out": {"103": "x", "102": "y"}}))
    pack_suite(generated, "threats_x", archive)
    assert suite("threats_x").ids == ["101"] and suite("threats_x").programs["101"] != before


def test_only_what_was_checked_is_packed(generated: Path, shipped: Path) -> None:
    (generated / "scenarios" / "102.scenic").write_text(PROGRAM.format("104"))
    with pytest.raises(Ad2Error, match=r"not checked, or edited since: 102; run ad2 threats check"):
        pack_suite(generated, "threats_x", shipped / "threats_x.zip")


def test_a_name_that_is_not_shipped_is_one_line_with_those_that_are(generated: Path, shipped: Path) -> None:
    pack_suite(generated, "threats_x", shipped / "threats_x.zip")
    with pytest.raises(Ad2Error, match=r"--suite threats_y: no such suite.* did you mean 'threats_x'\?"):
        suite("threats_y")


def test_the_suite_for_late_has_a_played_draw_or_a_reason_for_each_of_the_220_routes(tmp_path: Path) -> None:
    archive = shipped_threats.SHIPPED / "threats220_late.zip"
    assert archive.stat().st_size <= 3_000_000
    folder = shipped_folder("threats220_late", tmp_path)
    assert folder is not None
    index, programs = index_of(folder), named_programs(folder)
    without = {**index["left_out"], **index["failed"]}
    assert index["asked"]["agent"]["spec"] == "late" and len(index["asked"]["base_sha256"]) == 64
    assert len({*programs, *without}) == len(programs) + len(without) == 220 and all(without.values())
    draws = played_draws(folder, {name: file_sha256(file) for name, file in programs.items()})
    assert draws.keys() == programs.keys() and not any(draw.alone for draw in draws.values())
    assert {route_named(file) for file in programs.values()} == {("embedded220", name) for name in programs}
    assert index["causes"].keys() <= programs.keys() and index["failed_in_round"].keys() == index["causes"].keys()
