"""Folders of Scenic programs as suites: reading, refusals, and one invalid program among others."""

from __future__ import annotations

import json
import string
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.scenarios.suites.lookup import DEMO, route_of, suite
from closedloop_plugin.scenarios.suites.programs import route_named, sha_of
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error, DataError

CALM = """param route = "{route}"
param aside = Range(2.6, 3.0)
model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *
ego = new Car at place(0), facing stage.heading(0)
new Wheeled at place(30, -globalParameters.aside), facing stage.heading(30)
"""


def folder_of(folder: Path, **routes: str) -> Path:
    (folder / "scenarios").mkdir(parents=True)
    for name, route in routes.items():
        (folder / "scenarios" / f"{name}.scenic").write_text(CALM.format(route=route))
    return folder


def write_index(folder: Path, **facts: object) -> None:
    (folder / "suite.json").write_text(json.dumps(facts))


def named(file: Path, text: str | bytes) -> tuple[str, str] | None:
    file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
    return route_named(file)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs") / "any.scenic"


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_folder_is_a_suite_with_its_name_and_in_numeric_order(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "mine", **{"10": "demo:102", "9": "demo:101", "b": "demo:101"})
    (folder / "a.scenic").write_text(CALM.format(route="demo:103"))
    found = suite(str(folder))
    assert (found.name, found.ids) == ("mine", ["9", "10", "a", "b"])
    demo = {r.id: r for r in suite("demo").routes}
    assert [r.points for r in found.routes] == [demo[i].points for i in ("101", "102", "103", "101")]
    assert found.programs["9"] == folder.absolute() / "scenarios" / "9.scenic"
    assert not found.left_out


def test_suite_json_sets_the_name_and_leaves_out_programs(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "mine", one="demo:101", two="demo:102")
    (folder / "scenarios" / "three.scenic").write_text("nothing of a program")
    write_index(folder, name="threats of x", finished=True, left_out={"three": "does not compile", "four": "refused"})
    found = suite(str(folder))
    assert (found.name, found.ids) == ("threats of x", ["one", "two"])
    assert found.left_out == {"three": "does not compile", "four": "refused"}


def test_the_hash_covers_programs_names_and_routes(tmp_path: Path) -> None:
    def sha(**routes: str) -> str:
        folder = tmp_path / "-".join((*routes, *(r.replace(":", "") for r in routes.values())))
        return suite(str(folder_of(folder, **routes) if not folder.exists() else folder)).sha256

    first = sha(a="demo:101", b="demo:102")
    assert sha(a="demo:101", b="demo:102") == first
    assert len({first, sha(a="demo:101", c="demo:102"), sha(a="demo:101", b="demo:103"), sha(a="demo:101")}) == 4


def test_the_hash_covers_every_field_of_the_route(tmp_path: Path) -> None:
    program = tmp_path / "a.scenic"
    program.write_text("x")
    route = suite("demo").routes[0]
    more = [("town", "Other"), ("params", {"distance": 1.0}), ("scenario", "Accident"), ("weather", None)]
    changed = [replace(route, **{name: value}) for name, value in more]  # type: ignore[arg-type]
    assert len({sha_of(program, r) for r in (route, *changed)}) == 5
    assert sha_of(program, replace(route, suite="renamed")) == sha_of(program, route)


def test_a_route_file_may_be_next_to_the_program(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "mine", a="routes.xml:103")
    (folder / "scenarios" / "routes.xml").write_bytes(DEMO.read_bytes())
    assert suite(str(folder)).routes[0].scenario == "HardBreakRoute"
    write_index(folder, base_file="../elsewhere.xml")
    (tmp_path / "elsewhere.xml").write_bytes(DEMO.read_bytes())
    (folder / "scenarios" / "b.scenic").write_text(CALM.format(route="elsewhere:104"))
    assert suite(str(folder)).ids == ["a", "b"]


def test_the_route_of_a_single_program(tmp_path: Path) -> None:
    file = tmp_path / "my own.scenic"
    file.write_text(CALM.format(route="demo:101"))
    own, other = route_of(file), route_of(file, "demo:102")
    assert isinstance(own, Route) and isinstance(other, Route)
    assert (own.id, own.scenario, other.scenario) == ("my own", "ParkedObstacle", "DynamicObjectCrossing")
    file.write_text("model scenic.domains.driving.model\n")
    assert route_of(file) is None
    with pytest.raises(Ad2Error, match="--route 101: expected SUITE:ID"):
        route_of(file, "101")


# -- the line with the route -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('param route = "demo:101"', ("demo", "101")),
        ("param  route='demo:101'  # where it plays", ("demo", "101")),
        ('param route = "demo:101"\r', ("demo", "101")),
        ('param route = "demo:101"\nparam route = "demo:101"', ("demo", "101")),
        ('  param route = "demo:101"', None),
        ('# param route = "demo:101"', None),
        ("param route = \"demo:101'", None),
        ('param route = "demo:101" + x', None),
        ('param route = f"demo:{x}"', None),
        ('param routes = "demo:101"', None),
        ('param route = "demo"', None),
        ('param route = "de mo:101"', None),
        ('param route = "demo:../101"', None),
    ],
)
def test_the_route_line_is_parsed_as_text(scratch: Path, line: str, expected: tuple[str, str] | None) -> None:
    assert named(scratch, f'"""Text."""\n{line}\nego = new Car\n') == expected


def test_two_routes_in_one_program_are_refused(scratch: Path) -> None:
    with pytest.raises(Ad2Error, match="names two routes, demo:101 and demo:102"):
        named(scratch, 'param route = "demo:101"\nparam route = "demo:102"\n')


@example('__import__("os").system("touch {mark}")')
@example('"demo:101"; open("{mark}", "w").close()')
@example('(lambda: open("{mark}", "w"))()')
@given(st.text(max_size=60))
def test_nothing_of_a_program_is_executed(scratch: Path, value: str) -> None:
    mark = scratch.with_name("mark")
    found = named(scratch, f"param route = {value.replace('{mark}', str(mark))}\n".encode("utf-8", "replace"))
    assert not mark.exists()
    if found is not None:
        assert f"{found[0]}:{found[1]}" in value
        assert set(found[1]) <= set(string.ascii_letters + string.digits + "_.-")


@given(st.binary(max_size=200))
def test_any_bytes_are_read(scratch: Path, content: bytes) -> None:
    named(scratch, content)


# -- refusals ----------------------------------------------------------------------------------------------------------


def refused(folder: Path, message: str) -> None:
    with pytest.raises(Ad2Error, match=message) as caught:
        suite(str(folder))
    assert "\n" not in str(caught.value)


def test_a_folder_without_programs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine" / "a.scenic").mkdir(parents=True)  # a folder is no program
    refused(tmp_path / "mine", r"mine: no scenario programs there \(\*\.scenic")


@pytest.mark.parametrize(
    ("route", "message"),
    [
        ("demo:999", r"a\.scenic, line \d+: route demo:999: no such route: 999; known ids are like 101"),
        ("dmeo:101", r"a\.scenic, line \d+: route dmeo:101: .*no such suite.*demo, embedded220"),
        ("embedded220:2050", r"a\.scenic, line \d+: route embedded220:2050: .*ad2 drive routes"),
        ("nowhere.xml:1", r"a\.scenic, line \d+: route nowhere\.xml:1: "),
        ("{}", r"a\.scenic: names no route; it needs a line like: param route = \"demo:101\""),
    ],
)
def test_an_unknown_route_is_refused(tmp_path: Path, route: str, message: str) -> None:
    refused(folder_of(tmp_path / "mine", a=route, b="demo:101"), message)


def test_a_folder_cannot_be_the_route_suite_of_its_programs(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    refused(folder_of(folder, a=f"{folder}:a"), "is a folder; expected a suite of routes")


def test_two_programs_of_one_name_are_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "mine", a="demo:101")
    (folder / "a.scenic").write_text(CALM.format(route="demo:102"))
    refused(folder, r"another program of the folder has the same name")


def test_invalid_and_ambiguous_names_are_refused(tmp_path: Path) -> None:
    refused(folder_of(tmp_path / "mine", **{"a b": "demo:101"}), "its name becomes that of the episode")
    refused(folder_of(tmp_path / "demo", a="demo:101"), "would be confused with another suite; rename it")
    folder = folder_of(tmp_path / "other", a="demo:101")
    write_index(folder, name="embedded220")
    refused(folder, "would be confused with another suite")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "mine", a="demo:101")
    (folder / "b.scenic").write_bytes(b"\x00" * 200_001)
    refused(folder, "200001 bytes; a scenario program has 200000 at most")


def test_unfinished_and_completely_excluded_folders_are_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "mine", a="demo:101")
    write_index(folder, finished=False)
    refused(folder, "not finished; run the same `ad2 threats generate` again")
    write_index(folder, left_out={"a": "unfair"})
    refused(folder, "every scenario is excluded")


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("{", "file"),
        ("[]", "file"),
        ('{"left_out": ["a"]}', "left_out"),
        ('{"left_out": {"a": 1}}', "left_out"),
        ('{"name": 3}', "name"),
        ('{"name": "a\\nb"}', "name"),
    ],
)
def test_an_invalid_suite_json_is_reported_with_its_field(tmp_path: Path, content: str, field: str) -> None:
    folder = folder_of(tmp_path / "mine", a="demo:101")
    (folder / "suite.json").write_text(content)
    with pytest.raises(DataError, match=rf"suite\.json.*{field}"):
        suite(str(folder))


# -- driven ------------------------------------------------------------------------------------------------------------


@pytest.mark.integration
def test_one_invalid_program_does_not_end_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The invalid one of three programs is an invalid episode that names its line; the exit code is 1."""
    pytest.importorskip("scenic")
    folder = folder_of(tmp_path / "mine", a="demo:101", b="demo:101", c="demo:101")
    invalid = folder / "scenarios" / "b.scenic"
    invalid.write_text(invalid.read_text() + "new Wheeled at place(40), with kind oddly\n")
    write_index(folder, name="mine", left_out={"z": "unfair"})
    out = tmp_path / "out"
    assert main(["drive", "run", "--suite", str(folder), "--agent", "expert", "--out", str(out)]) == 1
    output = capsys.readouterr()
    assert "left out, 1 of 4 scenarios: z (unfair)" in output.out
    assert f"failed: route b repetition 0: fault of the program: {invalid}, line 7: NameError" in output.err
    records = {r["route_id"]: r for r in map(json.loads, (out / "episodes.jsonl").read_text().splitlines())}
    assert {name: r["end"] for name, r in records.items()} == {
        "a": EndReason.COMPLETED, "b": EndReason.INVALID, "c": EndReason.COMPLETED
    }  # fmt: skip
    assert (records["b"]["score_composed"], records["b"]["fault"]) == (0.0, "program")
    drawn = [records[name]["drawn"]["aside"] for name in "ac"]
    assert all(2.6 <= value <= 3.0 for value in drawn) and drawn[0] != drawn[1]
