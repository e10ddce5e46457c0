"""Exceptions of a local model that its wrapper catches, so that they are not scored as an empty answer.

Many wrappers of lmms-eval (llava_hf, internvl_hf, the omni models) catch whatever `model.generate` raises, for example
that the memory of the GPU is full, write a line to the log, and return an empty text. While `active()`, these methods
are observed, and an empty text of a call in which one of them raised becomes a failure text with the error
(parsing/reasons.py): unscored, and asked again when the run is resumed. Not seen: wrappers that return a sentence of
their own after an exception (oryx, llava_onevision_moviechat).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from lmms_eval_ad2.harness.failed_replies import marked_answer

# As seen from the wrapper: of the model of almost all, of the language model of some, and of the chat wrappers that
# catch what is raised before the model, too.
_METHODS = ("model.generate", "model.chat", "model.llm.generate", "_infer_one")
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
        with ExitStack() as observed:
            for path in _METHODS:
                owner, method = _method(self._lm, path)
                name = path.rpartition(".")[2]
                if method is None or name in vars(owner):
                    continue
                with suppress(Exception):  # of an object that accepts no attributes: it is not observed
                    setattr(owner, name, self._observed(method))
                    observed.callback(delattr, owner, name)
            yield

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


def _method(lm: Any, path: str) -> tuple[Any, Callable[..., Any] | None]:
    """(object, its method) at a path below the wrapper; (lm, None) if there is none."""
    owner, method = None, lm
    for name in path.split("."):
        try:
            owner, method = method, getattr(method, name)
        except Exception:  # also of a property of the lmms base class that this wrapper does not support
            return lm, None
    usable = callable(method) and hasattr(owner, "__dict__") and not isinstance(owner, type)
    return owner, method if usable else None
