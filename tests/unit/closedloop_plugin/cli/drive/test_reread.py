"""`ad2 drive reread`: what another interpreter makes of the kept words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.closedloop.models import FakeModel, observation
from support.closedloop.run_folders import record

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Control, Decision, InterpretedControl
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents.cached_model import CachedModel
from closedloop_plugin.driver.agents.model_backend import ModelQuestion, ModelReply
from closedloop_plugin.driver.interpreters.rules import RuleInterpreter
from closedloop_plugin.runner.decision_files import DecisionFiles, DecisionLog
from closedloop_plugin.runner.decisions import DecisionResponse, TimedDecision
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.storage.identity import write_run
from lmms_eval_ad2.testing.fake_endpoint import serve

PROFILE = profile("bench2advlm")
IDENTITY = {"suite": "demo", "profile": "bench2advlm", "policy": "official", "interpreter": {"name": "rules"}}


def make_run(folder: Path, key: str, replies: Sequence[DecisionResponse | str]) -> Path:
    """A run folder with the decisions of one more episode; a text is read by the rules."""
    rules = RuleInterpreter(PROFILE)
    files = DecisionFiles(folder)
    log = DecisionLog(PROFILE.hz, lambda block: files.add(key, block))
    files.begin(key)
    for tick, reply in enumerate(replies):
        seen = observation(tick=tick)
        if isinstance(reply, str):
            decision = Decision({"action": reply})
            reply = DecisionResponse(decision, rules.interpret([(DecisionRequest(key, seen), decision)])[0])
        log(TimedDecision(reply, Control(), interpreted=True, requested=tick, arrived=tick, observation=seen))
    log.flush()
    files.keep(key)
    write_run(folder, IDENTITY, {})
    route, _, repetition = key.rpartition("_rep")
    with (folder / "episodes.jsonl").open("a") as lines:
        lines.write(record(route, 100.0, int(repetition)).to_json() + "\n")
    return folder


def figures(capsys: pytest.CaptureFixture[str], run: Path, *words: str) -> dict[str, Any]:
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    assert main(["drive", "reread", str(run), "--json", *words]) == 0
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before  # nothing is written
    return json.loads(capsys.readouterr().out)


def test_the_same_rules_agree_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "101_rep0", ["Stop.", "hm", "Change lane to the left.", "Keep the speed."])
    make_run(tmp_path, "102_rep0", ["Accelerate."])
    make_run(tmp_path, "102_rep1", ["Accelerate."])
    found = figures(capsys, tmp_path, "--interpreter", "rules")
    assert found["total"] == {
        "decisions": 6, "both": 5, "only_before": 0, "only_now": 0, "neither": 1, "agreement": 1.0,
        "mean_difference": {"steer": 0.0, "throttle": 0.0, "brake": 0.0}, "not_read_again": {},
    }  # fmt: skip
    assert [counts["decisions"] for counts in found["routes"].values()] == [4, 2]
    assert found["largest"] == found["only_before"] == found["only_now"] == []


def test_other_readings_are_counted_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Replies that a model had read as numbers, read by rules: 3.0 m/s is below the profile's 5 m/s limit."""

    def by_model(text: str, control: Control | None, error: str | None = None) -> DecisionResponse:
        read = InterpretedControl(control, "{}", None if control else "no_json", "cng")
        return DecisionResponse(Decision({"action": text}, error=error), read)

    stop = Control(brake=0.6)
    run = make_run(tmp_path, "101_rep0", [
        by_model("Stop.", stop), by_model("Stop.", Control(throttle=0.5)), by_model("Stop.", Control(throttle=0.9)),
        by_model("hm", stop), by_model("Stop.", None), by_model("hm", None),
        by_model("x" * 20_000, stop), by_model("", None, "timeout"), DecisionResponse(Decision(control=stop)),
    ])  # fmt: skip
    found = figures(capsys, run, "--interpreter", "rules")
    total = found["total"]
    assert [total[name] for name in ("decisions", "both", "only_before", "only_now", "neither")] == [6, 3, 1, 1, 1]
    assert total["agreement"] == pytest.approx(1 / 3)
    assert total["mean_difference"]["brake"] == pytest.approx(0.4)
    assert total["not_read_again"] == {
        "a text was too long to be kept": 1, "the agent had failed": 1, "no words": 1,
    }  # fmt: skip
    (largest,) = found["largest"]  # of equal words the largest only
    assert (largest["tick"], largest["difference"]) == (2, pytest.approx(0.75))  # of 0.9 throttle and 0.6 brake
    assert [(e["tick"], e["reason_now"]) for e in found["only_before"]] == [(3, "no_action")]
    assert [(e["tick"], e["reason_before"]) for e in found["only_now"]] == [(4, "no_json")]
    assert main(["drive", "reread", str(run), "--interpreter", "rules"]) == 0
    text = capsys.readouterr().out
    assert "now:    throttle 0.00  steer 0.00  brake 0.60" in text and "not read again: 1 (no words)" in text


@pytest.mark.integration
def test_a_model_reads_the_words_once_and_sees_only_saved_frames(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", "101_rep0", ["Stop."] * 12)
    frames = run / "frames/101_rep0"
    frames.mkdir(parents=True)
    for tick in (0, 5, 10):
        Image.fromarray(np.full((9, 16, 3), tick, np.uint8)).save(frames / f"front_{tick:05d}.jpg")
    words = ("--config", f"cache={tmp_path / 'cache.sqlite'}", "--mode", "cng")
    with serve(reply='{"throttle": 0, "steer": 0, "brake": 0.6}') as server:
        spec = f"endpoint:m@{server.url}"
        for _ in range(2):
            seen = figures(capsys, run, "--interpreter", spec, *words)["total"]
            assert (seen["decisions"], seen["agreement"], seen["not_read_again"]) == (3, 1.0, {"no saved frame": 9})
        assert server.requests == 3
        alone = figures(capsys, run, "--interpreter", spec, *words, "--config", "describer=none")["total"]
        assert (alone["decisions"], alone["agreement"]) == (12, 1.0)
        assert server.requests == 4  # equal questions are asked once


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--interpreter", "rulez"], "no interpreter 'rulez'"),
        (["--interpreter", "rules", "--mode", "cng"], "--mode cng requires a model"),
        (["--interpreter", "rules", "--config", "describer=none"], "--config describer requires a model"),
        (["--interpreter", "rules", "--mode", "hybrid"], "require each other"),
    ],
)
def test_mistakes_end_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    assert main(["drive", "reread", str(make_run(tmp_path, "101_rep0", ["Stop."])), *words]) == 2
    assert why in capsys.readouterr().err


def test_a_run_without_words_or_files_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    silent = make_run(tmp_path / "a", "101_rep0", [DecisionResponse(Decision(control=Control()))])
    assert main(["drive", "reread", str(silent), "--interpreter", "rules"]) == 2
    assert "no decision can be read again (no words in 1)" in capsys.readouterr().err
    write_run(tmp_path, IDENTITY, {})
    for run, why in ((tmp_path, "no decisions in"), (tmp_path / "no", "no run.json")):
        assert main(["drive", "reread", str(run), "--interpreter", "rules"]) == 2
        assert why in capsys.readouterr().err


def test_a_file_without_its_episode_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A process that was killed between the two has left it; the same command drives the episode again."""
    run = make_run(tmp_path, "101_rep0", ["Stop."])
    (run / "decisions/102_rep0.jsonl.gz").write_bytes((run / "decisions/101_rep0.jsonl.gz").read_bytes())
    total = figures(capsys, run, "--interpreter", "rules")["total"]
    assert (total["decisions"], total["not_read_again"]) == (1, {})


def test_decisions_of_an_episode_without_a_file_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path, "101_rep0", ["Stop."])
    with (run / "episodes.jsonl").open("a") as lines:
        lines.write(record("102", 100.0, counts={"decisions": 7}).to_json() + "\n")
    total = figures(capsys, run, "--interpreter", "rules")["total"]
    assert (total["decisions"], total["not_read_again"]) == (1, {"of episodes without a decision file": 7})


def test_replies_of_a_model_here_are_cached_by_their_question(tmp_path: Path) -> None:
    def question(key: str, text: str = "a", shade: int = 0) -> ModelQuestion:
        return ModelQuestion(key, text, (np.full((2, 2, 3), shade, np.uint8),))

    failing = {"broken"}
    model = FakeModel(lambda q: ModelReply(error="gone") if q.text in failing else ModelReply(q.text, tokens_in=5))
    first = CachedModel(model, tmp_path / "c.sqlite").ask([question("0|e|1"), question("1|e|1", "broken")])
    assert [r.error for r in first] == [None, "gone"]
    asked = [question("0|e|2"), question("1|e|1", shade=1), question("2|e|3", "broken"), question("3|e|4")]
    again = CachedModel(model, tmp_path / "c.sqlite").ask(asked)
    assert [q.key for q in model.calls[1]] == ["1|e|1", "2|e|3"]  # another image; what had failed
    assert [(r.text, r.tokens_in) for r in again] == [("a", 5), ("a", 5), ("", None), ("a", 5)]
