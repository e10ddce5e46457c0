"""`ad2 threats check` on the command line: folders, files, tables, JSON, exit codes, CARLA's model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from closedloop_plugin.scenarios.suites.programs import INDEX
from closedloop_plugin.threats.verdicts import read_verdicts
from lmms_eval_ad2.cli.main import main

ROUTE = 'param route = "demo:103"\n'
FINE, HIT, WRONG = ROUTE + "# acts 1.0\n", ROUTE + "# acts 1.0\n# hit 2.0\n", ROUTE + "# wrong\n"


@pytest.fixture(autouse=True)
def no_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TQDM_DISABLE", "1")


def write(folder: Path, **texts: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.scenic").write_text(text)
    return folder


def check(*words: object) -> int:
    return main(
        ["threats", "check", "--config", "others=0", *map(str, words), "--world", "support.threats.acting:ActingWorld"]
    )


def test_checking_a_folder_prints_a_table_with_reasons_and_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "mine", fine=FINE, hit=HIT, wrong=WRONG, lost="ego = new Car\n")
    assert check(folder, "--config", "tries=1") == 1
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if re.match(r"(fine|hit|wrong|lost) ", line)}
    assert rows["fine"] == ["fine", "-", "yes", "yes", "yes", "-", "1/1", "-", "passes"]
    assert rows["hit"] == ["hit", "-", "yes", "yes", "yes", "-", "0/1", "-", "FAILS"]
    assert rows["wrong"] == ["wrong", "-", "no", "no", "no", "-", "0/1", "-", "FAILS"]
    assert f"wrong: {folder}/wrong.scenic, line 2: NameError: no such thing" in out
    assert re.search(r"^lost: .*lost\.scenic: names no route", out, re.M)
    assert out.splitlines()[-1] == f"1 of 4 pass (25.0 %); drives: {folder}/check"
    assert set(read_verdicts(folder)) == {"fine", "hit", "wrong", "lost"}
    write(folder, hit=FINE)
    for name in ("wrong", "lost"):
        (folder / f"{name}.scenic").unlink()
    assert check(folder) == 0
    assert "2 of 2 pass (100.0 %)" in capsys.readouterr().out
    assert set(read_verdicts(folder)) == {"fine", "hit"}


def test_a_generated_folder_is_checked_with_its_own_seed_and_updated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "set", fine=FINE, hit=HIT)
    index = {"name": "t", "asked": {"seed": 7, "profile": "bench2drive"}, "left_out": {"fine": "once unfair"}}
    (folder / INDEX).write_text(json.dumps(index))
    assert check(folder, "--config", "tries=1", "--json") == 1
    printed = json.loads(capsys.readouterr().out)
    assert {n: v["passed"] for n, v in printed.items()} == {"fine": True, "hit": False}
    assert set(json.loads((folder / INDEX).read_text())["left_out"]) == {"hit"}
    assert {(v["seed"], v["profile"]) for v in read_verdicts(folder).values()} == {(7, "bench2drive")}


def test_checking_single_programs_writes_nothing_next_to_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "mine", fine=FINE, wrong=WRONG)
    assert check(folder / "fine.scenic", "--config", "tries=1") == 0
    assert check(folder / "wrong.scenic", folder / "fine.scenic", "--config", "tries=1") == 1
    out = capsys.readouterr().out
    assert "1 of 2 pass" in out
    assert sorted(f.name for f in folder.iterdir()) == ["fine.scenic", "wrong.scenic"]
    drives = Path(out.splitlines()[-1].rpartition("drives: ")[2])
    assert set(read_verdicts(drives)) == {"fine", "wrong"}
    assert (drives / "tracks" / "fine_rep0.json").is_file()


def test_route_and_map_options_apply_to_a_program_without_a_route(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "mine", fine=FINE, free="# acts 1.0\n")
    assert check(folder / "free.scenic", "--config", "tries=1", "--route", "demo:101", "--out", tmp_path / "a") == 0
    track = json.loads((tmp_path / "a/tracks/free_rep0.json").read_text())
    assert track["road"]["town"] == "Demo101"
    town = tmp_path / "Town.xodr"
    town.write_text("<OpenDRIVE/>")
    assert check(folder / "free.scenic", "--config", "tries=1", "--map", town, "--out", tmp_path / "b") == 0
    capsys.readouterr()
    assert check(folder / "fine.scenic", "--map", town) == 2
    assert "fine.scenic names its route, which has its own map" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.scenic"], r"none\.scenic: no such file"),
        (["mine", "mine/fine.scenic"], r"expected one folder, or several programs"),
        (["mine", "--route", "demo:101"], r"--route and --map are for single programs"),
        (["mine/fine.scenic", "--route", "demo:101", "--map", "mine/fine.scenic"], r"omit --map"),
        (["mine", "--config", "tries=0"], r"--config tries=0: 1 or more"),
        (["mine", "--config", "share=2"], r"--config share=2: expected a share from 0 to 1"),
        (["mine", "--agent", "endpoint:x@http://h/v1"], r"a judge drives by itself; known: expert"),
        (["empty"], r"empty: no scenario programs there"),
        (["mine/fine.scenic", "other/fine.scenic"], r"another program has the same name"),
        (["mine", "--profile", "nobody"], r"nobody"),
        (["mine/fine.scenic", "--route", "demo:9"], r"no such route: 9"),
        (["mine/fine.scenic", "--route", "demo"], r"--route demo: expected SUITE:ID"),
        (["mine/notes.txt"], r"notes\.txt: not a program; expected \*\.scenic"),
        (["odd"], r"odd/suite\.json: field 'asked\.seed': expected a whole number, found 'abc'"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("mine", "other"):
        write(tmp_path / name, fine=FINE)
    write(tmp_path / "empty")
    (tmp_path / "mine" / "notes.txt").write_text("a list")
    (write(tmp_path / "odd", fine=FINE) / "suite.json").write_text('{"asked": {"seed": "abc"}}')
    monkeypatch.chdir(tmp_path)
    assert check(*words) == 2
    error = capsys.readouterr().err.strip()
    assert re.search(message, error), error
    assert "\n" not in error
    assert not (tmp_path / "mine" / "check").exists()


def test_a_read_only_folder_is_reported_before_driving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "mine", fine=FINE)
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != folder)  # root ignores permissions
    assert check(folder, "--out", tmp_path / "drives") == 2
    assert "check.json cannot be written there" in capsys.readouterr().err
    assert not (tmp_path / "drives").exists()


def test_a_folder_that_is_being_generated_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lmms_eval_ad2.storage.lock import lock_folder

    folder = write(tmp_path / "set", fine=FINE)
    (folder / INDEX).write_text('{"name": "t", "finished": false}')
    with lock_folder(folder):
        assert check(folder) == 2
    assert "another process" in capsys.readouterr().err
