"""Scene descriptions for a slow system without vision (Bench2ADVLM section 3.1: pure LLMs get a description)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from closedloop_plugin.core.image_encoding import ImageEncoding, image_for
from closedloop_plugin.core.state import Observation
from closedloop_plugin.driver.agent import DecisionRequest, is_concurrent
from closedloop_plugin.driver.agents.model_backend import ModelBackend, ModelQuestion, ModelReply, encoding_of
from closedloop_plugin.driver.prompts.texts import PromptTexts

FRONT = "front"


class SceneDescriber(Protocol):
    """Describes the front images of several episodes at once."""

    name: str
    # concurrent: bool = False  # optional, see agents.base.is_concurrent

    def describe_views(self, requests: Sequence[DecisionRequest]) -> list[ModelReply]: ...

    def describe(self) -> dict[str, Any]: ...


class ModelDescriber:
    """Descriptions by a vision-language model."""

    def __init__(self, backend: ModelBackend, texts: PromptTexts) -> None:
        self.backend, self.texts = backend, texts
        self.name, self.concurrent = backend.name, is_concurrent(backend)
        self.encoding, self.encodings = encoding_of(backend)

    def describe_views(self, requests: Sequence[DecisionRequest]) -> list[ModelReply]:
        prompt = self.texts.fill("describe")
        return self.backend.ask([self._question(i, request, prompt) for i, request in enumerate(requests)])

    def _question(self, number: int, request: DecisionRequest, prompt: str) -> ModelQuestion:
        seen = request.observation
        image = image_for(seen.images, FRONT, self.encoding)
        return ModelQuestion(f"{number}|{request.episode}|{seen.tick}|describe", prompt, (image,))

    def describe(self) -> dict[str, Any]:
        return {"describer": self.name, **self.backend.describe()}


class OfflineDescriber:
    """Descriptions without a model: brightness, contrast and colours of the image, but no road users.

    A run with it shows how a nearly blind slow system behaves.
    """

    name, concurrent = "offline", True

    def describe_views(self, requests: Sequence[DecisionRequest]) -> list[ModelReply]:
        return [ModelReply(image_statistics(r.observation), tokens_in=0, tokens_out=0) for r in requests]

    def describe(self) -> dict[str, Any]:
        return {"describer": self.name, "version": 1}


class NoDescriber:
    """No description: the slow system interprets the words alone."""

    name, concurrent = "none", True
    encodings: frozenset[ImageEncoding] = frozenset()  # it sees no image

    def describe_views(self, requests: Sequence[DecisionRequest]) -> list[ModelReply]:
        return [ModelReply("(not available)", tokens_in=0, tokens_out=0)] * len(requests)

    def describe(self) -> dict[str, Any]:
        return {"describer": self.name}


def image_statistics(observation: Observation) -> str:
    """Statistics of the front image, (H, W, 3) uint8 RGB, as text."""
    picture = np.asarray(observation.images(FRONT), dtype=np.float32)
    height, width = picture.shape[:2]
    grey = picture @ np.array([0.299, 0.587, 0.114], dtype=np.float32)  # luma, ITU-R BT.601
    light, contrast = float(grey.mean()), float(grey.std())
    road = picture[height * 2 // 3 :, width // 3 : width * 2 // 3].reshape(-1, 3).mean(0)
    middle = picture[height // 3 : height * 2 // 3, width // 3 : width * 2 // 3]
    return (
        "Measured from the picture without recognising anything in it. "
        f"Light: {_light(light)} (mean {light:.0f} of 255). Contrast: {'low' if contrast < 30 else 'normal'} "
        f"({contrast:.0f}). Ground before the car: RGB {_rgb(road)}. "
        f"In the middle of the view {_share(middle, 0):.0%} of the picture is strongly red and "
        f"{_share(middle, 1):.0%} strongly green. Road users, signs and lights are not known."
    )


def _light(mean: float) -> str:
    return "dark" if mean < 50 else "dim" if mean < 90 else "daylight" if mean < 190 else "glaring"


def _rgb(colour: np.ndarray) -> str:
    return ", ".join(f"{v:.0f}" for v in colour)


def _share(part: np.ndarray, channel: int) -> float:
    """Share of pixels whose channel is above 100 and more than twice each other channel."""
    others = np.delete(part, channel, axis=2).max(2)
    return float(((part[..., channel] > 2 * others) & (part[..., channel] > 100)).mean())
