"""A drive by a model that was trained on its routes: refusal, run.json, printed lines, reports."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.closedloop.run_folders import DEMO, record, run_folder

from closedloop_plugin.learn.contamination import trained_route
from closedloop_plugin.report.comparison import compare
from closedloop_plugin.report.drive_section import report
from closedloop_plugin.report.results import read_results
from closedloop_plugin.runner.merge import merge
from closedloop_plugin.runner.options import drive_options
from closedloop_plugin.runner.routes import suite_subject
from closedloop_plugin.runner.training_data import NOT_NAMED, selected, training_note, training_of
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.identity import read_run
from lmms_eval_ad2.storage.training_card import TrainedRoute, TrainingSet, write_card

FAKE_WORLD = "closedloop_plugin.worlds.testing.fake_world:FakeWorld"
AGENT = """
from closedloop_plugin.core.state import Control, Decision

class Policy:
    name, privileged, local, cameras = "mine", False, False, ()
    def __init__(self, checkpoint, **settings): self.checkpoint = checkpoint
    def start(self, episode, seed): ...
    def end(self, episode): ...
    def describe(self): return {"name": self.name}
    def decide(self, requests): return [Decision(control=Control(0.0, 0.5, 0.0)) for _ in requests]
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder that names route 101 of the demo as another route, and the id 104."""
    (tmp_path / "model").mkdir()
    copy = trained_route(next(r for r in DEMO.routes if r.id == "101"))
    named = TrainedRoute(**{**vars(copy), "id": "m0-000007"}), TrainedRoute("104")
    write_card(tmp_path / "model", [TrainingSet("made", routes=named)], model="tiny")
    return tmp_path / "model"


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "trained_policy.py").write_text(AGENT, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "trained_policy:Policy"
    sys.modules.pop("trained_policy", None)


def test_all_routes_of_the_suite_are_compared_whatever_is_asked(model: Path, tmp_path: Path) -> None:
    options = drive_options({
        "suite": "demo", "out": tmp_path / "o", "agent": f"lmms:x,pretrained={model}", "routes_ids": "102",
        "strict_contamination": True, "world": "embedded",
    })  # fmt: skip
    subject = suite_subject(options, "demo")
    found = training_of(options, subject)
    assert found is not None and {leak.route: leak.kind for leak in found.leaks} == {
        "101": "same_geometry", "104": "same_id",
    }  # fmt: skip
    selection = selected({"asked": ["102"]}, options, found)
    assert training_note(selection, ["102"]) == ""
    assert training_note(selection, DEMO.ids) == "trained on 2 of these 6 routes (same_geometry 1, same_id 1)"


@pytest.mark.parametrize(
    ("agent", "training"), [("expert", None), ("speaking-expert", None), ("endpoint:m@http://x/v1", dict(NOT_NAMED))]
)
def test_a_model_without_a_card_is_only_noted(agent: str, training: object, tmp_path: Path) -> None:
    options = drive_options({"suite": "demo", "out": tmp_path / "o", "agent": agent, "world": "embedded"})
    subject = suite_subject(options, "demo")
    assert training_of(options, subject) is None
    assert selected({"asked": []}, options, None).get("training") == training


@pytest.mark.parametrize("content", [None, [], {"named": True}, {"routes": []}, {"routes": {"101": 3}}])
def test_a_strange_run_json_is_no_error(content: object) -> None:
    assert training_note({"training": content}, ["101"]) in (
        "", "trained on 1 of these 1 routes (unknown 1)",
    )  # fmt: skip


def trained(folder: Path) -> Path:
    run = run_folder(folder, [record("101", 100.0), record("102", 50.0)])
    value = json.loads((run / "run.json").read_text())
    value["selection"]["training"] = {"named": True, "routes": {"101": {"kind": "same_id"}, "104": {"kind": "same_id"}}}
    (run / "run.json").write_text(json.dumps(value))
    return run


def test_reports_and_comparisons_mark_the_run(tmp_path: Path) -> None:
    marked, clean = trained(tmp_path / "marked"), run_folder(tmp_path / "clean", [record("101", 100.0)])
    assert read_results(marked, None, "m").training == "trained on 1 of these 2 routes (same_id 1)"
    section = report([marked, clean], routes=None, published=False)
    assert section.warnings[0] == "marked: trained on 1 of these 2 routes (same_id 1)"
    assert section.tables[0].rows[0][0] == "marked (trained on 1 of these 2 routes)"
    assert section.tables[0].rows[1][0] == "clean"
    assert section.data["runs"][0]["training"] and not section.data["runs"][1]["training"]
    compared = compare(marked, clean, force=True, routes=None, published=False)
    assert "marked: trained on 1 of these 2 routes (same_id 1)" in compared.render()


def test_the_mark_survives_a_merge(tmp_path: Path) -> None:
    marked, other = trained(tmp_path / "a"), run_folder(tmp_path / "b", [record("103", 10.0)], ["101", "102", "103"])
    merge(tmp_path / "o", [marked, other], partial=True)
    selection = read_run(tmp_path / "o")["selection"]
    assert training_note(selection, ["101", "103"]) == "trained on 1 of these 2 routes (same_id 1)"


@pytest.mark.integration
def test_a_drive_is_marked_or_refused(
    model: Path, policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["drive", "run", "--suite", "demo", "--world", FAKE_WORLD, "--agent", f"{policy},checkpoint={model}"]
    out = tmp_path / "o"
    assert main([*words, "--out", str(out), "--limit", "2", "--config", "strict_contamination=true"]) == 2
    err = capsys.readouterr().err
    expected = "trained on 1 of these 2 routes (same_geometry 1), e.g. same_geometry: 101 is in made as m0-000007"
    assert f"--config strict_contamination=true: {expected}" in err
    assert err.count("\n") == 1 and not out.exists()
    assert main([*words, "--out", str(out), "--limit", "2"]) == 0
    printed = capsys.readouterr()
    line = f"{policy},checkpoint={model}: trained on 1 of these 2 routes (same_geometry 1)"
    assert line in printed.out and f"ad2: {line}" in printed.err
    run = read_run(out)
    assert run["selection"]["training"]["routes"]["101"]["trained"] == "m0-000007"
    assert "training" not in run["identity"]
    assert main(["drive", "score", str(out), "--routes", "demo"]) == 0
    assert "trained on 1 of these 2 routes" in " ".join(capsys.readouterr().out.split())


def test_a_malformed_card_ends_the_command_before_the_drive(model: Path, tmp_path: Path) -> None:
    (model / "ad2_training.json").write_text("{}")
    options = drive_options({"suite": "demo", "out": tmp_path / "o", "agent": f"lmms:x,pretrained={model}"})
    subject = suite_subject(options, "demo")
    with pytest.raises(Ad2Error, match="expected ad2-training/1"):
        training_of(options, subject)
