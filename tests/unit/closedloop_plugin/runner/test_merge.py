"""Merging the shards of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.closedloop.run_folders import record, run_folder
from support.closedloop.runs import comparable, run_into, tasks, worker_config

from closedloop_plugin.core.state import EndReason
from closedloop_plugin.runner.merge import merge
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import shard
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.identity import read_run, write_run


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
    with pytest.raises(Ad2Error, match="3 episodes are missing: route 102 repetition 0, "):
        merge(tmp_path / "part", [tmp_path / "s1"])
    assert not (tmp_path / "part").exists()
    part = merge(tmp_path / "part", [tmp_path / "s1"], partial=True)
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
def test_shards_of_several_commits_are_merged_and_all_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from support.closedloop import runs

    for i, commit in ((1, "1" * 40), (2, "2" * 40)):
        monkeypatch.setattr(runs, "IDENTITY", {"suite": "demo", "commit": commit})
        run_into(tmp_path / str(i), shard(tasks(), f"{i}/2"), worker_config())
    assert merge(tmp_path / "all", [tmp_path / "1", tmp_path / "2"]).missing == []
    assert read_run(tmp_path / "all")["identity"]["commit"] == f"{'1' * 40}, {'2' * 40}"
    assert "of several commits: " in capsys.readouterr().err


@pytest.mark.integration
def test_a_later_merge_takes_the_latest_episode(tmp_path: Path) -> None:
    failing = worker_config(FactoryRecipe("support.closedloop.doubles:Faulty", {"how": "raise"}))
    run_into(tmp_path / "a", tasks()[:1], failing, limits=PoolLimits(retries=0))
    assert merge(tmp_path / "all", [tmp_path / "a"], partial=True).records[0].end == EndReason.WORLD_FAILED
    run_into(tmp_path / "a", tasks()[:1], worker_config(), retry_failed=True)
    assert merge(tmp_path / "all", [tmp_path / "a"], partial=True).records[0].end == EndReason.COMPLETED


@pytest.mark.parametrize("repetitions", [0, 1001, 10**12, "1", None])
def test_an_absurd_number_of_repetitions_is_refused_at_once(tmp_path: Path, repetitions: object) -> None:
    write_run(tmp_path / "a", {"suite": "demo"}, {"routes": ["1"], "repetitions": repetitions})
    with pytest.raises(Ad2Error, match=r"run\.json.*selection\.repetitions.*from 1 to 1000"):
        merge(tmp_path / "all", [tmp_path / "a"], partial=True)


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_driven_episode_replaces_one_that_was_not_driven_by_any_fault(tmp_path: Path, order: tuple[str, str]) -> None:
    driven = record("101", 80.0)
    faulted = replace(driven, end="invalid episode", status="Failed", fault="map", reason="no lane", score_composed=0.0)
    run_folder(tmp_path / "a", [faulted])
    run_folder(tmp_path / "b", [driven])
    assert merge(tmp_path / "all", [tmp_path / name for name in order]).records == [driven]
    assert [replace(faulted, fault=fault).retryable for fault in ("map", "driver", "program")] == [True, True, False]
    assert not driven.retryable
