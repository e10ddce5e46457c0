"""`ad2 report` and `ad2 report compare` with official Bench2Drive files, alone and beside run folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.closedloop.run_folders import ROUTES, record, run_folder
from support.closedloop.scored import raw, write
from support.make_runs import cell, summary, task, write_run

from closedloop_plugin.scoring.official import to_official
from lmms_eval_ad2.cli.main import main

HOSTILE = "<script>alert(1)</script>"


def row(route: str, score: float = 100.0, rep: int = 0, **changes: Any) -> dict[str, Any]:
    """An official record of a route of the demo suite."""
    known = ROUTES[route]
    lists = {"collisions_vehicle": ["hit"]} if score < 100 else {}
    found = raw(route, rep, known.scenario, infractions=lists, town=known.town, penalty=0.6 if lists else 1.0)
    found["scores"]["score_route"] = 100.0 if not lists else score / 0.6
    found["scores"]["score_composed"] = score
    return {**found, "scenario_name": known.scenario_name, **changes}


@pytest.fixture
def official(tmp_path: Path) -> Path:
    """A file of the demo routes without 105 and 106."""
    return write(tmp_path / "agent.json", [row("101"), row("102"), row("103", 30.0), row("104", 60.0)])


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_a_missing_route_counts_0_over_the_whole_route_file(official: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(official), "--routes", "demo", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["runs"], data["tasks"]) == ([], [])
    (found,) = data["drive"]["runs"]
    assert (found["name"], found["n_routes"], found["n_missing"]) == ("agent", 6, 2)
    assert found["driving_score"] == pytest.approx(290 / 6) and found["success_rate"] == pytest.approx(200 / 6)
    assert found["provenance"]["backend"] == "not recorded" and found["provenance"]["profile"] == "bench2drive"
    assert main(["report", str(official), "--routes", "demo"]) == 0
    out = shown(capsys)
    assert "6 48.33 33.33" in out and "(2 / 0 / 0)" in out
    assert "official result file (driver, world, interpreter, policy, version and seed are not recorded in it)" in out
    assert "agent: 2 episode(s) have no record: 0 in Driving Score and Success Rate" in out


def test_runs_and_files_and_open_loop_runs_share_a_report(
    official: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    top = tmp_path / "top"
    run_folder(top / "drives" / "mine", [record("101", 100.0), record("102", 60.0)], list(ROUTES), seed=7)
    write_run(top / "toy", summary({"t": task("ad2_bench", "relation", cell(50.0))}))
    page = tmp_path / "page.html"
    words = ["report", str(top), str(official), "--routes", "demo"]
    assert main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [r["name"] for r in data["runs"]] == ["toy-7b"]
    assert [r["name"] for r in data["drive"]["runs"]] == ["mine", "agent"]
    assert [r["provenance"]["seed"] for r in data["drive"]["runs"]] == ["7", "not recorded"]
    assert main([*words, "--html", str(page)]) == 0
    out = shown(capsys)
    assert "toy-7b" in out and "mine: embedded world; NOT comparable with figures driven in CARLA" in out
    assert "mine: suite demo, driver straight, world embedded" in out
    html = page.read_text()
    assert html.count("<svg") >= 3 and 'id="drive"' in html and "toy-7b" in html and "Closed loop" in html
    assert str(tmp_path) not in html, "a page may be shared"


def test_details_are_printed_with_breakdowns(official: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(official), "--routes", "demo"]) == 0
    assert "routes without success" not in capsys.readouterr().out
    assert main(["report", str(official), "--routes", "demo", "--breakdowns", "--markdown"]) == 0
    out = capsys.readouterr().out
    assert "### agent: routes without success" in out
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("| 10")]
    assert ["105", "0", ROUTES["105"].scenario, "no record", "–", "–"] in lines
    assert ["103", "0", ROUTES["103"].scenario, "Completed", "30.00", "collisions_vehicle"] in lines


def test_a_run_is_compared_with_a_file_over_the_routes_that_both_were_to_drive(
    official: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["101", "102", "103", "105"]
    run = run_folder(tmp_path / "mine", [record("101", 100.0), record("102", 60.0), record("103", 100.0)], asked)
    page = tmp_path / "compare.html"
    words = ["report", "compare", str(run), str(official), "--routes", "demo"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    score = next(r for r in found["rows"] if r["name"] == "driving_score")
    assert (score["n"], score["a"], score["b"]) == (4, 65.0, 57.5)  # 105 is 0 in both
    assert score["ci_drop"][0] < 7.5 < score["ci_drop"][1]
    assert (found["rule"], found["n_common"], found["missing"]) == ("whole", 3, [[["105", 0]], [["105", 0]]])
    assert found["left_out"] == {"only in B": ["104", "106"]}
    assert [(r["route"], r["a"], r["b"]) for r in found["by_route"]] == [
        ("101", 100.0, 100.0), ("102", 60.0, 100.0), ("103", 100.0, 30.0), ("105", 0.0, 0.0),
    ]  # fmt: skip
    assert found["by_route"][3]["scenario"] == ROUTES["105"].scenario
    assert main([*words, "--html", str(page)]) == 0
    out = shown(capsys)
    for text in (
        "4 route(s) paired, of which 3 have a record in both",
        "A: 1 episode(s) without a record count 0 in Driving Score and Success Rate, and are left out of the other",
        "B: over all 6 routes of demo: Driving Score 48.33, Success Rate 33.33 %",
        "settings of the drive are not in an official file and were not compared",
        "profiles bench2advlm and bench2drive",
        "A: embedded world; NOT comparable with figures driven in CARLA",
    ):
        assert text in out
    html = page.read_text()
    assert html.count("<svg") == 4 and "Driving Score by route" in html and "105" in html
    assert str(tmp_path) not in html


def test_other_penalty_rules_are_compared_only_with_force(
    official: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    episodes = [record("101", 100.0, profile="leaderboard-2.1")]
    run = run_folder(tmp_path / "lb", episodes, profile="leaderboard-2.1")
    words = ["report", "compare", str(run), str(official), "--routes", "demo"]
    assert main(words) == 2
    assert "profile is leaderboard-2.1 in the first and bench2drive in the second" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0
    assert "Attention: profile is leaderboard-2.1 in the first" in shown(capsys)


def test_inconsistent_records_are_named_in_score_report_and_compare(
    official: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = row("102", 100.0)
    bad["scores"]["score_composed"] = 80.0
    hit = row("104", 60.0)
    hit["infractions"]["red_light"] = ["ran a red light"]
    other = write(tmp_path / "odd.json", [row("101"), bad, hit])
    composed = "route 102: score_composed is 80, score_route x score_penalty = 100 x 1 is 100"
    penalty = (
        "route 104: score_penalty is 0.6, the penalty of its infractions (collisions_vehicle x 1, red_light x 1) under "
        "profile bench2drive is 0.42"
    )
    for words in (
        ["drive", "score", str(other), "--routes", "demo"],
        ["report", str(other), "--routes", "demo"],
        ["report", "compare", str(other), str(official), "--routes", "demo"],
    ):
        assert main(words) == 0
        out = shown(capsys)
        assert "2 route(s) with inconsistent scores, counted as the file says" in out
        assert composed in out and penalty in out
        assert main([*words, "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        of_file = data["drive"]["runs"][0] if "drive" in data else data.get("a", data)
        assert [(f["route"], f["field"]) for f in of_file["inconsistent"]] == [
            ("102", "score_composed"), ("104", "score_penalty"),
        ]  # fmt: skip
    assert main(["report", str(other), "--routes", "demo"]) == 0
    assert "Inconsistent records (counted as the file says)" in shown(capsys)


def test_files_of_a_folder_are_parts_or_drivers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts, drivers = tmp_path / "parts", tmp_path / "drivers"
    write(parts / "0.json", [row("101"), row("102")])
    write(parts / "1.json", [row("103", 40.0)])
    write(parts / "merged.json", [row("101")])
    write(drivers / "one.json", [row("101"), row("102")])
    write(drivers / "two.json", [row("102", 50.0)])
    assert main(["report", str(parts), str(drivers), "--routes", "demo", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["drive"]["runs"]
    assert [(r["name"], r["n_records"]) for r in found] == [("parts", 3), ("one", 2), ("two", 1)]
    write(parts / "merged.json", [row(route) for route in ("101", "102", "103", "104")])
    assert main(["report", str(parts), "--routes", "demo", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["drive"]["runs"]
    assert [(r["name"], r["n_records"]) for r in found] == [("0", 2), ("1", 1), ("merged", 4)]


def test_our_own_results_json_keeps_its_origin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps(to_official([record("101", 60.0)])))
    assert main(["report", str(file)]) == 0
    out = shown(capsys)
    assert "suite demo, straight, embedded world, profile bench2advlm" in out and "seed not recorded" in out
    assert "NOT comparable with figures driven in CARLA" in out


def test_mistakes_are_one_line(
    official: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AD2_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("AD2_BENCH2DRIVE_ROUTES", raising=False)
    toy = write_run(tmp_path / "toy", summary({"t": task("ad2_bench", "relation", cell(50.0))}))
    foreign = run_folder(tmp_path / "foreign", [record("101", 60.0)], suite="other", suite_sha256="0")
    broken = write(tmp_path / "broken.json", [{**row("101"), "scores": {"score_route": "x"}}])
    for words, message in (
        ([str(official)], "the routes of bench2drive220 are not here"),
        ([str(foreign)], "driven on suite other, which is not here; name its routes: --routes FILE"),
        ([str(broken), "--routes", "demo"], "scores.score_route"),
        ([str(toy), "--routes", "demo"], "--routes and traffic_signs are for driven results; there are none"),
        (["compare", str(toy), str(official)], "or an official Bench2Drive result file, unlike the other"),
        (["compare", str(official), str(official)], "compared with itself"),
        ([str(tmp_path / "absent.json"), "--routes", "demo"], "a run folder"),
    ):
        assert main(["report", *words]) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1


def test_untrusted_text_is_escaped_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("101", status=f"Failed - {HOSTILE}"), row("102")]
    page = tmp_path / "page.html"
    name = write(tmp_path / "a<b>.json", rows)
    assert main(["report", str(name), "--routes", "demo", "--breakdowns", "--html", str(page)]) == 0
    assert HOSTILE not in page.read_text() and "a<b>" not in page.read_text()
    assert main(["report", "compare", str(name), str(write(tmp_path / "c.json", rows)), "--routes", "demo",
                 "--html", str(page)]) == 0  # fmt: skip
    assert HOSTILE not in page.read_text()


def test_the_public_file_of_pdm_lite(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = data_dir / "bench2drive"
    monkeypatch.setenv("AD2_BENCH2DRIVE_ROUTES", str(folder / "bench2drive220.xml"))
    file = str(folder / "pdm_lite_results.json")
    page = tmp_path / "page.html"
    assert main(["report", file, "--html", str(page), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["drive"]["runs"]
    assert found["driving_score"] == pytest.approx(97.0158, abs=5e-5)
    assert (found["n_inconsistent"], found["inconsistent"]) == (0, [])
    assert found["unchecked"] == {"with infractions but three scores of 0": ["11755"]}
    assert "97.02" in page.read_text() and page.read_text().count("<svg") == 3
    half = tmp_path / "half.json"
    raw_file = json.loads(Path(file).read_text())
    half.write_text(json.dumps({"_checkpoint": {"records": raw_file["_checkpoint"]["records"][:110]}}))
    assert main(["report", "compare", file, str(half), "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    score = next(r for r in compared["rows"] if r["name"] == "driving_score")
    assert (score["n"], compared["n_common"], len(compared["missing"][1])) == (220, 110, 110)
    assert score["a"] == pytest.approx(97.0158, abs=5e-5) and score["b"] < 50
