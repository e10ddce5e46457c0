"""A Python function as an lmms-eval model, for models that the caller has already loaded (docs/training-loop.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lmms_eval_ad2.harness.models.engine_model import EngineModel
from lmms_eval_ad2.harness.models.generation import GenerationSettings, ModelPrompt, failure

AnswerFunction = Callable[[Sequence[ModelPrompt], GenerationSettings], Sequence[str]]


class FunctionModel(EngineModel):
    """Answers by a function: a batch of prompts and the task's generation settings -> one text per prompt.

    `batch_size`: the most prompts per call.
    """

    def __init__(self, answer: AnswerFunction, name: str, batch_size: int = 1) -> None:
        super().__init__()
        self.name = name
        self._engine = FunctionEngine(answer, name, batch_size)


class FunctionEngine:
    """The InferenceEngine of a function.

    An exception, or anything but one text per prompt, is the failure of each prompt of the batch: these samples are
    Unscored, and the evaluation goes on.
    """

    def __init__(self, answer: AnswerFunction, name: str, batch_size: int) -> None:
        self._answer, self._name, self.batch_size = answer, name, batch_size

    def generate(self, prompts: Sequence[ModelPrompt], sampling: GenerationSettings) -> list[str]:
        """See InferenceEngine.generate."""
        try:
            texts = list(self._answer(prompts, sampling))
        except Exception as exc:  # whatever a function of the caller raises
            return [failure(f"{type(exc).__name__}: {exc}", self._name)] * len(prompts)
        if len(texts) != len(prompts) or not all(isinstance(text, str) for text in texts):
            reason = f"the function returned {len(texts)} values for {len(prompts)} prompts, or one that is not a text"
            return [failure(reason, self._name)] * len(prompts)
        return texts
