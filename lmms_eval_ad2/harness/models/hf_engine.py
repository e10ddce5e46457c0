"""The InferenceEngine of ad2_hf: chat template, processor, `generate`, for a batch of questions with images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from loguru import logger

from lmms_eval_ad2.core.coordinates import InputResizing
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.harness.model_input import processor_step
from lmms_eval_ad2.harness.models.generation import GenerationSettings, ModelPrompt, failure
from lmms_eval_ad2.harness.models.hf_requirements import NAME
from lmms_eval_ad2.prompts.media_tags import without_tags

# Attributes of processors and tokenizers with a token that must not come from the text of a question.
_TOKENS = (
    "image_token", "video_token", "audio_token", "boi_token", "eoi_token", "image_start_token", "image_end_token",
    "fake_image_token", "start_image_token", "end_image_token", "bos_token", "eos_token", "pad_token",
)  # fmt: skip
_PROBE = "ad2probe"


class HfEngine:
    """`processor`: with left padding, see HfCheckpoint. `max_pixels`: larger images are scaled down in proportion
    before the processor, unless that has the limit itself. `system`: the system prompt, or "".

    Raises Ad2Error if the chat template leaves out images, or the system prompt.
    """

    def __init__(
        self, model: Any, processor: Any, *, batch_size: int = 1, max_pixels: int | None = None, system: str = ""
    ) -> None:
        self.model, self.batch_size = model, batch_size
        self._generate = model.generate  # taken now: a batch that is repeated must not count as an error of its samples
        self._processor, self._tokenizer = processor, getattr(processor, "tokenizer", processor)
        step = processor_step(processor)
        self.input_resizing = InputResizing((step,)) if step else None
        self._max_pixels = None if step else max_pixels
        found = (getattr(owner, name, None) for owner in (processor, self._tokenizer) for name in _TOKENS)
        self._tokens = sorted({t for t in found if isinstance(t, str) and t.strip()}, key=len, reverse=True)
        self._system: list[dict[str, Any]] = []
        if system:
            self._system = self._system_message(system)
        if self._rendered(ModelPrompt(_PROBE, (None,))) == self._rendered(ModelPrompt(_PROBE)):
            raise Ad2Error(f"{NAME}: the chat template leaves out images; name another one (chat_template=FILE)")

    def generate(self, prompts: Sequence[ModelPrompt], sampling: GenerationSettings) -> list[str]:
        """See InferenceEngine.generate."""
        try:
            return self._answers(prompts, sampling)
        except Exception as exc:
            if len(prompts) == 1:
                logger.warning("{}: a sample failed: {}: {}", NAME, type(exc).__name__, exc)
                return [failure(f"{type(exc).__name__}: {exc}", NAME)]
        # One sample, or the size of the batch, is the cause: repeat one by one.
        return [text for prompt in prompts for text in self.generate([prompt], sampling)]

    def _answers(self, prompts: Sequence[ModelPrompt], sampling: GenerationSettings) -> list[str]:
        import torch

        inputs = self._inputs(prompts).to(self.model.device, dtype=self.model.dtype)
        if sampling.seed is not None:
            torch.manual_seed(sampling.seed)
        with torch.inference_mode():
            tokens = self._generate(**inputs, **self._settings(sampling))
        if not getattr(self.model.config, "is_encoder_decoder", False):
            tokens = tokens[:, inputs["input_ids"].shape[1] :]
        texts = self._tokenizer.batch_decode(tokens, skip_special_tokens=True)
        return [_before(text, sampling.stop) for text in texts]

    def _settings(self, sampling: GenerationSettings) -> dict[str, Any]:
        """Arguments of `generate`; what is not given is the checkpoint's own (generation_config.json)."""
        given: dict[str, Any] = {
            "max_new_tokens": sampling.max_new_tokens, "num_beams": sampling.num_beams,
            "do_sample": sampling.temperature > 0,
        }  # fmt: skip
        if sampling.temperature > 0:
            more = {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": sampling.top_k}
            given |= {name: value for name, value in more.items() if value is not None}
        if sampling.stop:
            given |= {"stop_strings": list(sampling.stop), "tokenizer": self._tokenizer}
        return given

    def _inputs(self, prompts: Sequence[ModelPrompt]) -> Any:
        texts = [self._rendered(prompt) for prompt in prompts]
        images = [[self._fitted(image) for image in prompt.images] for prompt in prompts]
        # A template that writes the first token itself: the tokenizer must not write it again.
        bos = self._tokenizer.bos_token
        more: Mapping[str, Any] = {"add_special_tokens": False} if bos and texts[0].startswith(bos) else {}
        return self._processor(
            text=texts, images=images if any(images) else None, padding=True, return_tensors="pt", **more
        )

    def _fitted(self, image: Any) -> Any:
        picture = image.convert("RGB")
        if self._max_pixels is None or picture.width * picture.height <= self._max_pixels:
            return picture
        scale = math.sqrt(self._max_pixels / (picture.width * picture.height))
        return picture.resize((max(1, int(picture.width * scale)), max(1, int(picture.height * scale))))

    def _rendered(self, prompt: ModelPrompt) -> str:
        """The text for the processor. Images are read from the prompt, not from here."""
        text = without_tags(prompt.text)
        for token in self._tokens:  # a picture of the dataset's text would be one too many
            text = text.replace(token, token.strip("<>[]|/ "))
        if self._processor.chat_template is None:
            system = "".join(f"{part['content']}\n" for part in self._system)
            return self._processor.image_token * len(prompt.images) + system + text
        content = [{"type": "image"} for _ in prompt.images] + [{"type": "text", "text": text}]
        return self._templated([*self._system, {"role": "user", "content": content}])

    def _templated(self, messages: list[dict[str, Any]]) -> str:
        return str(self._processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def _system_message(self, system: str) -> list[dict[str, Any]]:
        """The message in the form that the template takes: some read a text, some a list, some refuse it."""
        if self._processor.chat_template is None:
            return [{"role": "system", "content": system}]
        user = {"role": "user", "content": [{"type": "text", "text": _PROBE}]}
        for content in ([{"type": "text", "text": system}], system):
            message = {"role": "system", "content": content}
            try:
                text = self._templated([message, user])
            except Exception:  # whatever a template raises
                continue
            if system.strip() in text and "'type'" not in text:
                return [message]
        raise Ad2Error(f"{NAME}: the chat template has no place for a system prompt; leave out system_prompt=")


def _before(text: str, stop: Sequence[str]) -> str:
    """`text` up to the first of the strings `stop`."""
    return min((text.split(end, 1)[0] for end in stop), key=len, default=text)
