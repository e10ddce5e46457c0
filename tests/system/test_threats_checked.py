"""What is evaluated is what was checked: generated threats, driven by the expert and by the target, in the embedded
world."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.threats.transcript import ThreatTranscript
from lmms_eval_ad2.cli.main import main

pytest.importorskip("scenic")


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]


def test_the_expert_succeeds_on_every_scenario_of_a_generated_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its records are those of the check, whatever the seed of the run."""
    monkeypatch.setenv("TQDM_DISABLE", "1")
    threats = tmp_path / "threats"
    made = ["--suite", "demo", "--routes-ids", "102,104", "--agent", "steer-only", "--fuser", "rules"]
    assert (
        main(["threats", "generate", *made, "--config", "others=1", "--config", "share=0", "--out", str(threats)]) == 0
    )
    run = ["drive", "run", "--suite", str(threats), "--seed", "9", "--out"]
    assert main([*run, str(tmp_path / "expert"), "--agent", "expert"]) == 0
    assert "played: the draw that the check saw survived, in 2 of 2 scenarios" in capsys.readouterr().out
    verdicts = json.loads((threats / "check.json").read_text())
    checked = {(r["route_id"], r["repetition"]): r for r in lines(threats / "check")}
    for record in lines(tmp_path / "expert"):
        verdict = verdicts[record["route_id"]]
        own = checked[record["route_id"], verdict["tries"] - 1]
        apart = {"suite", "repetition", "system_s", "world"}
        assert {k: v for k, v in record.items() if k not in apart} == {k: v for k, v in own.items() if k not in apart}
        assert (record["status"], record["world"]["standard"]) in {("Completed", "kept"), ("Perfect", "kept")}
        assert record["seed"] == verdict["draw_seed"] and record["drawn"] == verdict["drawn"]
        assert {name for _, name in record["events"]} >= {"act", "base trigger"}
    results = json.loads((tmp_path / "expert" / "results.json").read_text())
    assert results["success rate"] == 1.0
    the_target_drove_what_was_checked(threats, verdicts)


def the_target_drove_what_was_checked(threats: Path, verdicts: dict[str, Any]) -> None:
    """The rounds: the target's records have the draws that the check accepted; the round of its failure is recorded."""
    failed = json.loads((threats / "suite.json").read_text())["failed_in_round"]
    assert set(failed) == {"102", "104"} and all(failed.values()), "steer-only survives no threat of the demo"
    for route, number in failed.items():
        kept = ThreatTranscript.read(threats / "transcripts" / f"{route}.json")
        assert kept.last is kept.failed_attempt and kept.last is not None and kept.last.round == number
        assert kept.last.outcome is not None and kept.last.outcome.failed
        (record,) = [r for r in lines(threats / "target" / f"round{number}") if r["route_id"] == route]
        assert record["seed"] == verdicts[route]["draw_seed"] and record["drawn"] == verdicts[route]["drawn"]
        assert kept.interview.drive is not None and any(m.speed > 1.0 for m in kept.interview.moments)


def test_the_expert_survives_scenarios_of_the_shipped_suite(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name of the suite; drawn as its check saw them survived."""
    monkeypatch.setenv("TQDM_DISABLE", "1")
    monkeypatch.setenv("AD2_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AD2_BENCH2DRIVE_ROUTES", str(data_dir / "bench2drive" / "bench2drive220.xml"))
    shipped = suite("threats220_late")
    some = shipped.ids[::71]
    run = ["drive", "run", "--suite", "threats220_late", "--routes-ids", ",".join(some), "--agent", "expert"]
    assert main([*run, "--out", str(tmp_path / "run")]) == 0
    records = {r["route_id"]: r for r in lines(tmp_path / "run")}
    assert records.keys() == {*some} and {r["suite"] for r in records.values()} == {"threats220_late"}
    for route, record in records.items():
        assert record["status"] in ("Completed", "Perfect") and not any(
            texts for kind, texts in record["infractions"].items() if kind != "min_speed_infractions"
        )
        assert record["seed"] == shipped.draws[route].seed and record["drawn"] == shipped.draws[route].drawn
