"""Agents of other packages: the example of docs/agents.md, and agents that do not fit."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from support.running import REPO

from closedloop_plugin.driver.agents.make import make_agent
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core import plugins
from lmms_eval_ad2.core.errors import Ad2Error

FAKE_WORLD = "closedloop_plugin.worlds.testing.fake_world:FakeWorld"
EXAMPLE = re.search(r"```python\n(.*?)```", (REPO / "docs/agents.md").read_text("utf-8"), re.DOTALL)


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example as policy.py on the path."""
    assert EXAMPLE
    file = tmp_path / "policy.py"
    file.write_text(EXAMPLE[1], "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield file
    sys.modules.pop("policy", None)


def test_the_example_has_at_most_thirty_lines() -> None:
    assert EXAMPLE and len(EXAMPLE[1].splitlines()) <= 30


def test_the_example_drives_a_route(policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["drive", "run", "--suite", "demo", "--routes-ids", "101", "--agent", "policy:Policy,checkpoint="]
    assert main([*words, "--size", "160x90", "--config", "decision_hz=1", "--out", str(out)]) == 0
    (record,) = [json.loads(line) for line in (out / "episodes.jsonl").read_text("utf-8").splitlines()]
    assert record["end"] != "agent failed" and record["ticks"] > 20, record
    assert record["agent"]["name"] == "my policy" and record["agent"]["checkpoint"] == ""
    assert record["interpreter"] is None and "agent_errors" not in record["counts"], record["counts"]


WITH_HISTORY = """
from closedloop_plugin.core.state import Control, Decision

class Agent:
    name, privileged, local = "looks back", False, {local}
    def __init__(self, cameras): self.cameras = cameras
    def start(self, episode, seed): ...
    def end(self, episode): ...
    def decide(self, requests): return [self.drive(request) for request in requests]
    def describe(self): return {{"name": self.name}}

    def drive(self, request):
        now, past = request.observation, request.history
        assert len(past) == min(now.tick // 20, 2), past  # a decision per second at 20 Hz
        for i, earlier in enumerate(reversed(past), 1):
            seen = earlier.observation
            assert seen.tick == now.tick - 20 * i and seen.images("front").shape == (36, 64, 3)
            assert (seen.images("front")[0, :, 0] == 0).sum() == seen.tick % 64 + 1  # FakeWorld draws the tick
            assert earlier.control == earlier.decision.control == Control(0.0, 0.3 + seen.tick / 10000)
        return Decision(control=Control(0.0, 0.3 + now.tick / 10000))

def make(cameras, profile, seed): return Agent(cameras)
"""


@pytest.mark.parametrize("local", [True, False])
def test_an_agent_gets_its_last_decisions_with_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    (tmp_path / "looking_back.py").write_text(WITH_HISTORY.format(local=local), "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "looking_back", raising=False)
    words = ["drive", "run", "--suite", "demo", "--limit", "1", "--agent", "looking_back:make", "--config", "history=2"]
    more = ["--world", FAKE_WORLD, "--size", "64x36", "--config", "decision_hz=1"]
    more += ["--profile", "bench2drive", "--out", str(tmp_path / "run")]
    assert main([*words, *more]) == 0
    (record,) = [json.loads(line) for line in (tmp_path / "run/episodes.jsonl").read_text("utf-8").splitlines()]
    assert "agent_errors" not in record["counts"] and record["counts"]["decisions"] > 3, record
    assert record["agent"] == {"name": "looks back", "history": 2}


SPEAKS = """
from closedloop_plugin.core.state import Decision

class Agent:
    name, privileged, local, cameras = "speaks", False, {local}, ()
    def start(self, episode, seed): ...
    def end(self, episode): ...
    def decide(self, requests): return [Decision({{"{task}": "Go straight."}})] * len(requests)
    def describe(self): return {{"name": self.name}}

def make(cameras, profile, seed): return Agent()
"""


@pytest.mark.parametrize("local", [True, False])
def test_an_agent_that_speaks_has_the_ceiling_of_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], local: bool
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))

    def drive(task: str, *more: str) -> int:
        monkeypatch.delitem(sys.modules, "speaking", raising=False)
        (tmp_path / "speaking.py").write_text(SPEAKS.format(local=local, task=task), "utf-8")
        words = [
            "drive",
            "run",
            "--suite",
            "demo",
            "--limit",
            "1",
            "--agent",
            "speaking:make",
            "--interpreter",
            "rules",
        ]
        return main([*words, "--world", FAKE_WORLD, "--config", "decision_hz=1", *more])

    assert drive("action", "--out", str(tmp_path / "spoken")) == 0
    (record,) = [json.loads(line) for line in (tmp_path / "spoken/episodes.jsonl").read_text("utf-8").splitlines()]
    assert record["agent"] == {"name": "speaks", "tasks": ["action"]} and record["end"] != "agent failed", record
    assert "ceiling of action through rules" in capsys.readouterr().out
    assert drive("trajectory", "--out", str(tmp_path / "other")) == 3  # nothing of it can be used
    said = "the agent answers trajectory, and its tasks are action: give --config tasks=trajectory"
    assert said in capsys.readouterr().err
    named = ["--config", "tasks=trajectory", "--config", "stop_after_unread=0", "--out", str(tmp_path / "named")]
    assert drive("trajectory", *named) == 0
    assert "ceiling of trajectory through rules" in capsys.readouterr().out


def test_an_entry_point_gives_an_agent_a_name(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = metadata.EntryPoint("my-policy", "policy:Policy", plugins.AGENTS)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [entry] if group == plugins.AGENTS else [])
    agent = make_agent("my-policy", cameras="front@160x90")
    assert agent.name == "my policy" and agent.cameras[0].width == 160
    with pytest.raises(Ad2Error, match="did you mean 'my-policy'"):
        make_agent("my-polcy")


FAULTY = """
class Agent:
    name, privileged, local, cameras = "a", False, True, ()
    def start(self, episode, seed): ...
    def end(self, episode): ...
    def decide(self, requests): return []
    def describe(self): return {}

def no_seed(cameras, profile): return Agent()
def returns_text(**settings): return "agent"
def no_cameras(**settings):
    agent = Agent()
    agent.cameras = ("front",)
    return agent
def without_weights(**settings): raise RuntimeError("no weights")
NUMBER = 3
"""


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("faulty:no_seed", "it is called with cameras, profile, seed, but"),
        ("faulty:no_seed,x=1", "it is called with cameras, profile, seed, x, but"),
        ("faulty:no_seed,x", "expected name=value after the comma, found 'x'"),
        ("faulty:returns_text", "the str lacks name (str), privileged (bool), local (bool), cameras (tuple), start()"),
        ("faulty:no_cameras", "the Agent lacks cameras (tuple of Camera): see docs/agents.md"),
        ("faulty:missing", "cannot be imported (module 'faulty' has no attribute 'missing')"),
        ("no_such_module:make", "cannot be imported (No module named 'no_such_module'); a file agent.py"),
        ("faulty:NUMBER", "faulty:NUMBER is no callable"),
        (
            "faulty:without_weights",
            "without_weights: a fault of the driver: RuntimeError: no weights (in faulty.py, line",
        ),
        ("misspelt:make", "'misspelt' cannot be imported (SyntaxError: "),
        ("faulty", "no agent 'faulty'"),
    ],
)
def test_an_agent_that_does_not_fit_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, message: str
) -> None:
    (tmp_path / "faulty.py").write_text(FAULTY, "utf-8")
    (tmp_path / "misspelt.py").write_text("def make(:", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "faulty", raising=False)
    with pytest.raises(Ad2Error, match=re.escape(message)):
        make_agent(spec)
