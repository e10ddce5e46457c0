"""A wrapper that catches the exceptions of its model and returns an empty text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from lmms_eval_ad2.harness.caught_errors import CaughtErrors
from lmms_eval_ad2.parsing import failure_reason


@dataclass
class Result:
    text: str


class Model:
    def generate(self, request: str) -> str:
        if request == "large":
            raise RuntimeError("CUDA out of\nmemory")
        return "" if request == "silent" else f"answer to {request}"

    def chat(self, request: str) -> str:
        return self.generate(request)


class Wrapper:
    """As llava_hf: one by one, an exception is an empty text."""

    def __init__(self, method: str = "generate") -> None:
        self.model, self.method = Model(), method

    def generate_until(self, requests: list[str]) -> list[Any]:
        return [self._one(request) for request in requests]

    def _one(self, request: str) -> Result:
        try:
            return Result(getattr(self.model, self.method)(request))
        except Exception:
            return Result("")


@pytest.mark.parametrize("method", ["generate", "chat"])
def test_a_caught_exception_is_a_failure(method: str) -> None:
    lm = Wrapper(method)
    caught = CaughtErrors(lm, lm.generate_until)
    with caught.active():
        failed, answered = (caught.generate([request])[0].text for request in ("large", "small"))
        (silent,) = caught.generate(["silent"])
    assert failed == "[GENERATION_FAILED] RuntimeError: CUDA out of memory"
    assert failure_reason(failed) == "generation_failed"
    assert answered == "answer to small"
    assert silent.text == "", "an empty answer of the model is its answer"
    assert vars(lm.model) == {}, "the model is restored"


def test_of_several_requests_the_answered_ones_are_kept() -> None:
    lm = Wrapper()
    caught = CaughtErrors(lm, lm.generate_until)
    with caught.active():
        assert [r.text for r in caught.generate(["a", "large"])] == [
            "answer to a", "[GENERATION_FAILED] RuntimeError: CUDA out of memory",
        ]  # fmt: skip


class ChatWrapper:
    """As _chat_base.py of lmms-eval: what is raised before the model is caught too."""

    def __init__(self) -> None:
        self.model = Model()

    def _infer_one(self, request: str) -> str:
        if request == "large picture":
            raise ValueError("too large for the processor")
        return self.model.generate(request)

    def generate_until(self, requests: list[str]) -> list[str]:
        texts = []
        for request in requests:
            try:
                texts.append(self._infer_one(request))
            except Exception:
                texts.append("")
        return texts


def test_a_step_of_the_wrapper_that_is_caught_is_a_failure() -> None:
    lm = ChatWrapper()
    caught = CaughtErrors(lm, lm.generate_until)
    with caught.active():
        assert caught.generate(["large picture"]) == ["[GENERATION_FAILED] ValueError: too large for the processor"]
        assert caught.generate(["large"]) == ["[GENERATION_FAILED] RuntimeError: CUDA out of memory"]
        assert caught.generate(["small"]) == ["answer to small"]
    assert set(vars(lm)) == {"model"}
    assert vars(lm.model) == {}


@dataclass(frozen=True)
class FrozenModel:
    def generate(self, request: str) -> str:
        return request


def test_a_model_that_accepts_no_attributes_is_not_observed() -> None:
    lm = Wrapper()
    lm.model = FrozenModel()  # type: ignore[assignment]
    caught = CaughtErrors(lm, lm.generate_until)
    with caught.active():
        assert [r.text for r in caught.generate(["a"])] == ["a"]


@pytest.mark.parametrize("model", [None, "a name", Model, object()])
def test_a_wrapper_without_such_a_model_is_left_alone(model: Any) -> None:
    lm = Wrapper()
    lm.model = model
    caught = CaughtErrors(lm, lambda requests: ["x"] * len(requests))
    with caught.active():
        assert caught.generate([1, 2]) == ["x", "x"]


def test_exceptions_that_the_wrapper_does_not_catch_are_raised() -> None:
    lm = Wrapper()
    caught = CaughtErrors(lm, lambda requests: [lm.model.generate(r) for r in requests])
    with pytest.raises(RuntimeError, match="out of"), caught.active():
        caught.generate(["large"])
    assert vars(lm.model) == {}
