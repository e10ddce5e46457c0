"""Which paths are results of drives, and how they are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.closedloop.run_folders import record, run_folder
from support.closedloop.scored import raw, write

from closedloop_plugin.report.results import find, is_drive_run, is_results, read_results, short_names, unlike
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.training_card import SET_FILE


def test_run_folders_are_found_below_a_path_and_their_results_json_is_not_counted_twice(tmp_path: Path) -> None:
    one = run_folder(tmp_path / "a" / "one", [record("101", 100.0)])
    two = run_folder(tmp_path / "b", [record("101", 50.0)])
    write(one / "results.json", [raw("101")])
    assert find(tmp_path) == [one, two]
    assert find(one) == [one] and is_results(one) and not is_results(tmp_path)
    assert find(tmp_path / "absent") == []


def test_runs_without_scores_are_left_out_with_a_warning_unless_they_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = run_folder(tmp_path / "one", [record("101", 100.0)])
    empty = run_folder(tmp_path / "empty", [], ["101"])
    single = run_folder(tmp_path / "single", [record("mine", 5.0, scenario="program")])
    frames = run_folder(tmp_path / "frames", [record("102", 90.0)])
    (frames / SET_FILE).write_text("{}")
    assert find(tmp_path) == [one]
    assert [r.getMessage() for r in caplog.records] == [
        f"{empty}: no episode yet, left out", f"{frames}: collected frames, left out",
        f"{single}: a single program, left out",
    ]  # fmt: skip
    assert (find(empty), find(single), find(frames)) == ([empty], [single], [frames])
    for run, reason in ((empty, "no episode yet"), (single, "a single program")):
        with pytest.raises(Ad2Error, match=reason):
            read_results(run, None, "run")


def test_a_robots_run_and_other_files_are_no_drives(tmp_path: Path) -> None:
    robot = run_folder(tmp_path / "robot", [])
    (robot / "run.json").write_text(json.dumps({"identity": {"course": "lane"}, "selection": {}}))
    assert not is_drive_run(robot) and find(tmp_path) == []
    (robot / "run.json").write_text("{")
    assert is_drive_run(robot), "reading it tells what is wrong"
    (tmp_path / "summary.json").write_text("{}")
    assert not is_results(tmp_path / "summary.json") and find(tmp_path / "summary.json") == []


def test_names_are_the_shortest_different_ends_of_the_paths(tmp_path: Path) -> None:
    file = write(tmp_path / "x" / "vad.json", [raw("1")])
    paths = [tmp_path / "a" / "run.v2", tmp_path / "b" / "run.v2", file]
    for folder in paths[:2]:
        folder.mkdir(parents=True)
    assert short_names(paths) == ["a/run.v2", "b/run.v2", "vad"]


def test_a_run_is_scored_over_the_routes_that_its_starts_asked_for(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", [record("101", 100.0), record("104", 10.0)], ["101", "102", "104"])
    text = json.loads((run / "run.json").read_text())
    text["selection"] |= {"asked": ["102"], "routes": ["101", "102", "103", "104"]}
    (run / "run.json").write_text(json.dumps(text))
    found = read_results(run, None, "run")
    assert (found.asked, [r.id for r in found.routes]) == (("101", "102", "104"), ["101", "102", "104"])
    assert found.suite is not None and (found.suite.name, found.notes) == ("demo", ())


def test_repetitions_that_were_asked_for_but_not_driven_are_missing(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", [record("101", 100.0)])
    text = json.loads((run / "run.json").read_text())
    text["selection"]["repetitions"] = 3
    (run / "run.json").write_text(json.dumps(text))
    assert read_results(run, None, "run").repetitions == 3
    for wrong in (0, 1001, True, "3"):
        text["selection"]["repetitions"] = wrong
        (run / "run.json").write_text(json.dumps(text))
        with pytest.raises(Ad2Error, match=r"run\.json.*selection\.repetitions.*from 1 to 1000"):
            read_results(run, None, "run")


def test_an_implausible_repetition_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "r.json", [raw("101"), raw("101", 10**9 - 1)])
    with pytest.raises(Ad2Error, match=r"r\.json, record 1: repetition 999999999; the highest that is accepted is 999"):
        read_results(file, "demo", "r")


def test_a_merged_file_with_more_episodes_is_a_driver_of_its_own(tmp_path: Path) -> None:
    part = write(tmp_path / "a.json", [raw("1"), raw("2")])
    merged = write(tmp_path / "merged.json", [raw("1"), raw("2")])
    assert find(tmp_path) == [tmp_path] and is_results(tmp_path)
    for rows in ([raw("1"), raw("2"), raw("3")], [raw("3")]):
        write(merged, rows)
        assert find(tmp_path) == [part, merged]


def test_a_run_on_an_unknown_suite_needs_its_routes(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", [record("101", 100.0)], suite="elsewhere", suite_sha256="0" * 64)
    with pytest.raises(Ad2Error, match="elsewhere, which is not here; name its routes: --routes FILE"):
        _ = read_results(run, None, "run").routes
    given = read_results(run, "demo", "run")
    assert [r.id for r in given.routes] == ["101"]
    assert "driven on other routes or programs (suite elsewhere, sha256 000000000000) than demo has now" in given.notes


def test_the_types_of_an_official_file_are_those_of_the_route_file(tmp_path: Path) -> None:
    """A record has the scenario's name, which is not TYPE_N in every route file."""
    route = """<route id="{}" town="Town12"><waypoints><position x="0" y="0"/><position x="50" y="0"/></waypoints>
    <scenarios>{}</scenarios></route>"""
    one = '<scenario name="my_cut_in" type="ControlLoss"><trigger_point x="0" y="0" yaw="0"/></scenario>'
    (tmp_path / "own.xml").write_text(f"<routes>{route.format(1, one)}{route.format(2, one + one)}</routes>")
    rows = [{**raw(name), "scenario_name": "my_cut_in"} for name in ("1", "2", "3")]
    found = read_results(write(tmp_path / "r.json", rows), str(tmp_path / "own.xml"), "r")
    assert [episode.scenario for episode in found.episodes] == ["ControlLoss", "", "my_cut_in"]


@pytest.mark.parametrize("key", ["routes", "asked"])
def test_a_run_with_changed_routes_is_refused_in_one_line(key: str, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", [record("101", 100.0)])
    data = json.loads((run / "run.json").read_text("utf-8"))
    for value in (None, [["101"]], "101", "left out"):
        data["selection"] = {"routes": ["101"], "repetitions": 1, key: value}
        if value == "left out" and data["selection"].pop(key) and key == "asked":
            continue  # the runs of earlier versions have none
        (run / "run.json").write_text(json.dumps(data), "utf-8")
        with pytest.raises(Ad2Error, match=rf"run\.json.*selection\.{key}"):
            read_results(run, None, "run")


def test_the_decision_rate_of_the_profile_is_named() -> None:
    one, two = {"profile": "p", "decision_hz": None, "map": None}, {"profile": "p", "decision_hz": 2.0, "map": None}
    assert unlike(one, two, one_suite=True) == ["decision_hz is the profile's rate in the first and 2.0 in the second"]
    assert unlike(two, one, one_suite=True) == ["decision_hz is 2.0 in the first and the profile's rate in the second"]
    assert unlike(one, {**one, "map": "x"}, one_suite=True) == ['map is not set in the first and "x" in the second']


def test_words_within_values_are_not_replaced() -> None:
    one = {"agent": {"decision_hz": None, "note": "not set there and here"}}
    two = {"agent": {"decision_hz": 1, "note": "x"}}
    assert unlike(one, two, one_suite=False) == [
        "agent.decision_hz is not set in the first and 1 in the second",
        'agent.note is "not set there and here" in the first and "x" in the second',
    ]
