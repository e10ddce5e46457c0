"""Exceptions of a local model that its wrapper catches, so that they are not scored as an empty answer.

Many wrappers of lmms-eval (llava_hf, llava, the omni models) catch whatever `model.generate` raises, for example that
the memory of the GPU is full, write a line to the log, and return an empty text. While `active()`, the methods of the
model below the wrapper are observed, and an empty text of a call in which one of them raised becomes a failure text
with the error (parsing/reasons.py): unscored, and asked again when the run is resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lmms_eval_ad2.harness.failed_replies import marked_answer

_METHODS = ("generate", "chat")  # of the model of almost all wrappers, as `self.model`
_DETAIL = 300  # characters of an error


class CaughtErrors:
    """Observes the model of one wrapper `lm`, and replaces empty answers of its method `generate_until`.

    For wrappers that process one call at a time, as those of local models do.
    """

    def __init__(self, lm: Any, generate_until: Callable[[list[Any]], list[Any]]) -> None:
        self._lm, self._generate_until = lm, generate_until
        self._error = ""

    @contextmanager
    def active(self) -> Iterator[None]:
        """Within the block, exceptions of the model are seen."""
        model = _model_of(self._lm)
        wrapped = [name for name in _METHODS if callable(getattr(model, name, None)) and name not in vars(model)]
        for name in wrapped:
            setattr(model, name, self._observed(getattr(model, name)))
        try:
            yield
        finally:
            for name in wrapped:
                delattr(model, name)

    def generate(self, requests: list[Any]) -> list[Any]:
        """The answers, with the error in the place of empty ones if the model raised one."""
        self._error = ""
        answers = self._generate_until(requests)
        if not self._error:
            return answers
        return [marked_answer(answer, f"[GENERATION_FAILED] {self._error}") for answer in answers]

    def _observed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except Exception as exc:
                self._error = f"{type(exc).__name__}: {' '.join(str(exc).split())[:_DETAIL]}"
                raise

        return call


def _model_of(lm: Any) -> Any:
    """The model below the wrapper; None if it has none with attributes of its own."""
    try:
        model = lm.model
    except Exception:  # a property of the lmms base class that this wrapper does not support
        return None
    return model if hasattr(model, "__dict__") and not isinstance(model, type) else None
