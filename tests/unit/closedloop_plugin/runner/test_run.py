"""A run: conditions of its episodes, and its progress bar."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.closedloop.runs import IDENTITY, SUITE, run_into, tasks, worker_config

from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.run import EpisodeProgress
from closedloop_plugin.runner.store import EpisodeStore
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


def open_store(folder: Path) -> EpisodeStore:
    return EpisodeStore(folder, IDENTITY, {"routes": SUITE.ids, "repetitions": 1})


def test_a_log_gets_a_line_once_a_minute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten decisions a second: the first line after 15 s, then every minute."""
    now = [100.0]
    with open_store(tmp_path) as store, EpisodeProgress(store, total=6, done=1, clock=lambda: now[0]) as progress:
        progress.started("101_rep0")
        for second in range(1, 140):
            now[0] = 100.0 + second
            progress.beat("101_rep0", second / 2, 10 * second)
        progress.started("102_rep1")
    lines = [line for line in capsys.readouterr().err.replace("\r", "\n").splitlines() if "decisions/s, " in line]
    notes = [line for line in lines if line.startswith("1 of 6 episodes; ")]
    assert notes == [f"1 of 6 episodes; 10.0 decisions/s, 101 at {seconds} s" for seconds in (8, 38, 68)]


def test_the_rate_counts_all_episodes_of_the_last_half_minute(tmp_path: Path) -> None:
    now = [0.0]
    with open_store(tmp_path) as store, EpisodeProgress(store, 6, 0, True, lambda: now[0]) as progress:
        for key in ("101_rep0", "102_rep1"):
            progress.started(key)
        assert progress.life() == "101 at 0 s, 102_rep1 at 0 s"
        for now[0] in (10.0, 20.0):
            progress.beat("101_rep0", now[0], int(now[0]))
        progress.ended("101_rep0")
        progress.started("103_rep0")
        now[0] = 30.0
        progress.beat("102_rep1", 6.0, 10)
        assert progress.life() == "1.0 decisions/s, 102_rep1 at 6 s, 103 at 0 s"  # 20 + 10 in 30 s
        progress.started("102_rep1")  # its world was lost
        for n in (4, 5):
            progress.started(f"10{n}_rep0")
        now[0] = 45.0
        progress.beat("104_rep0", 9.0, 30)
        assert progress.life() == "1.6 decisions/s, 4 running, at 0 to 9 s"  # 60 - 20 in 25 s


def test_a_terminal_shows_it_in_the_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    now = [0.0]
    with open_store(tmp_path) as store, EpisodeProgress(store, 6, 0, clock=lambda: now[0]) as progress:
        progress.started("101_rep0")
        now[0] = 2.0
        progress.beat("101_rep0", 12.0, 7)
    written = capsys.readouterr()
    assert "3.5 decisions/s, 101 at 12 s" in written.err
    assert "\n0 of 6 episodes" not in written.err and written.out == ""


@pytest.mark.integration
def test_running_episodes_report_time_and_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beats: list[tuple[str, float, int]] = []
    monkeypatch.setattr(EpisodeProgress, "beat", lambda self, *beat: beats.append(beat))
    slow = FactoryRecipe("support.closedloop.doubles:Faulty", {"how": "", "step_s": 0.02})
    (record,) = run_into(tmp_path, tasks()[:1], worker_config(slow), limits=PoolLimits(workers=1))
    assert beats
    for key, time_s, decisions in beats:
        assert key == "101_rep0" and 0 < time_s < record.game_s
        assert decisions == round(time_s * 20)  # bench2drive decides in every tick
