"""`ad2 report compare STANDARD THREAT` and `ad2 drive score --routes FOLDER` on the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.closedloop.run_folders import ROUTES, record, run_folder

from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.scoring.official import to_official
from closedloop_plugin.scoring.published import published
from lmms_eval_ad2.cli.main import main

THREATS = {"suite": "threats", "suite_sha256": "ab" * 32}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    a = run_folder(tmp_path / "std", [record("101", 100.0), record("102", 80.0), record("103", 90.0)])
    b = [
        record("101", 60.0, suite="threats"),
        record("102", 40.0, suite="threats"),
        record("mine", 5.0, suite="threats"),
    ]
    return str(a), str(run_folder(tmp_path / "thr", b, **THREATS))


def test_compare_shows_both_runs_with_the_drop_and_the_published_tables_separately(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "compare", *pair]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100
    assert main(["report", "compare", *pair, "--wide", "--published"]) == 0
    out = capsys.readouterr().out
    ours, *tables = out.split("Bench2ADVLM, Table ")
    line = next(text for text in ours.splitlines() if text.startswith("Driving Score"))
    assert line.split() == ["Driving", "Score", "2", "90.00", "50.00", "+40.00", "+44.4", "0.5000", "1.0000"]
    assert "demo" in ours and "threats" in ours and "NOT comparable with figures driven in CARLA" in ours
    assert "left out: 1 only in demo: 103" in ours and "left out: 1 only in threats: mine" in ours
    assert "Skill Score %: no figure" in ours
    assert [text[:27] for text in tables] == [
        "1 (standard routes), driven",
        "2 (threat scenarios), drive",
        "1 less Table 2 (the drop), ",
    ]
    assert all("driven in CARLA, means of 10 repetitions; ours above: embedded world" in text for text in tables)
    assert "43.45" in tables[0] and "32.59" in tables[1] and "+10.86" in tables[2]
    assert "90.00" not in "".join(tables) and "43.45" not in ours  # never in one table
    assert "26.1 % on average. In the tables: its mean falls from 38.36 to 33.00" in " ".join(tables[2].split())
    assert max(len(text) for text in ours.splitlines() if str(tmp_path) not in text) <= 121


def test_compare_as_json_has_published_scores_under_a_separate_key(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "compare", *pair, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row for row in found["rows"]}
    score = rows["driving_score"]
    assert (score["a"], score["b"], score["drop"], found["interval_method"]) == (90.0, 50.0, 40.0, "cluster jackknife")
    assert score["ci_drop"][0] < 0 < 40 < score["ci_drop"][1], "two routes"
    assert (found["a"]["suite"], found["b"]["suite"], found["routes"]) == ("demo", "threats", ["101", "102"])
    assert found["left_out"] == {"only in demo": ["103"], "only in threats": ["mine"]}
    assert (found["published"]["world"], len(found["published"]["drivers"])) == ("CARLA", len(published().drivers))
    assert main(["report", "compare", *pair, "--json", "--config", "no_published=true"]) == 0
    assert json.loads(capsys.readouterr().out)["published"] is None


def test_the_long_name_of_a_generated_suite_does_not_widen_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = run_folder(tmp_path / "a", [record("101", 100.0)])
    b = run_folder(
        tmp_path / "b", [record("101", 60.0)], suite="threat embedded220 (a model of many words)", suite_sha256="0"
    )
    assert main(["report", "compare", str(a), str(b), "--config", "no_published=true"]) == 0
    table = capsys.readouterr().out.split("\n\n")[1]
    head = table.split("\n---")[0]
    assert len(head.splitlines()) == 3 and "(a model of many" in head and "test" not in head
    assert max(map(len, table.splitlines())) <= 100


def test_compare_as_markdown(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "compare", *pair, "--markdown"]) == 0
    out = capsys.readouterr().out
    assert "| Driving Score" in out and "| 90.00 [4.28, 99.94]" in out
    assert out.count("### Bench2ADVLM") == 4
    assert out.splitlines()[0].startswith("- A: suite demo")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"agent": {"name": "random", "privileged": False}},
            'agent.name is "straight" in the first and "random" in the',
        ),
        ({"seed": 3}, "seed is 0 in the first and 3 in the second"),
        ({"profile": "bench2drive"}, 'profile is "bench2advlm" in the first'),
        ({"policy": "strict"}, 'policy is "official" in the first'),
        ({"interpreter": {"name": "rules", "mode": "rules"}}, "interpreter is not set in the first"),
        ({"world": "mine:World"}, 'and "mine:World" in the second'),
        ({"towns_sha256": {"Town12": "ab"}}, "maps are corridors in the first and real towns in the second"),
    ],
)
def test_runs_with_different_settings_are_compared_only_with_force(
    changes: dict[str, Any], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = run_folder(tmp_path / "a", [record("101", 100.0)])
    b = run_folder(tmp_path / "b", [record("101", 60.0)], **{**THREATS, **changes})
    assert main(["report", "compare", str(a), str(b)]) == 2
    error = capsys.readouterr().err
    assert says in error and "--force" in error and error.count("\n") == 1
    assert main(["report", "compare", str(a), str(b), "--force", "--config", "no_published=true"]) == 0
    assert "Attention: " in capsys.readouterr().out


def test_two_runs_of_one_suite_compare_two_agents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = run_folder(tmp_path / "a", [record("101", 100.0), record("102", 90.0)])
    other = {"name": "expert", "privileged": True}
    b = run_folder(tmp_path / "b", [record("101", 60.0), record("102", 50.0)], agent=other, version="2")
    assert main(["report", "compare", str(a), str(b)]) == 0
    out = capsys.readouterr().out
    assert "A - B" in out and "Table 1" not in out
    assert "Attention: driven with lmms-eval-ad2 1 and 2" in out
    b = run_folder(tmp_path / "d", [record("101", 60.0)], agent=other, commit="1" * 40)
    assert main(["report", "compare", str(a), str(b)]) == 0
    assert "Attention: driven with lmms-eval-ad2 1 and 1+111111111111" in capsys.readouterr().out
    c = run_folder(tmp_path / "c", [record("101", 60.0)], agent=other, seed=5)
    assert main(["report", "compare", str(a), str(c)]) == 2
    assert "seed is 0 in the first and 5 in the second" in capsys.readouterr().err


def test_repetitions_are_shown_with_their_standard_deviation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [record(r, s, rep=k) for r, s, k in (("101", 100, 0), ("101", 80, 1), ("102", 60, 0), ("102", 60, 1))]
    a = run_folder(tmp_path / "a", both)
    b = run_folder(tmp_path / "b", [record("101", 60.0), record("102", 50.0)], **THREATS)
    assert main(["report", "compare", str(a), str(b), "--config", "no_published=true"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert (
        "demo: over 2 repetitions (± standard deviation): Success Rate 25.00 ± 35.36, Driving Score 75.00 ± 7.07" in out
    )
    assert "threats: over" not in out


def test_mistakes_are_reported_in_one_line(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, _ = pair
    empty = run_folder(tmp_path / "empty", [], ["101"], **THREATS)
    disjoint = run_folder(tmp_path / "apart", [record("mine", 5.0)], **THREATS)
    single = run_folder(tmp_path / "whole", [record("mine", 5.0, scenario="program")], **THREATS)
    broken = run_folder(tmp_path / "broken", [record("101", 5.0)], **THREATS)
    (broken / "run.json").write_text("{")
    for b, message in (
        (a, "compared with itself"),
        (str(tmp_path), "not a run folder of `ad2 drive run`"),
        (str(empty), "contains no episode yet"),
        (str(disjoint), "no route in common"),
        (str(single), "a single program, which has no benchmark scores"),
        (str(broken), "not a run description"),
    ):
        assert main(["report", "compare", a, b]) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1


def test_a_hostile_suite_name_is_escaped_in_text_and_markdown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = {**THREATS, "suite": "\x1b[2J<script>|x"}
    a = run_folder(tmp_path / "a", [record("101", 100.0)])
    b = run_folder(tmp_path / "b", [record("101", 60.0)], **hostile)
    for more in ([], ["--markdown"]):
        assert main(["report", "compare", str(a), str(b), "--config", "no_published=true", *more]) == 0
        assert "\x1b" not in (out := capsys.readouterr().out)
    assert "<script>" not in out and "\\|x" in out


PROGRAM = 'param route = "demo:{}"\nmodel scenic.domains.driving.model\nego = new Car\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A suite of programs; scoring reads their routes and runs no program."""
    root = tmp_path / "threats"
    (root / "scenarios").mkdir(parents=True)
    for route in ("101", "102", "103"):
        (root / "scenarios" / f"{route}.scenic").write_text(PROGRAM.format(route))
    (root / "suite.json").write_text(json.dumps({"left_out": {"103": "the expert cannot survive it"}}))
    return root


def test_a_folder_of_programs_is_scored(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = suite(str(folder))
    episodes = [replace(record(r, s), suite="threats") for r, s in (("101", 60.0), ("102", 40.0))]
    run = run_folder(tmp_path / "run", episodes, suite="threats", suite_sha256=found.sha256)
    assert main(["drive", "score", str(run), "--routes", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "50.0000" in out and "Suite threats in the embedded world" in out
    assert "left out, 1 of 3 scenarios: 103 (the expert cannot survive it)" in " ".join(out.split())
    assert "other programs" not in out
    assert main(["drive", "score", str(run), "--routes", str(folder), "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert (scored["driving_score"], scored["left_out"]) == (50.0, {"103": "the expert cannot survive it"})
    assert {row["type"] for row in scored["types"]} == {ROUTES["101"].scenario, ROUTES["102"].scenario}
    (folder / "scenarios" / "101.scenic").write_text(PROGRAM.format("101") + "# changed\n")
    assert main(["drive", "score", str(run), "--routes", str(folder)]) == 0
    assert "driven on other programs (suite threats" in " ".join(capsys.readouterr().out.split())


def test_an_unfinished_folder_is_not_scored(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "suite.json").write_text(json.dumps({"finished": False}))
    run = run_folder(tmp_path / "run", [record("101", 60.0)])
    assert main(["drive", "score", str(run), "--routes", str(folder)]) == 2
    assert "not finished" in capsys.readouterr().err


SIGNS = "VanillaSignalizedTurnEncounterRedLight"


def signs_runs(tmp_path: Path, suites: tuple[str, str]) -> list[str]:
    """Two runs whose only record failed after its junction: Traffic_Signs is 50 by v0.0.3 and 100 by v0.0.4."""
    point = '<position x="{}" y="0" z="0"/>'
    scenario = f'<scenario name="{SIGNS}_1" type="{SIGNS}"><trigger_point x="9" y="0" z="0" yaw="0"/></scenario>'
    (tmp_path / "renamed.xml").write_text(
        f'<routes><route id="1" town="Town12"><waypoints>{point.format(0)}{point.format(90)}</waypoints>'
        f"<scenarios>{scenario}</scenarios></route></routes>"
    )
    own = {"scenario": SIGNS, "scenario_name": f"{SIGNS}_1", "town": "Town12", "junctions_passed": 1}
    return [
        str(run_folder(tmp_path / f"{n}", [record("1", 80.0, suite=name, **own)], suite=name, suite_sha256="0"))
        for n, name in enumerate(suites)
    ]


def traffic_signs(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[float]:
    """Of both runs, by `ad2 report` or `ad2 report compare`."""
    capsys.readouterr()
    assert main(["report", *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    if "drive" in found:
        return [run["abilities"]["Traffic_Signs"] for run in found["drive"]["runs"]]
    return next([row["a"], row["b"]] for row in found["rows"] if row["name"] == "Traffic_Signs")


def test_the_variant_of_traffic_signs_follows_the_suite_or_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    routes = ["--routes", str(tmp_path / "renamed.xml")]
    new = [*signs_runs(tmp_path, ("embedded220v4", "bench2drive220v4")), *routes]
    assert traffic_signs(capsys, *new) == traffic_signs(capsys, "compare", *new, "--force") == [100.0, 100.0]
    by_old_rule = [*new, "--config", "traffic_signs=v0.0.3"]
    assert traffic_signs(capsys, *by_old_rule) == traffic_signs(capsys, "compare", *by_old_rule, "--force") == [50, 50]
    assert main(["drive", "score", new[0], *routes, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["traffic_signs"] == "v0.0.4"


def test_two_variants_are_named_in_a_table_and_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mixed = [*signs_runs(tmp_path, ("embedded220v4", "mine")), "--routes", str(tmp_path / "renamed.xml")]
    assert traffic_signs(capsys, *mixed) == [100.0, 50.0]
    assert main(["report", *mixed]) == 0
    assert "variant v0.0.4 for 0; v0.0.3 for 1" in " ".join(capsys.readouterr().out.split())
    assert main(["report", "compare", *mixed, "--force"]) == 2
    assert (
        "v0.0.4 for 0 and v0.0.3 for 1: choose one for both with --config traffic_signs=VARIANT"
        in capsys.readouterr().err
    )
    assert main(["report", "compare", *mixed, "--force", "--config", "traffic_signs=v0.0.4"]) == 0


def test_an_episode_that_was_not_driven_is_in_no_figure_of_a_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faulted = replace(record("102", 50.0), end="agent failed", fault="driver", reason="no weights")  # penalty is 0.6
    own = [record("101", 100.0), faulted, record("103", 100.0)]
    a = run_folder(tmp_path / "a", own)
    (tmp_path / "b.json").write_text(json.dumps(to_official(own)))
    assert main(["report", "compare", str(a), str(tmp_path / "b.json"), "--routes", "demo", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["a"]["inconsistent"] == found["b"]["inconsistent"] == []
    over_all = next(text for text in found["attention"] if "over all 6 routes" in text)
    assert "Driving Score 40.00" in over_all  # 2 of 5: the episode that was not driven is not one of them
    assert main(["report", str(a), "--breakdowns"]) == 0
    assert "fault of the driver" in capsys.readouterr().out
    assert main(["drive", "show", f"{a}:102"]) == 2
    assert "102: not driven; route 102 repetition 0: fault of the driver: no weights" in capsys.readouterr().err
