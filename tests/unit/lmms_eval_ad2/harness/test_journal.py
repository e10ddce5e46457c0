"""The journal with a fake model: batches, order, tasks, padding, keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from support.builders import record

from lmms_eval_ad2.harness import batched_generation, task_data
from lmms_eval_ad2.harness.journal import AnswerJournal, attach, read_lines
from lmms_eval_ad2.scoring.variant import TaskVariant

pytestmark = pytest.mark.integration


class Model:
    """Answers with the text of the question; records the tasks of every call."""

    is_simple = True
    rank = 0

    def __init__(self, batch_size: int = 4) -> None:
        self.batch_size = batch_size
        self.calls: list[list[str]] = []

    def generate_until(self, requests: list[Any]) -> list[str]:
        self.calls.append([r.args[4] for r in requests])
        return [f"{r.args[4]}:{r.args[0]}" for r in requests]


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "a.jpg").write_bytes(b"one")
    for name in ("ta", "tb"):
        rows = pa.chunked_array([[record(f"{name}{i}").to_json() for i in range(6)]])
        info = task_data.LoadedTask(name, TaskVariant("ad2_bench", "perception_base"), tmp_path, {}, rows)
        monkeypatch.setitem(task_data.TASKS, name, info)
    yield tmp_path


def request(task: str, row: int, **metadata: Any) -> Any:
    return SimpleNamespace(args=(f"q{row}", {"max_new_tokens": 8}, None, row, task, "test"), metadata=metadata)


def test_each_call_has_one_task_and_answers_keep_their_order(tasks: Path) -> None:
    """With several tasks in one call, many wrappers of lmms-eval take images from the first one's task."""
    model = Model()
    requests = [request(t, i) for i in range(6) for t in ("ta", "tb")]
    with attach(model, None):
        answers = model.generate_until(requests)
    assert answers == [f"{t}:q{i}" for i in range(6) for t in ("ta", "tb")]
    assert [set(c) for c in model.calls] == [{"ta"}, {"ta"}, {"tb"}, {"tb"}]
    assert max(map(len, model.calls)) == 4


def test_requests_of_other_tasks_are_one_call(tasks: Path) -> None:
    model = Model(1)
    with attach(model, None):
        answers = model.generate_until([request("host", 0), request("ta", 0), request("host", 1)])
    assert answers == ["host:q0", "ta:q0", "host:q1"]
    assert model.calls == [["host", "host"], ["ta"]]


def test_journalled_answers_are_not_requested_again(tasks: Path) -> None:
    requests = [request("ta", i) for i in range(6)]
    for expected in (6, 0):
        model = Model(2)
        with attach(model, AnswerJournal(tasks / "j", 0)):
            assert model.generate_until(requests) == [f"ta:q{i}" for i in range(6)]
        assert sum(map(len, model.calls)) == expected


def test_repeated_requests_have_separate_answers(tasks: Path) -> None:
    model = Model()
    with attach(model, AnswerJournal(tasks / "j", 0)):
        model.generate_until([request("ta", 0)] * 3)
    assert len(set(read_lines(tasks / "j" / "rank0.jsonl"))) == 3


def test_padding_requests_are_answered_but_not_stored(tasks: Path) -> None:
    model = Model()
    with attach(model, AnswerJournal(tasks / "j", 0)):
        assert len(model.generate_until([request("ta", 0), request("ta", 0, __padding_only__=True)])) == 2
    assert len(list(read_lines(tasks / "j" / "rank0.jsonl"))) == 1


@pytest.mark.parametrize("change", ["prompt", "settings", "image", "variant", "record", "round"])
def test_every_input_is_in_the_key(change: str, tasks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, original = Model(), request("ta", 0)
    with attach(model, AnswerJournal(tasks / "j", 0)):
        model.generate_until([original])
    info = task_data.TASKS["ta"]
    args = list(original.args)
    if change == "prompt":
        args[0] = "another"
    elif change == "settings":
        args[1] = {"max_new_tokens": 9}
    elif change == "image":
        (tasks / "a.jpg").write_bytes(b"two")
    elif change == "variant":
        monkeypatch.setitem(task_data.TASKS, "ta", replace(info, variant=replace(info.variant, mark="none")))
    elif change == "record":
        rows = pa.chunked_array([[record("ta0", subtask="counting").to_json()]])
        monkeypatch.setitem(task_data.TASKS, "ta", replace(info, records=rows))
    metadata = {"ad2_step": 1} if change == "round" else {}
    changed = SimpleNamespace(args=tuple(args), metadata=metadata)
    second = Model()
    with attach(second, AnswerJournal(tasks / "j", 0)):
        second.generate_until([changed])
    assert len(second.calls) == 1, f"{change} is not part of the key"


@pytest.mark.parametrize("answers_in_frame", [False, True])
def test_another_frame_with_the_same_prompt_asks_again_only_models_that_answer_in_it(
    answers_in_frame: bool, tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = task_data.TASKS["ta"]
    for frame, calls in (("auto", 1), ("pixel", int(answers_in_frame)), ("model_input:max_pixels=9", answers_in_frame)):
        variant = info.variant.with_frame(frame, "test")
        monkeypatch.setitem(task_data.TASKS, "ta", replace(info, variant=variant))
        model = Model()
        model.answers_in_frame = answers_in_frame  # type: ignore[attr-defined]
        with attach(model, AnswerJournal(tasks / "j", 0)):
            model.generate_until([request("ta", 0)])
        assert len(model.calls) == calls, frame


def test_answers_before_a_failure_are_stored(tasks: Path) -> None:
    class Failing(Model):
        def generate_until(self, requests: list[Any]) -> list[str]:
            if len(self.calls) == 2:
                raise RuntimeError("out of memory")
            return super().generate_until(requests)

    model = Failing(2)
    with pytest.raises(RuntimeError, match="out of memory"), attach(model, AnswerJournal(tasks / "j", 0)):
        model.generate_until([request("ta", i) for i in range(6)])
    assert len(list(read_lines(tasks / "j" / "rank0.jsonl"))) == 4


@pytest.mark.parametrize("answer", [None, SimpleNamespace(text=None, token_counts=None)])
def test_missing_text_is_a_failure(answer: Any, tasks: Path) -> None:
    from lmms_eval_ad2.parsing import failure_reason

    model = Model()
    model.generate_until = lambda requests: [answer for _ in requests]  # type: ignore[method-assign]
    with attach(model, AnswerJournal(tasks / "j", 0)):
        (reply,) = model.generate_until([request("ta", 0)])
    assert failure_reason(reply) == "generation_failed"
    assert (tasks / "j" / "rank0.jsonl").read_text() == ""


def test_lone_surrogate_is_replaced_before_storage(tasks: Path) -> None:
    model = Model()
    model.generate_until = lambda requests: ["ok \ud83d" for _ in requests]  # type: ignore[method-assign]
    for _ in range(2):
        with attach(model, AnswerJournal(tasks / "j", 0)):
            assert model.generate_until([request("ta", 0)]) == ["ok ?"]


def test_generate_until_of_the_model_is_restored(tasks: Path) -> None:
    model = Model()
    original = model.generate_until = lambda requests: []  # type: ignore[method-assign]
    with attach(model, None):
        assert model.generate_until is not original
    assert model.generate_until is original


def test_images_are_encoded_as_jpeg_for_our_requests_only(tasks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    name = "LMMS_IMAGE_ENCODE_FORMAT"
    monkeypatch.delenv(name, raising=False)
    seen: dict[str, str | None] = {}

    class FormatRecorder(Model):
        def generate_until(self, requests: list[Any]) -> list[str]:
            seen[requests[0].args[4]] = os.environ.get(name)
            return super().generate_until(requests)

    with attach(model := FormatRecorder(), None):
        model.generate_until([request("host", 0), request("ta", 0)])
    assert seen == {"host": None, "ta": "JPEG"}
    assert name not in os.environ


def test_async_endpoint_is_called_once_and_answers_are_stored_on_arrival(tasks: Path) -> None:
    """Its client belongs to one event loop: a call for each answer would break it."""
    import asyncio

    journal = AnswerJournal(tasks / "j", 0)

    class Async(Model):
        __module__ = "lmms_eval.models.chat.async_openai"

        @property
        def batch_size(self) -> int:
            raise AttributeError("batch_size_per_gpu")

        @batch_size.setter
        def batch_size(self, _: int) -> None:
            return

        async def maybe_forward_with_tool(self, instance: Any, position: int) -> tuple[str, int, None]:
            if position == 20:
                raise RuntimeError("the endpoint went away")
            return f"a{instance.args[3]}", position, None

        def generate_until(self, requests: list[Any]) -> list[str]:
            self.calls.append([r.args[4] for r in requests])

            async def run() -> list[str]:
                return [(await self.maybe_forward_with_tool(r, i))[0] for i, r in enumerate(requests)]

            return asyncio.run(run())

    model = Async()
    with attach(model, journal):
        assert model.generate_until([request("ta", i) for i in range(6)]) == [f"a{i}" for i in range(6)]
    assert len(model.calls) == 1
    with pytest.raises(RuntimeError), attach(second := Async(), AnswerJournal(tasks / "k", 0)):
        second.generate_until([request("ta", i % 6) for i in range(24)])
    assert len(list(read_lines(tasks / "k" / "rank0.jsonl"))) == 20, "all that had arrived"


def test_a_broken_image_affects_its_own_sample_only(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lmms_eval_ad2.core.errors import DataError
    from lmms_eval_ad2.parsing import failure_reason

    class UnreadableImage(Model):
        def generate_until(self, requests: list[Any]) -> list[str]:
            if any(r.args[3] == 2 for r in requests):
                raise DataError("b.jpg", None, "image", "a whole image")
            return super().generate_until(requests)

    with attach(model := UnreadableImage(), AnswerJournal(tasks / "j", 0)):
        replies = model.generate_until([request("ta", i) for i in range(6)])
    assert [failure_reason(t) for t in replies] == [None, None, "media_failed", None, None, None]
    assert "b.jpg" in capsys.readouterr().err
    assert len(list(read_lines(tasks / "j" / "rank0.jsonl"))) == 5


def test_the_line_of_metrics_of_each_answer_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    from lmms_eval.models.model_utils import gen_metrics
    from loguru import logger

    lines: list[str] = []
    sink = logger.add(lines.append, format="{message}")

    def call() -> None:
        gen_metrics.log_metrics(total_elapsed_time=1.0, total_gen_tokens=2, avg_speed=2.0)
        logger.warning("shown")

    try:
        with batched_generation._quiet_metrics():
            call()
        assert lines == ["shown\n"]
        call()
        assert len(lines) == 3, "afterwards as before"
    finally:
        logger.remove(sink)
