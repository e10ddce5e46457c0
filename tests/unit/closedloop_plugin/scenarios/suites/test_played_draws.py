"""Played draws: which of check.json count, how runs play them, and other draws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.driver.agents.make import make_agent
from closedloop_plugin.runner.assemble import DriverSetup, RouteSelection, RunConfig, assemble
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import EpisodeTask, episode_seed
from closedloop_plugin.scenarios.suites.lookup import Suite, suite
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.storage.files import file_sha256

WORLD = "support.threats.acting:ActingWorld"
TEXT = 'param route = "demo:103"\n# acts 1.0\n'


def folder_of(path: Path, *names: str) -> Path:
    path.mkdir()
    for name in names:
        (path / f"{name}.scenic").write_text(TEXT + f"# {name}\n")
    return path


def checked(folder: Path, name: str, **changes: Any) -> None:
    """Add the verdict of a passed check."""
    file = folder / "check.json"
    known = json.loads(file.read_text()) if file.is_file() else {}
    sha = file_sha256(folder / f"{name}.scenic")
    verdict = {"passed": True, "program_sha256": sha, "draw_seed": 5, "drawn": {}, "alone": False, **changes}
    file.write_text(json.dumps({**known, name: verdict}))


def test_only_passed_draws_of_unchanged_programs_are_played(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "mine", "a", "b", "c", "d")
    before = suite(str(folder))
    assert not before.draws
    checked(folder, "a", drawn={"due": 2.0})
    checked(folder, "b", passed=False)
    checked(folder, "c", program_sha256="of another text")
    checked(folder, "d", draw_seed=None)
    found = suite(str(folder))
    assert {name: (draw.seed, draw.drawn) for name, draw in found.draws.items()} == {"a": (5, {"due": 2.0})}
    assert found.sha256 != before.sha256, "another draw is another suite"


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"draw_seed": -1}, "a.draw_seed"), ({"draw_seed": 2**31}, "a.draw_seed"), ({"drawn": 3}, "a.drawn")],
)
def test_a_malformed_draw_is_reported(changes: dict[str, Any], field: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "mine", "a")
    checked(folder, "a", **changes)
    with pytest.raises(DataError, match=rf"check\.json.*{field}"):
        suite(str(folder))


def tasks(found: Suite, folder: Path, seed: int = 0, **more: Any) -> list[EpisodeTask]:
    selection = RouteSelection(
        found.name, found.sha256, found.ids, found.routes, programs=found.programs,
        draws={name: draw.seed for name, draw in found.draws.items()}, **more,
    )  # fmt: skip
    config = RunConfig(folder / "run", FactoryRecipe(WORLD), profile("bench2drive"), seed=seed)
    return list(assemble(config, selection, DriverSetup(make_agent("expert"))).tasks)


def test_repetitions_of_a_played_draw_have_one_scene_and_several_drivers(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "mine", "a", "b")
    checked(folder, "a")
    found = tasks(suite(str(folder)), tmp_path, seed=7, repetitions=2)
    a, b = ([t for t in found if t.route_id == name] for name in "ab")
    assert [(t.setup.seed, t.draw) for t in a] == [(5, "played")] * 2
    assert [t.driver_seed for t in a] == [episode_seed(7, "a", k) for k in (0, 1)]
    assert [(t.setup.seed, t.driver_seed, t.draw) for t in b] == [
        (episode_seed(7, "b", k),) * 2 + ("",) for k in (0, 1)
    ]


def test_fresh_draws_are_neither_the_played_one_nor_those_of_a_check(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "mine", "a")
    checked(folder, "a")
    found = tasks(suite(str(folder)), tmp_path, fresh=True, repetitions=3)
    seeds = {t.setup.seed for t in found}
    assert {t.draw for t in found} == {"fresh"} and len(seeds) == 3
    assert not seeds & {5, *(episode_seed(0, "a", k) for k in range(20))}
    assert tasks(suite(str(folder)), tmp_path, fresh=True, repetitions=3) == found


def drive(folder: Path, out: Path, *more: str) -> list[dict[str, Any]]:
    code = main([
        "drive", "run", "--suite", str(folder), "--agent", "expert", "--world", WORLD, "--out", str(out), *more
    ])  # fmt: skip
    assert code == 0
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


@pytest.mark.integration
def test_a_run_plays_what_was_checked_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TQDM_DISABLE", "1")
    folder = folder_of(tmp_path / "mine", "a", "b")
    assert main(["threats", "check", str(folder), "--world", WORLD, "--config", "others=1", "--seed", "3"]) == 0
    assert "other draws survived: 2 of 2 (100.0 %, 95 % interval" in capsys.readouterr().out
    (folder / "b.scenic").write_text(TEXT + "# edited\n")
    a, b = drive(folder, tmp_path / "run")
    output = capsys.readouterr().out
    assert "played: the draw that the check saw survived, in 1 of 2 scenarios" in output
    assert "not checked, or changed since, on top of the standard scenario: b; drawn with --seed 0" in output
    check = [json.loads(line) for line in (folder / "check" / "episodes.jsonl").read_text().splitlines()]
    own = next(r for r in check if (r["route_id"], r["repetition"]) == ("a", 0))
    apart = {"suite", "system_s", "world", "version"}
    assert {k: v for k, v in a.items() if k not in apart} == {k: v for k, v in own.items() if k not in apart}
    assert (a["world"]["draw"], b["world"].get("draw"), b["seed"]) == ("played", None, episode_seed(0, "b", 0))
    fresh = drive(folder, tmp_path / "fresh", "--config", "fresh_draws=2")
    assert [r["repetition"] for r in fresh] == [0, 0, 1, 1] and {r["world"]["draw"] for r in fresh} == {"fresh"}
    assert "fresh draws: 2 of each scenario" in capsys.readouterr().out
    alone = drive(folder, tmp_path / "alone", "--config", "alone=true")
    assert {(r["world"]["standard"], r["world"].get("draw")) for r in alone} == {("replaced", None)}
    output = capsys.readouterr().out
    assert "not checked, or changed since, alone: a, b" in output and "Emergency Brake" not in output
    assert "2 of 2 record(s) test no ability" in output


def test_a_suite_that_was_generated_alone_is_played_alone(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "mine", "a")
    (folder / "suite.json").write_text(json.dumps({"asked": {"alone": True}}))
    assert suite(str(folder)).alone and not suite("demo").alone


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--suite", "demo", "--config", "alone=true"],
            "--config alone: demo has routes of the catalogue, not programs",
        ),
        (["--suite", "demo", "--config", "fresh_draws=2"], "--config fresh_draws: demo has routes of the catalogue"),
        (["--suite", "mine", "--config", "fresh_draws=2", "--repetitions", "2"], "omit --repetitions"),
        (
            ["--scenario", "mine/a.scenic", "--config", "fresh_draws=2"],
            "--config fresh_draws is an option of --suite FOLDER",
        ),
        (["--scenario", "free.scenic", "--config", "alone=true"], "the program has no route"),
    ],
)
def test_options_without_effect_are_refused(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder_of(tmp_path / "mine", "a")
    (tmp_path / "free.scenic").write_text("ego = new Car\n")
    monkeypatch.chdir(tmp_path)
    assert main(["drive", "run", *words, "--agent", "expert", "--out", "out"]) == 2
    assert message in capsys.readouterr().err
