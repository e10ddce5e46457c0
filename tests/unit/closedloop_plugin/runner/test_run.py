"""Runs: results over several repetitions, and deviations from the profile."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.closedloop.runs import run_into, tasks, worker_config

from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.scoring.official import from_episode


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
