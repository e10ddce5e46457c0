"""What goes to a model and how it is to answer: shared by the ways in which ms-swift is reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lmms_eval_ad2.errors import Ad2Error

# lmms-eval's own convention; parsing.failure_reason knows it, so such a sample is Unscored and is asked again.
FAILED = "[LMMS_EVAL_REQUEST_FAILED in ad2_swift]"
DEFAULT_NEW_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class ModelPrompt:
    """One question: its text, and its images as PIL images in the order in which they are shown before it."""

    text: str
    images: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """How to generate. `temperature` 0 is greedy; `stop` cuts the answer before any of its strings."""

    max_new_tokens: int = DEFAULT_NEW_TOKENS
    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None
    num_beams: int = 1
    stop: tuple[str, ...] = ()
    seed: int | None = None


class InferenceEngine(Protocol):
    """A loaded model or a server: one text for each prompt; a failed one is a text that begins with `FAILED`."""

    batch_size: int

    def ask(self, prompts: Sequence[ModelPrompt], sampling: GenerationSettings) -> list[str]: ...


def failure(reason: object) -> str:
    """The text that stands in place of an answer that could not be had."""
    return f"{FAILED} {' '.join(str(reason).split())[:300]}"


def sampling_of(settings: Mapping[str, Any], fixed: Mapping[str, Any]) -> GenerationSettings:
    """The task's generation settings; `fixed` are those that the user named in --model_args, which win.

    Unknown settings of lmms-eval (do_sample follows from the temperature) are left alone.
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
