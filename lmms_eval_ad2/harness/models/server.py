"""A model behind an OpenAI-compatible endpoint, such as `swift deploy` starts.

Not the judges' client (llm/): of a judge an empty reply is a fault to be asked again, of a model under
test it is the answer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from loguru import logger

from lmms_eval_ad2.errors import Ad2Error, require
from lmms_eval_ad2.harness.models.prompting import Prompt, Sampling, failure


class Server:
    """`url` is the server's base (with or without /v1); without `model` the only one that it serves.

    `timeout_s` is for one request; a failed one is tried again three times. The key, if the server
    wants one, comes from SWIFT_API_KEY or OPENAI_API_KEY.
    """

    def __init__(
        self, url: str, model: str = "", *, concurrency: int = 16, timeout_s: float = 600.0, system: str = ""
    ) -> None:
        self._openai = require("openai", "by --model ad2_swift with server=")
        base = url.rstrip("/")
        self._url = base if base.endswith("/v1") else base + "/v1"
        key = os.environ.get("SWIFT_API_KEY") or os.environ.get("OPENAI_API_KEY") or "EMPTY"
        self._client = self._openai.OpenAI(base_url=self._url, api_key=key, timeout=timeout_s, max_retries=3)
        self._system, self._concurrency = system, concurrency
        self.model = self._served(model)
        # Several times what is in flight, so that one slow answer does not leave the server idle.
        self.batch_size = 4 * concurrency

    def ask(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[str]:
        with ThreadPoolExecutor(self._concurrency) as pool:
            return list(pool.map(lambda prompt: self._one(prompt, sampling), prompts))

    def _served(self, model: str) -> str:
        """The model to ask for. Also the first contact: a wrong address must fail before the run begins."""
        try:
            names = [m.id for m in self._client.with_options(timeout=30, max_retries=1).models.list().data]
        except self._openai.OpenAIError as exc:
            hint = "Is `swift deploy` running there?"
            raise Ad2Error(f"ad2_swift: no list of models from {self._url}: {exc} {hint}") from exc
        if model and (model in names or not names):
            return model
        if not model and len(names) == 1:
            return str(names[0])
        served = ", ".join(names) or "no model"
        raise Ad2Error(f"ad2_swift: {self._url} serves {served}" + (f", not '{model}'" if model else "; give model="))

    def _one(self, prompt: Prompt, sampling: Sampling) -> str:
        fatal = (
            self._openai.AuthenticationError, self._openai.PermissionDeniedError, self._openai.NotFoundError,
        )  # fmt: skip
        try:
            reply = self._client.chat.completions.create(**self._payload(prompt, sampling))
            return reply.choices[0].message.content or ""
        except fatal as exc:
            raise Ad2Error(f"ad2_swift: {self._url} refuses every request: {exc}") from exc
        except (self._openai.OpenAIError, ValueError, LookupError, TypeError, AttributeError) as exc:
            # Not only the client's own errors: a server may answer 200 with something else in it.
            logger.warning("ad2_swift: a request failed: {}: {}", type(exc).__name__, exc)
            return failure(f"{type(exc).__name__}: {exc}")

    def _payload(self, prompt: Prompt, sampling: Sampling) -> dict[str, Any]:
        images = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in prompt.images]
        content: list[dict[str, Any]] = [*images, {"type": "text", "text": prompt.text}]
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        if self._system:
            messages.insert(0, {"role": "system", "content": self._system})
        payload = {
            "model": self.model, "messages": messages, "max_tokens": sampling.max_new_tokens,
            "temperature": sampling.temperature, "top_p": sampling.top_p, "seed": sampling.seed,
            "stop": list(sampling.stop) or None,
        }  # fmt: skip
        if sampling.top_k is not None:
            payload["extra_body"] = {"top_k": sampling.top_k}  # not OpenAI's, but ms-swift's and vLLM's
        return {name: value for name, value in payload.items() if value is not None}


def data_url(image: Any) -> str:
    """As harness/run.py sets lmms-eval's own endpoint models: PNG takes 25 times as long to encode."""
    from lmms_eval.models.model_utils.media_encoder import encode_image_to_data_url

    return encode_image_to_data_url(image, image_format="JPEG", mime_type="image/jpeg", convert_rgb=True, quality=95)
