"""A user's program and a folder of programs under `ad2 drive run`: routes, fixed parameters, one-line errors. In the
fake world, which does not compile programs; one test in the embedded world."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from closedloop_plugin.runner.routes import values_of
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.identity import read_run

FAKE = ("--world", "closedloop_plugin.worlds.testing.fake_world:FakeWorld")
EXAMPLES = Path(__file__).parents[2] / "configs" / "scenarios"


def run(out: Path, *words: object, agent: str = "expert", world: tuple[str, ...] = FAKE) -> int:
    return main(["drive", "run", "--agent", agent, "--out", str(out), *world, *map(str, words)])


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error.strip().splitlines()[-1]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "my own.scenic"
    file.write_text('param route = "demo:101"\n')
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    programs = tmp_path / "five"
    programs.mkdir()
    for k in range(5):
        (programs / f"s{k}.scenic").write_text(f'param route = "demo:10{1 + k}"\n')
    return programs


# -- one program -------------------------------------------------------------------------------------------------------


def test_a_program_with_a_route_is_scored_but_is_not_a_benchmark(
    tmp_path: Path, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o"
    assert run(out, "--scenario", program) == 0
    output = capsys.readouterr().out
    assert "Suite program my_own in the fake world" in output and "Driving Score" in output
    assert "a custom program on route demo:101: not a benchmark" in output
    (record,) = records(out)
    assert (record["suite"], record["route_id"]) == ("program my_own", "my_own")
    assert record["town"] == "Demo101" and record["route_length_m"] == pytest.approx(84.0)
    assert (out / "tracks" / "my_own_rep0.json").is_file()


def test_the_route_option_replaces_the_route_and_belongs_to_the_run(
    tmp_path: Path, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o"
    assert run(out, "--scenario", program, "--route", "demo:104") == 0
    assert records(out)[0]["town"] == "Demo104"
    assert "on route demo:104: not a benchmark" in capsys.readouterr().out
    assert run(out, "--scenario", program) == 2
    assert "suite_sha256 is" in last_line(capsys)


def test_a_program_without_a_route_is_listed_but_not_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, map_file = tmp_path / "free.scenic", tmp_path / "street.xodr"
    file.write_text("ego = new Car\n")
    map_file.write_text("<OpenDRIVE/>")
    assert run(tmp_path / "o", "--scenario", file, "--map", map_file, "--repetitions", 2) == 0
    output = capsys.readouterr().out
    assert "A custom program: not a benchmark" in output and "Driving Score" not in output
    assert "free repetition 1: completed" in output
    assert read_run(tmp_path / "o")["identity"]["map_sha256"]
    assert records(tmp_path / "o")[0]["town"] == "street"
    assert run(tmp_path / "p", "--scenario", file) == 0
    assert records(tmp_path / "p")[0]["town"] == "none", "the world's map: the program may name it itself"


def test_set_fixes_a_parameter_and_belongs_to_the_run(
    tmp_path: Path, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o"
    words = ("--scenario", program, "--set", "beside=3.75")
    assert run(out, *words) == 0
    assert records(out)[0]["drawn"] == {"beside": 3.75}
    assert read_run(out)["identity"]["values"] == {"beside": 3.75}
    assert run(out, *words) == 0
    assert "1 of 1 episodes are there already" in capsys.readouterr().out
    for other in (("--set", "beside=4"), ()):
        assert run(out, "--scenario", program, *other) == 2
        assert "values" in last_line(capsys)


def test_set_values_are_numbers_or_text() -> None:
    given = ["a=3", " b = -2.5e1", "c=true", "d=parked cars", "e=x=y", "f=1_000"]
    assert values_of(given) == {"a": 3, "b": -25.0, "c": True, "d": "parked cars", "e": "x=y", "f": 1000}
    assert type(values_of(["a=3"])["a"]) is int
    code = "__import__('os').abort()"
    assert values_of([f"a={code}"]) == {"a": code}  # text: nothing is evaluated


@pytest.mark.parametrize("text", ["a", "=3", "a=", "a b=3", "1a=3", "a.b=3", "a=nan", "a=-inf", "a=1e999"])
def test_an_invalid_set_value_is_rejected(text: str) -> None:
    with pytest.raises(Ad2Error, match="--set"):
        values_of([text])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--route", "101"), "--route 101: expected SUITE:ID, as in demo:101"),
        (("--route", "demo:999"), "my own.scenic: route demo:999: no such route: 999"),
        (("--route", "nope:1"), "no such suite"),
        (("--limit", "1"), "--limit: only for --suite; a program is one episode"),
        (("--routes-ids", "101"), "--routes-ids: only for --suite"),
        (("--towns", "nowhere"), "--towns nowhere: no such folder"),
        (("--set", "x"), "--set x: expected NAME=VALUE"),
        (("--set", "a=1", "--set", "a=2"), "--set a: given twice"),
    ],
)
def test_a_mistake_is_reported_in_one_line_and_leaves_no_folder(
    tmp_path: Path, program: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert run(tmp_path / "o", "--scenario", program, *words) == 2
    assert message in last_line(capsys)
    assert not (tmp_path / "o").exists()


def test_a_map_for_a_program_with_a_route_is_refused(
    tmp_path: Path, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "o", "--scenario", program, "--map", program) == 2
    assert "is played on route demo:101, which has its own map" in last_line(capsys)


@pytest.mark.parametrize("words", [("--set", "a=1"), ("--route", "demo:101")])
def test_options_of_a_program_are_refused_for_a_suite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert run(tmp_path / "o", "--suite", "demo", *words) == 2
    assert f"{words[0]} is an option of --scenario" in last_line(capsys)


# -- a folder ----------------------------------------------------------------------------------------------------------


def test_routes_ids_limit_and_repetitions_select_programs(tmp_path: Path, folder: Path) -> None:
    out = tmp_path / "o"
    assert run(out, "--suite", folder, "--routes-ids", "s3,s1", "--limit", 1, "--repetitions", 2) == 0
    assert [(r["suite"], r["route_id"], r["repetition"]) for r in records(out)] == [
        ("five", "s3", 0),
        ("five", "s3", 1),
    ]
    assert run(out, "--suite", folder, "--routes-ids", "s1") == 0  # extends the same run
    assert {r["route_id"] for r in records(out)} == {"s1", "s3"}


def test_shards_of_a_folder_merge(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in (1, 2):
        assert run(tmp_path / f"s{i}", "--suite", folder, "--shard", f"{i}/2") == 0
    assert main(["merge", *(str(tmp_path / name) for name in ("all", "s1", "s2"))]) == 0
    assert {r["route_id"] for r in records(tmp_path / "all")} == {f"s{k}" for k in range(5)}
    assert f"ad2 drive score {tmp_path / 'all'} --routes FILE|DIR" in capsys.readouterr().out


def test_towns_must_cover_the_routes_of_the_programs(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    towns = tmp_path / "towns"
    towns.mkdir()
    (towns / "Demo102.xodr").write_text("<OpenDRIVE/>")
    out = tmp_path / "o"
    assert run(out, "--suite", folder, "--towns", towns, "--routes-ids", "s1") == 0
    assert list(read_run(out)["identity"]["towns_sha256"]) == ["Demo102"]
    assert run(tmp_path / "p", "--suite", folder, "--towns", towns, "--routes-ids", "s2") == 2
    assert "expected Demo103.xodr" in last_line(capsys)


def test_omitted_scenarios_are_reported_and_cannot_be_selected(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reasons = {"s0": "unfair: the expert hit it", **{f"gone{k}": "refused" for k in range(5)}}
    (folder / "suite.json").write_text(json.dumps({"name": "threats", "left_out": reasons}))
    assert run(tmp_path / "o", "--suite", folder) == 0
    output = capsys.readouterr().out
    assert "left out, 6 of 10 scenarios: s0 (unfair: the expert hit it), gone0 (refused)," in output
    assert "and 1 more, see suite.json" in output
    assert run(tmp_path / "p", "--suite", folder, "--routes-ids", "s1,s0") == 2
    assert "--routes-ids s0: left out of" in last_line(capsys)


def test_a_changed_program_is_refused_as_another_suite(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "o", "--suite", folder, "--limit", 1) == 0
    (folder / "s4.scenic").write_text('param route = "demo:101"\n# changed\n')
    assert run(tmp_path / "o", "--suite", folder, "--limit", 1) == 2
    assert "suite_sha256" in last_line(capsys)


# -- in the embedded world ---------------------------------------------------------------------------------------------


def test_an_example_program_is_driven_with_fixed_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("scenic")
    file = EXAMPLES / "child_behind_van.scenic"
    assert "--scenario configs/scenarios/child_behind_van.scenic" in file.read_text("utf-8")
    out = tmp_path / "o"
    fixed = ("--set", "pace=2", "--set", "due=1.8")
    assert run(out, "--scenario", file, *fixed, agent="steer-only", world=()) == 0
    (record,) = records(out)
    assert {"pace": 2, "due": 1.8}.items() <= record["drawn"].items()
    assert record["infractions"]["collisions_pedestrian"]
    assert run(tmp_path / "p", "--scenario", file, "--set", "paec=2", world=()) == 2
    assert "has no param 'paec' to be set; its free parameters: ahead, due, pace, behind" in last_line(capsys)
