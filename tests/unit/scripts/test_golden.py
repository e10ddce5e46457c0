"""Goldens: the comparison, the table, and that a changed recording is noticed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.scripts import script

from lmms_eval_ad2.cli.main import parser


@pytest.fixture(scope="module")
def golden() -> ModuleType:
    return script("golden")


@pytest.mark.parametrize(
    ("kept", "new", "where"),
    [
        ({"a": 1}, {"a": 2}, "/a: 1 -> 2"),
        ({"a": 1}, {"a": 1.0}, "/a: 1 -> 1.0"),
        ({"a": 1}, {"a": True}, "/a: 1 -> true"),
        ({"a": 0.1}, {"a": 0.1 + 1e-18}, None),
        ({"a": 0.1}, {"a": 0.30000000000000004 - 0.2}, "/a: 0.1 -> 0.10000000000000003"),
        ({"a": 0.0}, {"a": -0.0}, "/a: 0.0 -> -0.0"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "/a[1]: 2 -> 3"),
        ({"a": [1]}, {"a": [1, 2]}, "/a: [1] -> [1, 2]"),
        ({"a": None}, {}, "/a: missing, was null"),
        ({}, {"a": {"b": 1}}, '/a: new: {"b": 1}'),
        ({"a": float("nan")}, {"a": float("nan")}, None),
    ],
)
def test_differences_are_reported_with_their_path(golden: ModuleType, kept: Any, new: Any, where: str | None) -> None:
    assert list(golden.differences(kept, new)) == ([where] if where else [])


def test_every_group_of_the_table_has_a_recording_of_each_row(golden: ModuleType) -> None:
    recorded = {path.stem: set(golden.read_recording(path)) for path in golden.RECORDINGS.glob("*.json")}
    assert recorded == {name: set(group.rows) for name, group in golden.groups().items()}


def test_every_command_line_of_the_table_can_be_parsed(golden: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    top, refused = parser(), []
    for group in golden.groups().values():
        for name, row in group.rows.items():
            words = shlex.split(row.get("run", ""))
            try:
                if words[:1] == ["ad2"]:
                    top.parse_args(words[1:])
            except SystemExit as exc:
                refused += [f"{group.name}:{name}: {capsys.readouterr().err}"] if exc.code else []
    assert refused == []


def test_recordings_are_small(golden: ModuleType) -> None:
    """Git keeps every version of them."""
    assert sum(path.stat().st_size for path in golden.RECORDINGS.glob("*.json")) < 3_000_000


# Comparing


@pytest.fixture
def recorded(golden: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Recordings of a group "printed" with the rows "one" and "two"."""
    monkeypatch.setattr(golden, "RECORDINGS", tmp_path)
    golden.write_recording(tmp_path / "printed.json", {"one": {"code": 0, "text": ["a", "b"]}, "two": 2.5})
    return tmp_path


def outcome(golden: ModuleType, **rows: Any) -> Any:
    return golden.Outcome("printed", 1.0, rows=rows)


def finished(golden: ModuleType, new: Any, *, record: bool = False) -> list[str]:
    names: list[str] = golden._finish(new, {"one", "two"}, record=record)
    return names


def test_equal_rows_are_well(golden: ModuleType, recorded: Path) -> None:
    assert finished(golden, outcome(golden, one={"code": 0, "text": ["a", "b"]}, two=2.5)) == []


def test_a_changed_row_is_named_with_its_difference(
    golden: ModuleType, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert finished(golden, outcome(golden, one={"code": 0, "text": ["a", "x"]}, two=2.5)) == ["printed:one"]
    assert '/text[1]: "b" -> "x"' in capsys.readouterr().out


def test_a_changed_recording_is_noticed(golden: ModuleType, recorded: Path) -> None:
    path = recorded / "printed.json"
    path.write_text(path.read_text("utf-8").replace("2.5", "2.25"), "utf-8")
    assert finished(golden, outcome(golden, one={"code": 0, "text": ["a", "b"]}, two=2.5)) == ["printed:two"]


def test_a_row_without_a_recording_is_noticed(golden: ModuleType, recorded: Path) -> None:
    golden.write_recording(recorded / "printed.json", {"one": 1})
    assert finished(golden, outcome(golden, one=1, two=2.5)) == ["printed:two"]


def test_a_failed_row_keeps_its_recording(golden: ModuleType, recorded: Path) -> None:
    failed = outcome(golden, one=1)
    failed.errors["two"] = "exit code 2, expected 0"
    assert finished(golden, failed, record=True) == ["printed:two"]
    assert golden.read_recording(recorded / "printed.json") == {"one": 1, "two": 2.5}


def test_rows_that_left_the_table_leave_the_recording(golden: ModuleType, recorded: Path) -> None:
    finished(golden, outcome(golden, one=1), record=True)
    assert set(golden.read_recording(recorded / "printed.json")) == {"one"}


def test_a_recording_has_a_line_for_each_row_and_its_version(golden: ModuleType, recorded: Path) -> None:
    from lmms_eval_ad2 import __version__

    lines = (recorded / "printed.json").read_text("utf-8").splitlines()
    assert len(lines) == 4
    assert json.loads("".join(lines))["recorded"] == __version__


@pytest.mark.parametrize(("ci", "code"), [("true", True), ("", False)])
def test_without_the_real_data_a_group_is_left_out_and_under_ci_fails(
    golden: ModuleType, monkeypatch: pytest.MonkeyPatch, ci: str, code: bool
) -> None:
    monkeypatch.setenv("AD2_TEST_DATA", "/no/such/folder")
    monkeypatch.setenv("CI", ci)
    new = golden._run(golden.groups()["maps"], None)
    assert "AD2_TEST_DATA" in new.skipped
    assert bool(finished(golden, new)) is code


def test_an_unknown_name_is_refused(golden: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        golden.main(["compare", "maps:nonsense"])
    assert "no such group or row: maps:nonsense" in capsys.readouterr().err
