"""The summary: golden figures of PDM-Lite, and small sets computed by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.closedloop.scored import episode, raw, record, route, write

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.routes import RouteScenario, read_routes
from closedloop_plugin.report.score_text import score_text
from closedloop_plugin.scoring.comfort import EgoMotion
from closedloop_plugin.scoring.driving import message
from closedloop_plugin.scoring.official import from_episode, read
from closedloop_plugin.scoring.official_record import OfficialRecord
from closedloop_plugin.scoring.summary import summarise
from lmms_eval_ad2.core.errors import Ad2Error

B2D = profile("bench2drive")


@pytest.fixture(scope="module")
def pdm(data_dir: Path):
    folder = data_dir / "bench2drive"
    golden = json.loads((folder / "pdm_lite_ability.json").read_text())
    return read([folder / "pdm_lite_results.json"]).records, read_routes(folder / "bench2drive220.xml"), golden


def test_pdm_lite_golden(pdm) -> None:
    records, routes, golden = pdm
    found = summarise(records, routes, B2D)
    assert found["driving_score"] == pytest.approx(97.01579642272726, abs=1e-9)
    assert found["success_rate"] == pytest.approx(92.27272727272727, abs=1e-9)
    assert found["efficiency"] == pytest.approx(golden["Driving Efficiency"], abs=1e-9)
    for name in ("Overtaking", "Merging", "Emergency_Brake", "Give_Way"):
        assert found["abilities"][name] == pytest.approx(100 * golden[name], abs=1e-9)
    assert found["comfortness"] is None
    assert (found["n_routes"], found["n_missing"], found["n_duplicates"], found["n_crashed"]) == (220, 0, 0, 0)


def test_pdm_lite_has_the_official_skill_score_without_maps(pdm) -> None:
    records, routes, golden = pdm
    found = summarise(records, [replace(r, suite="a split") for r in routes], B2D)
    assert found["abilities"]["Traffic_Signs"] == pytest.approx(100 * golden["Traffic_Signs"], abs=1e-9)
    assert found["skill_score"] == pytest.approx(92.82017543859649, abs=1e-9)
    assert found["partial"] == []


def test_pdm_lite_traffic_signs_without_and_with_junctions(pdm) -> None:
    """As other routes: the known bounds are of Bench2Drive's own only."""
    records, routes, golden = pdm
    routes = [replace(route, points=route.points[1:]) for route in routes]
    without = summarise(records, routes, B2D)
    assert without["abilities"]["Traffic_Signs"] == pytest.approx(100 * 87 / 95)
    assert without["partial"] == ["Traffic_Signs", "skill_score"]
    assert any("93.6842" in note and "partial" in note for note in without["notes"])
    # Every junction before 50 % of its route: J = 95 less three red lights and one that never moved.
    facts = {r.id: 0.45 for r in routes}
    old = summarise(records, routes, B2D, junctions=facts)
    assert old["abilities"]["Traffic_Signs"] == pytest.approx(100 * golden["Traffic_Signs"], abs=1e-9)
    assert old["skill_score"] == pytest.approx(100 * golden["mean"], abs=1e-9)
    assert old["partial"] == []
    new = summarise(records, routes, B2D, junctions=facts, traffic_signs="v0.0.4")
    assert new["abilities"]["Traffic_Signs"] == pytest.approx(100 * 91 / 95)


def test_a_partial_skill_score_has_its_range_in_the_notes() -> None:
    """Two junction tests unknown, one success: (1 + 0) / 4 to (1 + 2) / 4; the four other abilities are 100 %."""
    names = ("Accident", "HighwayExit", "ControlLoss", "InvadingTurn", "T_Junction", "T_Junction")
    routes = [route(str(i), name) for i, name in enumerate(names)]
    hit = {"collisions_vehicle": ["x"]}
    records = [record(str(i), scenario=name, infractions=hit if i == 5 else {}) for i, name in enumerate(names)]
    found = summarise(records, routes, B2D)
    assert (found["partial"], found["abilities"]["Traffic_Signs"]) == (["Traffic_Signs", "skill_score"], 50.0)
    (note,) = [note for note in found["notes"] if "partial" in note]
    assert note.endswith(
        "2 record(s); with it, Traffic_Signs is 25.0000 to 75.0000, the Skill Score 85.0000 to 95.0000"
    )


def test_repetitions_use_one_definition_of_traffic_signs(pdm) -> None:
    """The second repetition drives 40 % of each route: its junction tests need maps, so neither has one."""
    records, routes, _ = pdm
    short = [replace(r, repetition=1, score_route=min(r.score_route or 0.0, 40.0)) for r in records]
    found = summarise([*records, *short], routes, B2D, repetitions=2)
    assert found["partial"] == ["Traffic_Signs", "skill_score"]
    assert found["repetitions"]["Traffic_Signs"]["values"] == pytest.approx([100 * 87 / 95] * 2)


def test_missing_routes_of_pdm_lite_are_counted(pdm) -> None:
    records, routes, _ = pdm
    found = summarise(records[:110], routes, B2D)
    total = sum(r.score for r in records[:110])
    assert found["n_missing"] == 110
    assert found["driving_score"] == pytest.approx(total / 220)
    assert found["abilities"]["Overtaking"] > 80  # missing routes are not in this denominator


def test_counts_and_notes_of_a_small_set() -> None:
    routes = [route("1"), route("2"), route("3"), route("4")]
    hit = {"collisions_vehicle": ["x"]}
    records = [
        record("1", score=20.0, status="Failed - Agent timed out"),
        record("1"),  # resumed: counts
        record("2", score=50.0, penalty=0.6, status="Failed - Simulation crashed", infractions=hit),
        record("9"),
    ]
    found = summarise(records, routes, B2D)
    assert found["driving_score"] == pytest.approx((100 + 30) / 4)
    assert found["success_rate"] == 25.0
    counts = {k: found[k] for k in ("n_routes", "n_records", "n_missing", "n_duplicates", "n_crashed", "n_outside")}
    assert counts == {
        "n_routes": 4, "n_records": 2, "n_missing": 2, "n_duplicates": 1, "n_crashed": 1, "n_outside": 1,
    }  # fmt: skip
    assert found["missing"] == [["3", 0], ["4", 0]]
    assert found["crashed"] == [{"route": "2", "repetition": 0, "status": "Failed - Simulation crashed"}]
    assert found["abilities"]["Emergency_Brake"] == 50.0
    assert found["abilities"]["Overtaking"] is None
    assert found["skill_score"] is None
    assert found["efficiency"] is None
    text = " ".join(found["notes"])
    for part in ("1 duplicate", "1 record(s) left out", "2 episode(s) have no record", "no record tests Overtaking"):
        assert part in text
    json.dumps(found, allow_nan=False)


def test_success_rate_of_an_official_file_made_by_hand(tmp_path: Path) -> None:
    """Four routes: clean, slow, over a red light, past a stop sign. The first two succeed: 50 %."""
    rows = [
        raw("1"),
        raw("2", infractions={"min_speed_infractions": ["Average speed is 60% of the surrounding traffic's one"]}),
        raw("3", penalty=0.7, infractions={"red_light": ["Agent ran a red light 4711 at (x=1, y=2, z=0)"]}),
        raw("4", penalty=0.8, infractions={"stop_infraction": ["Agent ran a stop with id=9 at (x=1, y=2, z=0)"]}),
    ]
    records = read([write(tmp_path / "results.json", rows)]).records
    found = summarise(records, [route(str(i)) for i in range(1, 5)], B2D)
    assert found["success_rate"] == 50.0
    assert found["driving_score"] == pytest.approx((100 + 100 + 70 + 80) / 4)


def test_programs_that_replaced_the_standard_scenario_test_no_ability() -> None:
    routes = [route("1"), route("2")]
    records = [record("1"), replace(record("2", score=20.0, status="Failed"), replaced=True)]
    found = summarise(records, routes, B2D)
    assert (found["abilities"]["Emergency_Brake"], found["n_replaced"]) == (100.0, 1), "of the one that kept it"
    assert found["success_rate"] == 50.0
    assert any(note.startswith("1 of 2 record(s) test no ability: their programs replaced") for note in found["notes"])
    none = summarise(records[1:], routes[1:], B2D)
    assert set(none["abilities"].values()) == {None} and none["skill_score"] is None
    assert not any("no record tests" in note for note in none["notes"])
    assert "Emergency Brake" not in score_text(none, "x.xml") and "Skill Score" not in score_text(none, "x.xml")
    assert "test no ability" in score_text(none, "x.xml")


@pytest.mark.parametrize(
    ("world", "replaced"),
    [
        ({}, False),
        ({"program": "abc", "standard": "kept"}, False),
        ({"program": "abc", "standard": "replaced"}, True),
        ({"program": "abc"}, True),  # driven by a version that always replaced it
    ],
)
def test_whether_the_standard_scenario_was_kept_is_read_from_the_record(world: dict[str, str], replaced: bool) -> None:
    driven = episode("1")
    assert from_episode(replace(driven, world={**driven.world, **world})).replaced is replaced


def test_records_of_several_states_of_the_code_are_noted() -> None:
    routes, versions = [route("1"), route("2")], ["0.2.0+111111111111", "0.2.0+222222222222.dirty"]
    records = [replace(record(i), version=version) for i, version in zip("12", versions, strict=True)]
    assert summarise(records, routes, B2D)["versions"]["records"] == versions
    (note,) = [n for n in summarise(records, routes, B2D)["notes"] if "versions of the" in n]
    assert note.startswith("driven with 2 versions of the world or the code") and note.endswith("; ".join(versions))
    assert not any("versions of the" in n for n in summarise(records[:1], routes[:1], B2D)["notes"])


def test_efficiency_is_the_mean_of_route_means() -> None:
    def speeds(*values: float) -> dict[str, list[str]]:
        return {"min_speed_infractions": [message(v) for v in values]}

    records = [
        record("1", infractions=speeds(100, 300)),
        record("2", infractions=speeds(50, 2000)),
        record("3"),
        record("4", infractions=speeds(3000)),
    ]
    found = summarise(records, [route(str(i)) for i in range(1, 5)], B2D)
    assert found["efficiency"] == 125.0
    assert found["success_rate"] == 100.0


def test_a_route_with_an_unreadable_speed_message_is_named_and_left_out_of_efficiency() -> None:
    texts = [message(50.0), "Average speed is 179,21% of the surrounding traffic's one"]
    records = [record("1", infractions={"min_speed_infractions": texts}),
               record("2", infractions={"min_speed_infractions": [message(80.0)]})]  # fmt: skip
    found = summarise(records, [route("1"), route("2")], B2D)
    assert found["efficiency"] == 80.0
    assert any(
        "1 record(s) with a speed message without a percentage" in note and ": 1" in note for note in found["notes"]
    )
    leaderboard = summarise(records, [route("1"), route("2")], profile("leaderboard-2.0"))
    assert leaderboard["unchecked"] == {"with a speed message without a percentage": ["1"]}


def test_intervals_contain_the_value_and_need_two_routes() -> None:
    routes = [route(str(i)) for i in range(30)]
    records = [record(str(i), score=float(3 * i)) for i in range(30)]
    found = summarise(records, routes, B2D)
    low, high = found["intervals"]["driving_score"]
    assert low < 43.5 < high
    assert found["driving_score"] == pytest.approx(43.5)
    alone = summarise(records[:1], routes[:1], B2D)
    assert alone["intervals"]["driving_score"] is None


def test_repetitions_of_a_route_are_one_cluster() -> None:
    routes = [route("1"), route("2")]
    scores = {("1", 0): 100.0, ("2", 0): 50.0, ("1", 1): 80.0, ("2", 1): 10.0}
    records = [record(i, k, score=s) for (i, k), s in scores.items()]
    found = summarise(records, routes, B2D, repetitions=2)
    assert found["driving_score"] == 60.0
    spread = found["repetitions"]
    assert spread["n"] == 2
    assert spread["driving_score"]["values"] == [75.0, 45.0]
    assert spread["driving_score"]["mean"] == 60.0
    assert spread["driving_score"]["std"] == pytest.approx(30 / np.sqrt(2))
    # Two routes with means of 30 and 90 give a wide interval; four independent ones would give a narrower one.
    low, high = found["intervals"]["driving_score"]
    assert low < 5 and high > 95
    assert found["interval_method"] == "cluster jackknife"
    missing = summarise(records[:3], routes, B2D, repetitions=2)
    assert (missing["n_missing"], missing["missing"]) == (1, [["2", 1]])
    assert missing["driving_score"] == pytest.approx(230 / 4)


def motion(lon: float, step: int = 1) -> EgoMotion:
    n = 20
    a = np.column_stack([np.full(n, lon), np.zeros(n), np.zeros(n)])
    forward, right = np.tile([1.0, 0, 0], (n, 1)), np.tile([0, 1.0, 0], (n, 1))
    return EgoMotion(a, np.zeros((n, 3)), forward, right, np.arange(n) * step)


def test_comfort_is_the_mean_over_records_with_metric_info() -> None:
    routes = [route("1"), route("2"), route("3")]
    records = [record("1"), record("2"), record("3")]
    found = summarise(records, routes, B2D, metric_info={("1", 0): motion(0.0), ("2", 0): motion(3.0)})
    assert found["comfortness"] == 50.0
    assert any("over 2 of 3 records" in note for note in found["notes"])


def test_corrected_comfort_uses_the_sampling_interval() -> None:
    ramp = motion(0.0)
    ramp.acceleration[:, 0] = np.arange(20) * 0.2 - 1.9  # per sample: 4 m/s3 at 20 Hz, 2 at 10 Hz
    fast = EgoMotion(ramp.acceleration * 1.1, *(getattr(ramp, n) for n in ("angular_velocity", "forward_vector",
                  "right_vector")), ramp.steps)  # fmt: skip
    every_other = EgoMotion(*(getattr(fast, n) for n in ("acceleration", "angular_velocity", "forward_vector",
                         "right_vector")), fast.steps * 2)  # fmt: skip
    for given, expected in ((ramp, 100.0), (fast, 0.0), (every_other, 100.0)):
        found = summarise([record()], [route()], B2D, metric_info={("1", 0): given}, comfort_mode="corrected")
        assert found["comfortness"] == expected


def test_the_rate_of_metric_info_is_the_records_own_the_given_one_or_the_profiles() -> None:
    ramp = motion(0.0)
    ramp.acceleration[:, 0] = np.arange(20) * 0.25 - 2.5  # per sample: 5 m/s3 at 20 Hz, 2.5 at 10 Hz

    def scored(one: OfficialRecord, hz: float | None) -> tuple[float, float]:
        found = summarise([one], [route()], B2D, metric_info={("1", 0): ramp}, metric_hz=hz, comfort_mode="corrected")
        return found["metric_hz"], found["comfortness"]

    assert scored(record(), None) == (20.0, 0.0)
    assert scored(record(), 10.0) == (10.0, 100.0)
    ours = replace(record(), comfort={"dt": 0.1})
    assert scored(ours, None) == scored(ours, 10.0) == (10.0, 100.0)
    with pytest.raises(Ad2Error, match="logged at 10 Hz, not 20"):
        scored(ours, 20.0)
    assert summarise([record()], [route()], B2D)["metric_hz"] is None


def test_our_records_contain_comfort_origin_and_versions() -> None:
    found = summarise([from_episode(episode())], [route()], B2D)
    assert found["comfortness"] == 50.0
    assert summarise([from_episode(episode())], [route()], B2D, comfort_mode="corrected")["comfortness"] == 75.0
    assert found["origin"]["backend"] == "embedded"
    assert found["versions"]["records"] == ["world 1, lmms-eval-ad2 0.1.0"]


def test_an_episode_that_was_not_driven_is_in_no_figure_and_named_with_its_fault() -> None:
    lost = episode("2", end="world failed", status="Failed - Simulation crashed", score_composed=0.0, score_route=0.0,
                   reason="killed", fault="world")  # fmt: skip
    old = episode("3", end="agent failed", status="Failed - Agent crashed", score_composed=0.0, score_route=0.0)
    hit = episode("4", score_composed=60.0, score_penalty=0.6, infractions={"collisions_vehicle": ["hit at (1, 2)"]})
    records = [from_episode(one) for one in (episode("1"), lost, old, hit)]
    found = summarise(records, [route(name) for name in "12345"], B2D)
    # Driven: 100 and 60; route 5 has no record and counts 0. Routes 2 and 3 count only in as_zero: 160 / 5.
    assert (found["driving_score"], found["success_rate"]) == (pytest.approx(160 / 3), pytest.approx(100 / 3))
    assert found["as_zero"] == {"driving_score": pytest.approx(32.0), "success_rate": pytest.approx(20.0)}
    assert (found["n_routes"], found["n_episodes"], found["n_missing"], found["n_faulted"]) == (3, 3, 1, 2)
    assert found["n_crashed"] == 0 and [row["n"] for row in found["types"]] == [3]
    assert [(one["route"], one["fault"], one["reason"]) for one in found["faulted"]] == [
        ("2", "world", "killed"), ("3", "driver", "")]  # fmt: skip
    assert found["notes"][0] == (
        "2 episode(s) not driven, by fault of: world 1, driver 1; in no figure (counted as 0: Driving Score 32.00, "
        "Success Rate 20.00)"
    )
    text = score_text(found, "routes.xml")
    assert "fault of the world: route 2 rep 0: killed" in text and "2 faulted" in text


def test_experimental_routes_are_scored_separately() -> None:
    bad = episode("2", score_composed=0.0, score_route=0.0, status="Failed", map={"experimental": True})
    found = summarise([from_episode(episode()), from_episode(bad)], [route("1"), route("2")], B2D)
    assert (found["driving_score"], found["n_routes"], found["n_experimental"]) == (100.0, 1, 1)
    assert found["experimental"] == {"routes": ["2"], "driving_score": 0.0, "success_rate": 0.0}
    assert [row["n"] for row in found["types"]] == [1]


def test_experimental_routes_alone_give_no_score_rather_than_0() -> None:
    bad = episode("2", score_composed=40.0, score_route=40.0, status="Failed", map={"experimental": True})
    found = summarise([from_episode(bad)], [route("2")], B2D)
    assert (found["driving_score"], found["success_rate"], found["n_routes"]) == (None, None, 0)
    assert found["intervals"]["driving_score"] is None and found["experimental"]["driving_score"] == 40.0


def test_results_of_different_runs_or_profiles_are_refused() -> None:
    routes = [route("1"), route("2")]
    ours = from_episode(episode("1"))
    with pytest.raises(Ad2Error, match="results of different runs cannot be averaged"):
        summarise([ours, record("2")], routes, B2D)
    with pytest.raises(Ad2Error, match="results of different runs cannot be averaged"):
        summarise([ours, from_episode(episode("2", agent={"name": "still"}))], routes, B2D)
    with pytest.raises(Ad2Error, match="driven under profile bench2drive"):
        summarise([ours], routes, profile("leaderboard-2.1"))


def test_the_wrong_route_file_is_refused() -> None:
    with pytest.raises(Ad2Error, match="none of the 1 records"):
        summarise([record("7")], [route("1")], B2D)
    with pytest.raises(Ad2Error, match="not the route file driven"):
        summarise([record("1", town="Town01")], [route("1")], B2D)


def test_scenarios_are_compared_by_their_names() -> None:
    cut_in = RouteScenario("ControlLoss", "my_cut_in", (0, 0, 0), {})
    own = replace(route("1", "ControlLoss"), scenario_name="my_cut_in", scenarios=(cut_in,))
    mine = replace(record("1"), scenario_name="my_cut_in", scenario="my_cut_in")
    assert not [n for n in summarise([mine], [own], B2D)["notes"] if "another town or scenario" in n]
    accident = RouteScenario("Accident", "a", (0, 0, 0), {})
    both = replace(own, scenario="", scenario_name="", scenarios=(accident, cut_in))
    found = summarise([mine], [both], B2D)
    assert (found["driving_score"], found["skill_score"], found["types"][0]["type"]) == (100.0, None, "")
    with pytest.raises(Ad2Error, match="names another town or scenario"):
        summarise([replace(mine, scenario_name="other", scenario="other")], [own], B2D)
    assert summarise([replace(mine, scenario_name="other", scenario="other")], [both], B2D)["driving_score"] == 100.0
    none = replace(own, scenario="", scenario_name="", scenarios=())
    assert summarise([replace(mine, scenario_name="other", scenario="other")], [none], B2D)["driving_score"] == 100.0


def test_inconsistent_scores_are_counted_named_and_kept() -> None:
    lists = {"collisions_vehicle": ["x"]}
    routes = [route("1")]
    own = summarise([record("1", penalty=0.6, infractions=lists)], routes, B2D)
    other = summarise([record("1", penalty=0.5, infractions=lists)], routes, B2D)
    assert (own["n_inconsistent"], own["inconsistent"], own["unchecked"]) == (0, [], {})
    assert not any("inconsistent" in note for note in own["notes"])
    assert (other["n_inconsistent"], other["driving_score"]) == (1, 50.0)
    (found,) = other["inconsistent"]
    assert (found["route"], found["field"], found["found"], found["expected"]) == ("1", "score_penalty", 0.5, 0.6)
    assert any("1 route(s) with inconsistent scores, counted as the file says: route 1:" in n for n in other["notes"])


def test_there_is_a_row_for_every_type() -> None:
    routes = [route("1"), route("2"), route("3", "Accident")]
    found = summarise([record("1"), record("3", scenario="Accident", score=40.0, status="Failed")], routes, B2D)
    assert [(t["type"], t["n"], t["n_missing"], t["driving_score"], t["success_rate"]) for t in found["types"]] == [
        ("Accident", 1, 0, 40.0, 0.0),
        ("ParkingCutIn", 2, 1, 50.0, 50.0),
    ]
    assert found["types"][0]["abilities"] == ["Overtaking"]
