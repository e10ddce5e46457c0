"""Suites, shards and merging."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from support.closedloop.runs import SUITE, comparable, run_into, tasks, worker_config

from closedloop_plugin.cli.drive.selection import towns_of
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.runner.merge import merge
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import EpisodeTask, episode_seed, shard
from closedloop_plugin.scoring.official import from_episode
from closedloop_plugin.suites.lookup import DEMO, VARIABLE, add_routes, data_home, suite
from closedloop_plugin.worlds.base import EpisodeSetup
from lmms_eval_ad2.data.home import home
from lmms_eval_ad2.errors import Ad2Error


def test_the_demo_routes_are_short_smooth_and_triggered_on_the_way() -> None:
    routes = suite("demo").routes
    assert len(routes) == len({r.scenario for r in routes}) == 6
    for route in routes:
        path = RoutePath(route.points)
        s, d = path.locate(*route.trigger[:2])
        assert 60 <= route.length <= 90
        assert abs(path.curvature).max() < 0.2  # no bend under 5 m radius
        assert 3 < s < 20
        assert abs(d) < 0.5
        assert abs(math.remainder(route.trigger[2] - path.pose(s)[2], math.tau)) < 0.05
    assert {round(math.degrees(RoutePath(r.points).bend(0, r.length))) for r in routes} >= {0, 90, -90}


def test_the_error_for_a_missing_benchmark_file_names_source_and_command() -> None:
    with pytest.raises(Ad2Error, match=r"Thinklab-SJTU/Bench2Drive.*220.xml.*ad2 drive routes add") as caught:
        suite("embedded220")
    assert "\n" not in str(caught.value)


def test_the_benchmark_is_found_in_the_home_or_by_the_variable(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = data_dir / "bench2drive/bench2drive220.xml"
    monkeypatch.setenv(VARIABLE, str(file))
    assert len(suite("embedded220").routes) == 220
    monkeypatch.delenv(VARIABLE)
    assert add_routes(file) == data_home() / "routes/bench2drive220.xml"
    assert suite("embedded220").sha256 == suite("bench2drive220", "carla").sha256
    assert suite("embedded220").name == "embedded220"


def test_a_suite_is_refused_under_the_name_of_another_world(data_dir: Path) -> None:
    file = data_dir / "bench2drive/bench2drive220.xml"
    add_routes(file)
    with pytest.raises(Ad2Error, match="in the embedded world use --suite embedded220"):
        suite("bench2drive220")
    with pytest.raises(Ad2Error, match="rename it, or use --suite embedded220"):
        suite(str(file))
    with pytest.raises(Ad2Error, match="use --suite bench2drive220"):
        suite("embedded220", "carla")


def test_a_file_is_a_suite_named_by_its_stem(tmp_path: Path) -> None:
    file = tmp_path / "mine.xml"
    file.write_bytes(DEMO.read_bytes())
    assert (suite(str(file)).name, suite(str(file)).ids) == ("mine", suite("demo").ids)
    add_routes(file, "yours")
    assert suite("yours").name == "yours"
    with pytest.raises(Ad2Error, match=r"no such suite, route file or folder of programs; suites: .*yours"):
        suite("no-such")
    with pytest.raises(Ad2Error, match="built-in"):
        add_routes(file, "demo")
    with pytest.raises(Ad2Error, match="letters"):
        add_routes(file, "../up")


def test_the_data_home_is_that_of_lmms_eval_ad2() -> None:
    assert data_home() == home()


def test_an_id_that_would_leave_the_folder_is_refused() -> None:
    with pytest.raises(Ad2Error, match="letters, digits"):
        EpisodeTask("x", "../../etc", 0, EpisodeSetup(None, 0))


def test_seeds_depend_on_the_episode_alone() -> None:
    assert episode_seed(1, "101", 0) == episode_seed(1, "101", 0)
    seeds = [episode_seed(s, r, k) for s in (0, 1) for r in ("1", "11") for k in (0, 1, 11)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= s < 2**31 for s in seeds)


@pytest.mark.parametrize("which", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_an_invalid_shard_is_an_error(which: str) -> None:
    with pytest.raises(Ad2Error, match=f"--shard {which}"):
        shard(tasks(), which)


def test_shards_are_disjoint_and_complete() -> None:
    todo = tasks(3)
    parts = [shard(todo, f"{i}/4") for i in (1, 2, 3, 4)]
    assert sorted(t.key for part in parts for t in part) == sorted(t.key for t in todo)
    assert {len(part) for part in parts} == {4, 5}


@pytest.mark.integration
def test_merged_shards_equal_the_complete_run(tmp_path: Path) -> None:
    todo = tasks(1)
    for i in (1, 2):
        run_into(tmp_path / f"s{i}", shard(todo, f"{i}/2"), worker_config())
    complete = run_into(tmp_path / "whole", todo, worker_config())
    found = merge(tmp_path / "all", [tmp_path / "s1", tmp_path / "s2", tmp_path / "s2"])
    assert comparable(found.records) == comparable(complete)
    assert (found.duplicates, found.missing) == (3, [])
    for kind in ("metric_info", "tracks"):
        names = [sorted(f.name for f in (tmp_path / run / kind).glob("*")) for run in ("all", "whole")]
        assert names[0] == names[1]
    part = merge(tmp_path / "part", [tmp_path / "s1"])
    assert part.missing == [("102", 0), ("104", 0), ("106", 0)]
    again = merge(tmp_path / "part", [tmp_path / "s2"])  # a merged folder can grow
    assert again.missing == []


@pytest.mark.integration
def test_runs_of_different_arguments_cannot_be_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from support.closedloop import runs

    run_into(tmp_path / "a", tasks()[:1], worker_config())
    monkeypatch.setattr(runs, "IDENTITY", {"suite": "demo", "seed": 2})
    run_into(tmp_path / "b", tasks()[:1], worker_config())
    with pytest.raises(Ad2Error, match=r"not one run: seed is 1 in .*a and 2 in .*b"):
        merge(tmp_path / "all", [tmp_path / "a", tmp_path / "b"])
    with pytest.raises(Ad2Error, match="not a folder written by"):
        merge(tmp_path / "all", [tmp_path])


@pytest.mark.integration
def test_a_later_merge_takes_the_latest_episode(tmp_path: Path) -> None:
    failing = worker_config(FactoryRecipe("support.closedloop.doubles:Faulty", {"how": "raise"}))
    run_into(tmp_path / "a", tasks()[:1], failing, limits=PoolLimits(retries=0))
    assert merge(tmp_path / "all", [tmp_path / "a"]).records[0].end == EndReason.WORLD_FAILED
    run_into(tmp_path / "a", tasks()[:1], worker_config(), retry_failed=True)
    assert merge(tmp_path / "all", [tmp_path / "a"]).records[0].end == EndReason.COMPLETED


@pytest.mark.integration
def test_fewer_repetitions_than_in_the_folder_do_not_raise_the_official_mean(tmp_path: Path) -> None:
    for k in (2, 1):
        run_into(tmp_path / "run", tasks(repetitions=k), worker_config())
    official = json.loads((tmp_path / "run" / "results.json").read_text("utf-8"))
    assert official["eval num"] == 12 and official["driving score"] <= 100


@pytest.mark.integration
def test_deviations_from_the_profile_are_in_the_records(tmp_path: Path) -> None:
    rules = DecisionRules(policy="strict", decision_hz=5.0)
    todo = [replace(t, setup=replace(t.setup, traffic=False)) for t in tasks()[:1]]
    (record,) = run_into(tmp_path / "run", todo, worker_config(rules=rules))
    assert record.world["changed"] == "unread replies end the episode, no background traffic"
    assert record.world["decision_hz"] == 5.0
    assert from_episode(record).origin["changed"] == record.world["changed"]
    (plain,) = run_into(tmp_path / "plain", tasks()[:1], worker_config(rules=DecisionRules(decision_hz=20.0)))
    assert not {"changed", "decision_hz"} & set(plain.world) and "changed" not in from_episode(plain).origin


def test_the_towns_of_a_run_are_those_of_its_suite_not_of_the_selected_routes(tmp_path: Path) -> None:
    routes = [replace(SUITE.routes[0], town=town) for town in ("TownA", "TownB", "TownC")]
    for town in "AB":
        (tmp_path / f"Town{town}.xodr").touch()
    both = [list(towns_of(tmp_path, routes, selected)) for selected in (routes[:1], routes)]
    assert both == [["TownA", "TownB"]] * 2
    with pytest.raises(Ad2Error, match=r"expected TownC\.xodr"):
        towns_of(tmp_path, routes, routes[2:])
