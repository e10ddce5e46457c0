"""The closed-loop lmms-eval tasks: the engine of `ad2 drive run` with a model behind generate_until."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from support.closedloop import barrier
from support.running import REPO

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.scenarios.suites.lookup import suite
from lmms_eval_ad2.core.errors import Ad2Error

FAKE = "closedloop_plugin.worlds.testing.fake_world:FakeWorld"
SLOW_ANSWERS = 5


class Model:
    """The part of an lmms-eval model that the engine uses; always gives the same reply."""

    is_simple = True

    def __init__(self, answer: str) -> None:
        self.answer, self.batches, self.task_dict = answer, [], {}  # type: ignore[var-annotated]

    def generate_until(self, requests: list[Any]) -> list[str]:
        self.batches.append(len(requests))
        if (
            len(self.batches) <= SLOW_ANSWERS
        ):  # the engine waits for further questions in proportion to the time of an answer
            time.sleep(0.2)
        _, _, to_visual, doc, task, split = requests[0].args
        assert to_visual(self.task_dict[task][split][doc])[0].size == (96, 54)
        return [self.answer] * len(requests)


@pytest.fixture(scope="module")
def harness() -> Any:
    """Imported by the first test: it loads lmms-eval."""
    from closedloop_plugin.interfaces import tasks as harness

    return harness


@pytest.fixture
def task(harness: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in (("WORLD", FAKE), ("CAMERA", "front@96x54"), ("WORKERS", "2")):
        monkeypatch.setenv(f"AD2_DRIVE_{name}", value)
    config = SimpleNamespace(dataset_path="ad2drive:demo", metadata={}, task="ad2drive_test", test_split="test")
    holder = SimpleNamespace(config=config)
    harness.ConfigurableTask.download(holder)
    assert [row["id"] for row in holder.dataset["test"]] == suite("demo").ids
    return "ad2drive_test"


def requests_for(lm: Any, task: str, ids: list[str], tokens: int = 16) -> list[Any]:
    lm.task_dict[task] = {"test": [{"id": i} for i in ids]}
    gen = {"max_new_tokens": tokens, "temperature": 0}
    return [SimpleNamespace(args=("x", gen, None, None, n, task, "test")) for n in range(len(ids))]


def test_every_route_is_driven_by_the_model_and_records_keep_the_order_of_requests(
    harness: Any, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AD2_DRIVE_WORLD", "support.closedloop.barrier:BarrierWorld")
    monkeypatch.setenv(barrier.FOLDER, str(tmp_path))
    lm = Model("Go straight at a moderate speed.")
    requests = requests_for(lm, task, ["103", "101", "103"])  # the last one: padding by another rank
    lines = harness.evaluator._run_generate_until_agentic(lm, requests)
    records = [EpisodeRecord.from_json(line) for line in lines]
    assert [r.route_id for r in records] == ["103", "101", "103"]
    assert lines[0] == lines[2]
    assert records[0].counts["decisions"] + records[1].counts["decisions"] == sum(lm.batches)
    assert max(lm.batches) == 2
    assert records[1].agent["model"] == "Model"
    metrics = harness.process_results({"id": "101"}, [lines[1]])
    assert metrics["driving_score"] == records[1].score_composed
    bad = replace(records[1], map={**records[1].map, "experimental": True})
    experimental = harness.process_results({"id": "101"}, [bad.to_json()])
    assert (experimental["driving_score"], experimental["success_rate"], experimental["faulted"]) == (None, None, 0)
    faulted = harness.process_results({"id": "101"}, [replace(records[1], fault="map", reason="no lane").to_json()])
    assert (faulted["driving_score"], faulted["success_rate"], faulted["faulted"]) == (None, None, 1)
    assert (harness.mean([80.0, None, 40.0]), harness.mean([None])) == (60.0, None)
    assert harness.comfortness([metrics["comfortness"]]) is not None


def test_the_variable_for_the_history_gives_the_model_earlier_frames_and_decisions(
    harness: Any, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class LookingBack(Model):
        def generate_until(self, requests: list[Any]) -> list[str]:
            for request in requests:
                prompt, _, to_visual, doc, name, split = request.args
                counts.append((len(to_visual(self.task_dict[name][split][doc])), prompt.count("s ago, at")))
            return super().generate_until(requests)

    counts: list[tuple[int, int]] = []
    monkeypatch.setenv("AD2_DRIVE_HISTORY", "2")
    monkeypatch.setattr(harness, "TASKS", {task: {**harness.settings_of({}), "suite": "demo"}})
    lm = LookingBack("Go straight.")
    harness.evaluator._run_generate_until_agentic(lm, requests_for(lm, task, ["103"]))
    assert counts[:4] == [(1, 0), (2, 1), (3, 2), (3, 2)] and set(counts[4:]) == {(3, 2)}


def test_a_stopped_run_resumes_only_with_the_same_model_and_arguments(
    harness: Any, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AD2_DRIVE_OUT", str(tmp_path))

    def start(cli: Any) -> tuple[str, Model]:
        lm = Model("Go straight.")
        requests = requests_for(lm, task, ["103"])
        evaluate = harness._wrap_evaluate(lambda **_: harness.drive(lm, requests, task)[0])
        return evaluate(cli_args=cli), lm

    def cli(args: Any) -> SimpleNamespace:
        return SimpleNamespace(model="some_model", model_args=args)

    line, first = start(cli("pretrained=/weights/a,api_key=sk-0123456789abcdef"))
    agent = EpisodeRecord.from_json(line).agent
    assert (agent["model"], first.batches != []) == ("some_model", True)
    assert "pretrained=/weights/a" in agent["model_args"] and "0123456789" not in agent["model_args"]
    again, second = start(cli({"pretrained": "/weights/a", "api_key": "sk-0123456789abcdef"}))
    assert again == line and second.batches == []
    with pytest.raises(Ad2Error, match="model_args"):
        start(cli("pretrained=/weights/b,api_key=sk-0123456789abcdef"))
    with pytest.raises(Ad2Error, match="contains a run, possibly of another model"):
        start(None)


@pytest.mark.system  # 10 s and more
def test_the_same_model_and_seed_give_the_same_scores_through_the_harness_and_the_command(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the embedded world, with an lmms-eval model that always gives the same reply."""
    from lmms_eval.models import get_model

    from lmms_eval_ad2.cli.main import main

    args = "response=Go straight at a moderate speed."
    monkeypatch.setenv("AD2_DRIVE_CAMERA", "front@96x54")
    config = SimpleNamespace(dataset_path="ad2drive:demo", metadata={}, task="ad2drive_real", test_split="test")
    harness.ConfigurableTask.download(SimpleNamespace(config=config))
    lm = get_model("dummy").create_from_arg_string(args)
    requests = requests_for(lm, "ad2drive_real", ["101", "102"], tokens=256)  # as in the YAMLs
    cli = SimpleNamespace(model="dummy", model_args=args)
    lines = harness._wrap_evaluate(lambda **_: harness.drive(lm, requests, "ad2drive_real"))(cli_args=cli)
    from_harness = [EpisodeRecord.from_json(line) for line in lines]

    arguments = ["--suite", "demo", "--routes-ids", "101,102", "--agent", f"lmms:dummy,{args}", "--size", "96x54"]
    assert main(["drive", "run", *arguments, "--out", str(tmp_path / "run")]) == 0
    saved = (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    from_command = sorted(map(EpisodeRecord.from_json, saved), key=lambda r: r.route_id)
    for a, b in zip(from_harness, from_command, strict=True):
        assert scores(a) == scores(b)
        assert a.agent == b.agent and a.interpreter == b.interpreter
    assert any(r.score_route > 5.0 for r in from_harness)  # it has driven


def scores(record: EpisodeRecord) -> dict[str, Any]:
    """A record without measured times."""
    return {k: v for k, v in vars(record).items() if not re.search("wall|system|latency|started|second", k)}


def test_lmms_eval_lists_the_tasks_and_the_open_loop_pattern_does_not_match_them() -> None:
    from lmms_eval.tasks import TaskManager

    from lmms_eval_ad2.harness.plugin import install

    install()
    manager = TaskManager()
    drive_tasks = {"ad2drive_demo", "ad2drive_standard", "ad2drive_threat"}
    assert drive_tasks <= set(manager.all_tasks)
    found = set(manager.match_tasks(["ad2_*"]))
    assert found and not found & drive_tasks
    assert set(manager.match_tasks(["ad2drive_*"])) == drive_tasks


def test_requests_of_other_tasks_go_to_the_original_function(harness: Any, task: str) -> None:
    seen = []
    wrapped = harness._wrap_agentic(lambda lm, requests, **_: [seen.append(r) or "theirs" for r in requests])
    other = SimpleNamespace(args=("x", {}, None, None, 0, "other_task", "test"))
    assert wrapped(Model("x"), [other]) == ["theirs"]
    assert seen == [other]


def test_environment_variables_override_the_settings_of_the_yaml(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert harness.settings_of({"ad2drive": {"seed": 3}})["seed"] == 3
    monkeypatch.setenv("AD2_DRIVE_SEED", "5")
    assert harness.settings_of({"ad2drive": {"seed": 3}})["seed"] == 5
    monkeypatch.setenv("AD2_DRIVE_SEED", "many")
    with pytest.raises(Ad2Error, match="AD2_DRIVE_SEED: expected a whole number, found 'many'"):
        harness.settings_of(None)
    monkeypatch.setenv("AD2_DRIVE_SEED", "5")
    monkeypatch.setenv("AD2_DRIVE_WORKERS", "0")
    with pytest.raises(Ad2Error, match="AD2_DRIVE_WORKERS 0: 1 or more"):
        harness.settings_of(None)
    monkeypatch.delenv("AD2_DRIVE_WORKERS")
    monkeypatch.setenv("AD2_DRIVE_HISTORY", "two")
    with pytest.raises(Ad2Error, match="AD2_DRIVE_HISTORY: expected a whole number, found 'two'"):
        harness.settings_of(None)
    monkeypatch.delenv("AD2_DRIVE_HISTORY")
    monkeypatch.setenv("AD2_DRIVE_STOP_AFTER_UNREAD", "-1")
    with pytest.raises(Ad2Error, match="AD2_DRIVE_STOP_AFTER_UNREAD -1: 0 or more"):
        harness.settings_of(None)
    monkeypatch.setenv("AD2_DRIVE_STOP_AFTER_UNREAD", "0")
    assert harness.settings_of(None)["stop_after_unread"] == 0
    with pytest.raises(Ad2Error, match="unknown sead"):
        harness.settings_of({"ad2drive": {"sead": 3}})


def test_yaml_names_do_not_match_the_open_loop_pattern(harness: Any) -> None:
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", lambda loader, node: str(node.value))
    for file in sorted((REPO / "tasks/ad2drive").glob("ad2drive_*.yaml")):
        data = yaml.load(file.read_text(), Loader)
        assert data["task"] == file.stem
        assert not file.stem.startswith("ad2_")
        assert data["dataset_path"].startswith(harness.PREFIX)
        assert set(data["metadata"]["ad2drive"]) <= set(harness.DEFAULTS)
    base = yaml.load((REPO / "tasks/ad2drive/_base.yaml").read_text(), Loader)
    named = [v for v in base.values() if str(v).startswith("closedloop")]
    named += [m["aggregation"] for m in base["metric_list"]]
    assert all(callable(getattr(harness, n.rpartition(".")[2])) for n in named)


def test_a_route_without_a_map_is_refused_before_the_drive_or_left_out(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def route(id_: str, *x: float) -> str:
        points = "".join(f'<position x="{value}" y="0" z="0"/>' for value in x)
        return f'<route id="{id_}" town="Town99"><waypoints>{points}</waypoints></route>'

    file = tmp_path / "mine.xml"
    unread = '<route id="3" town="Town99"/>'
    file.write_text(f"<routes>{route('1', 0, 90)}{route('2', 0, 20, 1, 21, 2)}{unread}</routes>")
    monkeypatch.setenv("AD2_BENCH2DRIVE_ROUTES", str(file))

    def documents() -> SimpleNamespace:
        config = SimpleNamespace(dataset_path="ad2drive:embedded220", metadata={}, task="own", test_split="test")
        holder = SimpleNamespace(config=config)
        harness.ConfigurableTask.download(holder)
        return holder

    assert [row["id"] for row in documents().dataset["test"]] == ["1", "2"]
    lm = Model("Go straight.")
    with pytest.raises(Ad2Error, match=r"route 2 has no map: .*\(under lmms-eval AD2_DRIVE_SKIP_UNMAPPED=1\)"):
        harness.drive(lm, requests_for(lm, "own", ["1", "2"]), "own")
    assert lm.batches == []
    monkeypatch.setenv("AD2_DRIVE_SKIP_UNMAPPED", "1")
    capsys.readouterr()
    found = documents()
    assert [row["id"] for row in found.dataset["test"]] == ["1"]
    assert sorted(found.config.metadata["left_out"]) == ["2", "3"]
    assert "left out, 2 of 3 routes: 3 (" in capsys.readouterr().err
    monkeypatch.setenv("AD2_DRIVE_SKIP_UNMAPPED", "yes")
    with pytest.raises(Ad2Error, match="AD2_DRIVE_SKIP_UNMAPPED: expected a whole number, found 'yes'"):
        documents()
