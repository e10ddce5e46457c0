"""Base classes of our lmms-eval models: models that only generate text, and those of them that have an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmms_eval.api.model import lmms
from tqdm import tqdm

from lmms_eval_ad2.harness.models.generation import GenerationSettings, InferenceEngine, ModelPrompt, sampling_of


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
