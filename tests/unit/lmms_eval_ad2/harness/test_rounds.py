"""Rounds in lock step, with a fake model."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from support.builders import chain

from lmms_eval_ad2.harness import hooks, judging, rounds, task_data
from lmms_eval_ad2.harness.rounds import wrap_agentic
from lmms_eval_ad2.scoring.variant import TaskVariant

pytestmark = pytest.mark.integration


class Model:
    is_simple = True

    def __init__(self) -> None:
        self.sizes: list[int] = []
        rows = [{"record": r.to_json(), "ad2_task": "tr", "ad2_row": i} for i, r in enumerate(RECORDS)]
        self.task_dict = {"tr": {"test": rows}}

    def generate_until(self, requests: list[Any]) -> list[str]:
        self.sizes.append(len(requests))
        return [f"step {r.metadata['ad2_step']} of {r.args[3]}" for r in requests]


RECORDS = [chain("c0", steps=2), chain("c1", steps=20)]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    rows = pa.chunked_array([[r.to_json() for r in RECORDS]])
    variant = TaskVariant("ad2_bench", "cot", rounds=True)
    monkeypatch.setitem(task_data.TASKS, "tr", task_data.LoadedTask("tr", variant, tmp_path, {}, rows))
    instances = []
    for i in range(2):
        args = ("first", {"max_agentic_steps": 16}, None, hooks.round_to_text, i, "tr", "test")
        instances.append(
            SimpleNamespace(args=args, metadata={"task": "tr", "doc_id": i, "repeats": 1, "split": "test"})
        )
    return instances


def fail_if_called(*_: Any, **__: Any) -> list[str]:
    raise AssertionError("the host's loop was called")


def test_documents_advance_in_lock_step_beyond_the_step_limit(requests: list[Any]) -> None:
    """More steps than the limit of lmms-eval: no reply is lost."""
    model = Model()
    replies = [hooks.read_rounds(t) for t in wrap_agentic(fail_if_called)(model, requests)]
    assert replies == [[f"step {k} of {i}" for k in range(n)] for i, n in ((0, 2), (1, 20))]
    assert model.sizes == [2, 2] + [1] * 18


def test_later_rounds_repeat_the_answers_without_their_thoughts(requests: list[Any]) -> None:
    doc = Model().task_dict["tr"]["test"][1]
    replies = ["<think>Is it dark?</think>Fog.", "A bus."]
    _, prompt, done, kept, _ = hooks.round_to_text(doc, previous_output=replies, round_idx=2)
    assert "Fog." in prompt and "A bus." in prompt and "dark" not in prompt and "think" not in prompt
    assert (done, kept) == (False, replies)  # as given, to be stored


def test_every_round_shows_the_image_with_the_mark_of_its_step(requests: list[Any], tmp_path: Path) -> None:
    """Also if the model uses the image function of the first request for a whole batch."""
    from dataclasses import replace

    from PIL import Image

    from lmms_eval_ad2.core.records import VisualPrompt

    Image.new("RGB", (100, 50)).save(tmp_path / "a.png")
    first = replace(RECORDS[0], images=("a.png",))
    dot = replace(first.steps[1], mark=VisualPrompt("point", ((50.0, 25.0),)))
    marked = replace(first, id="c2", steps=(first.steps[0], dot))
    model, shown = Model(), []
    model.task_dict["tr"]["test"] = [
        {"record": r.to_json(), "ad2_task": "tr", "ad2_row": i} for i, r in enumerate((first, marked))
    ]

    def generate(instances: list[Any]) -> list[str]:
        visual = instances[0].args[2]
        shown.append([visual(doc)[0].getpixel((50, 25)) for doc in model.task_dict["tr"]["test"]])
        return ["x"] * len(instances)

    model.generate_until = generate  # type: ignore[method-assign]
    wrap_agentic(fail_if_called)(model, requests)
    black, red = (0, 0, 0), (255, 0, 0)
    assert shown == [[black, black], [black, red]]


def test_a_chat_model_is_shown_the_image_in_each_round(requests: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """AD2-Bench Fig. 4: later steps show the image again."""
    shown: list[Any] = []

    class ChatModel(Model):
        is_simple = False

        def generate_until(self, requests: list[Any]) -> list[str]:
            for r in requests:
                _, messages, *_, doc_id, task, split = r.args
                (turn,) = messages(self.task_dict[task][split][doc_id])
                shown.append((doc_id, [part["url"] for part in turn["content"] if part["type"] == "image"]))
            return ["answer"] * len(requests)

    monkeypatch.setattr(rounds, "visuals_of_round", lambda doc, step: [f"image {doc['ad2_row']}, step {step}"])
    wrap_agentic(fail_if_called)(ChatModel(), requests)
    assert sorted(shown) == sorted((i, [f"image {i}, step {k}"]) for i, n in ((0, 2), (1, 20)) for k in range(n))


def test_requests_of_other_tasks_use_the_original_loop(requests: list[Any]) -> None:
    other = SimpleNamespace(args=("x", {}, None, None, 0, "host", "test"), metadata={})
    answers = wrap_agentic(lambda lm, instances, **_: ["host"] * len(instances))(Model(), [other, *requests, other])
    assert answers[0] == answers[3] == "host"
    assert len(hooks.read_rounds(answers[1])) == 2


def test_tags_of_one_round_do_not_affect_other_rounds() -> None:
    import re

    packed = hooks.pack_rounds(["<think>", "x</think> two", "three"])
    stripped = re.sub(r"<think>.*?</think>", "", packed, flags=re.S)
    assert hooks.read_rounds(stripped) == ["<think>", "x</think> two", "three"]


def test_a_failed_request_is_returned_unchanged() -> None:
    assert hooks.read_rounds("[LMMS_EVAL_REQUEST_FAILED] x") == "[LMMS_EVAL_REQUEST_FAILED] x"


def test_group_with_an_unscored_part_has_no_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = {"official": 80.0, "strict": 80.0, "ci": [70.0, 90.0]}
    tables = {
        "a": {"score": cell, "columns": {}, "judge": None},
        "b": {"score": {**cell, "official": None, "ci": None}, "columns": {}, "judge": "lexical"},
    }
    monkeypatch.setattr(judging.run, "_current", SimpleNamespace(tables=tables))
    monkeypatch.setattr(judging, "_group_members", lambda _: {"g": ["a", "b"], "h": ["a"]})
    rows = {
        "a": {"score,none": 80.0},
        "b": {},
        "g": {"score,none": 80.0, "score_stderr,none": 1},
        "h": {"score,none": 80.0},
    }
    tasks, groups = judging.wrap_print(lambda *_: (dict(rows), {"g": {"score,none": 80.0}}))({}, {})
    assert tasks["g"] == {"score,none": "not scored: b"}
    assert groups["g"]["score,none"] == "not scored: b"
    assert tasks["h"]["score,none"] == 80.0
    assert tasks["a"]["score 95% CI,none"] == "70.00 to 90.00"
