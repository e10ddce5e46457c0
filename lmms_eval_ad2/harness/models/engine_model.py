"""Base classes of our lmms-eval models: models that only generate text, and those of them that have an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lmms_eval.api.model import lmms
from tqdm import tqdm

from lmms_eval_ad2.core.errors import Ad2Error

# Prompts and generation settings, shared by the engines of our models.

DEFAULT_NEW_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class ModelPrompt:
    """One question: its text, and the PIL images that precede it."""

    text: str
    images: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """Generation settings. `temperature` 0 is greedy; the answer ends before any string in `stop`."""

    max_new_tokens: int = DEFAULT_NEW_TOKENS
    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None
    num_beams: int = 1
    stop: tuple[str, ...] = ()
    seed: int | None = None


class InferenceEngine(Protocol):
    """A loaded model, a server or a function. Returns one text per prompt; a failure is a text of `failure`."""

    batch_size: int

    def generate(self, prompts: Sequence[ModelPrompt], sampling: GenerationSettings) -> list[str]: ...


def failure(reason: object, model: str) -> str:
    """The text that replaces the answer of a failed request of `model`.

    By lmms-eval's convention; parsing.failure_reason recognises it: the sample is Unscored and requested again.
    """
    return f"[LMMS_EVAL_REQUEST_FAILED in {model}] {' '.join(str(reason).split())[:300]}"


def sampling_of(settings: Mapping[str, Any], fixed: Mapping[str, Any]) -> GenerationSettings:
    """Return the task's generation settings; `fixed`: those of --model_args, which take precedence.

    Other settings of lmms-eval are ignored (do_sample follows from the temperature).
    """
    given = {**settings, **{name: value for name, value in fixed.items() if value is not None}}
    until = given.get("until") or ()
    stop = (until,) if isinstance(until, str) else tuple(until)
    try:
        return GenerationSettings(
            max_new_tokens=int(given.get("max_new_tokens") or DEFAULT_NEW_TOKENS),
            temperature=float(given.get("temperature") or 0.0),
            top_p=None if given.get("top_p") is None else float(given["top_p"]),
            top_k=None if given.get("top_k") is None else int(given["top_k"]),
            num_beams=int(given.get("num_beams") or 1),
            stop=tuple(s for s in stop if s),
            seed=None if given.get("seed") is None else int(given["seed"]),
        )
    except (TypeError, ValueError) as exc:
        raise Ad2Error(f"generation settings {given}: {exc}") from exc


class TextModel(lmms):
    """A simple model without likelihoods. `name`: of the model, in messages."""

    is_simple = True
    name = ""

    @property
    def device(self) -> Any:
        """The device of the process group, on which ranks gather their counts."""
        import torch

        accelerator = getattr(self, "accelerator", None)
        return accelerator.device if accelerator is not None else torch.device("cpu")

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        raise NotImplementedError(f"{self.name} generates text and has no likelihoods; use generate_until tasks")

    def generate_until_multi_round(self, requests: list[Any]) -> list[str]:
        raise NotImplementedError(f"{self.name} supports rounds in generate_until_agentic tasks only (ad2x_cot_rounds)")


class EngineModel(TextModel):
    """Batches of requests with equal generation settings, answered by `_engine`.

    `_fixed`: generation settings that take precedence over the task's, see `sampling_of`.
    """

    _engine: InferenceEngine
    _fixed: Mapping[str, Any] = {}

    @property
    def batch_size(self) -> int:
        """Prompts per call of the engine."""
        return self._engine.batch_size

    def generate_until(self, requests: list[Any]) -> list[str]:
        by_sampling: dict[GenerationSettings, list[int]] = {}
        for i, request in enumerate(requests):
            by_sampling.setdefault(sampling_of(request.args[1], self._fixed), []).append(i)
        answers = [""] * len(requests)
        with tqdm(total=len(requests), desc=self.name, disable=self.rank != 0) as bar:
            for sampling, indices in by_sampling.items():
                for start in range(0, len(indices), self.batch_size):
                    batch = indices[start : start + self.batch_size]
                    texts = self._engine.generate([self._prompt(requests[i]) for i in batch], sampling)
                    for i, text in zip(batch, texts, strict=True):
                        answers[i] = text
                    bar.update(len(batch))
        return answers

    def _prompt(self, request: Any) -> ModelPrompt:
        context, _, to_visual, doc_id, task, split = request.args
        images = to_visual(self.task_dict[task][split][doc_id]) if to_visual else []
        return ModelPrompt(context, tuple(images or ()))


# A Python function as an lmms-eval model, for models that the caller has already loaded (docs/training-loop.md).

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
