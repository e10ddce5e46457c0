"""Prompts and generation settings, shared by the engines of our models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lmms_eval_ad2.core.errors import Ad2Error

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
