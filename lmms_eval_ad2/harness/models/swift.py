"""Vision-language models of ms-swift, in this process or behind an OpenAI-compatible endpoint (docs/models.md).

The only file that imports ms-swift. A failing sample becomes a marked text, which is scored as Unscored and requested
again when the run is resumed; it does not end the run.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from loguru import logger

from lmms_eval_ad2.core.coordinates import MERGE_SIZE, PATCH_SIZE, InputResizing, ResizeStep
from lmms_eval_ad2.core.errors import Ad2Error, require
from lmms_eval_ad2.harness.model_input import processor_step, vision_utils_limits
from lmms_eval_ad2.harness.models.arguments import refuse_unknown, whole_number
from lmms_eval_ad2.harness.models.engine_model import EngineModel, GenerationSettings, ModelPrompt, failure, sampling_of
from lmms_eval_ad2.harness.several_servers import server_of, spread_over_servers
from lmms_eval_ad2.llm.http_address import split_urls
from lmms_eval_ad2.prompts.media_tags import without_tags

NAME = "ad2_swift"
# backend -> (class of ms-swift, library needed besides ms-swift)
BACKENDS = {
    "transformers": ("TransformersEngine", "transformers"),
    "vllm": ("VllmEngine", "vllm"),
    "lmdeploy": ("LmdeployEngine", "lmdeploy"),
}
_COMMON = (
    "model", "backend", "server", "max_new_tokens", "temperature", "seed", "batch_size", "max_batch_size", "device",
    "system_prompt",
)  # fmt: skip
_SERVER = ("num_concurrent", "timeout")
_LOCAL = ("template", "model_type", "adapters", "torch_dtype", "device_map", "use_hf", "max_pixels")


class SwiftModel(EngineModel):
    """`--model ad2_swift --model_args model=...,backend=transformers` or `...,server=http://host:8000`."""

    name = NAME

    def __init__(
        self,
        model: str = "",
        backend: str = "transformers",
        server: str = "",
        max_new_tokens: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        batch_size: Any = 1,
        max_batch_size: Any = None,
        device: Any = None,
        system_prompt: str = "",
        **more: Any,
    ) -> None:
        """`max_new_tokens`, `temperature`, `seed` override the task's settings; for the rest see docs/models.md."""
        super().__init__()
        self._fixed = {"max_new_tokens": max_new_tokens, "temperature": temperature, "seed": seed}
        sampling_of({}, self._fixed)  # an invalid value must fail before the model is loaded
        system = self._resolve_system_prompt(system_prompt)
        if server:
            refuse_unknown("ad2_swift", more, (*_COMMON, *_SERVER))
            self._engine = ServerEngine(
                server, model, system=system, timeout_s=float(more.get("timeout", 600)),
                concurrency=whole_number("ad2_swift", "num_concurrent", more.get("num_concurrent", 16), 1),
            )  # fmt: skip
        else:
            if not model:
                raise Ad2Error("ad2_swift: name a checkpoint (model=...) or a running server (server=http://...)")
            size = whole_number("ad2_swift", "batch_size", batch_size, 1)
            if device and "device_map" not in more and str(device) == "cpu":
                more["device_map"] = "cpu"
            self._engine = InProcessEngine(
                model=model, backend=backend, batch_size=size, seed=seed, system=system, more=more
            )

    @property
    def input_resizing(self) -> InputResizing | None:
        """How the loaded model resizes images; None if that is not known, as for a server."""
        return self._engine.input_resizing() if isinstance(self._engine, InProcessEngine) else None

    def clean(self) -> None:
        """Release the model: in a series of runs (a --config list) the next one needs its memory."""
        self.__dict__.pop("_engine", None)
        super().clean()


class InProcessEngine:
    """An engine of ms-swift in this process. `more`: further model arguments, including the engine's own."""

    def __init__(
        self, model: str, backend: str, batch_size: int, seed: int | None, system: str, more: Mapping[str, Any]
    ) -> None:
        if backend not in BACKENDS:
            raise Ad2Error(f"ad2_swift: backend must be one of {', '.join(BACKENDS)}, not '{backend}'")
        name, library = BACKENDS[backend]
        self._swift = require("swift.infer_engine", "by --model ad2_swift")
        require(library, f"by backend={backend}")
        self.batch_size, self._system, self._own_seed = batch_size, system, backend == "transformers"
        if self._own_seed and seed is not None:
            import torch

            torch.manual_seed(seed)  # this engine has no seed per request
        self._engine = load(getattr(self._swift, name), model, batch_size, more)
        self._engine.strict = False  # returns the exception of a prompt that cannot be encoded

    def generate(self, prompts: Sequence[ModelPrompt], sampling: GenerationSettings) -> list[str]:
        try:
            return [self._text(r) for r in self._infer(prompts, sampling)]
        except Exception as exc:
            if len(prompts) == 1:
                logger.warning("ad2_swift: a sample failed: {}: {}", type(exc).__name__, exc)
                return [failure(f"{type(exc).__name__}: {exc}", NAME)]
        # One sample, or the size of the batch, is the cause: repeat one by one.
        return [text for prompt in prompts for text in self.generate([prompt], sampling)]

    def input_resizing(self) -> InputResizing | None:
        """ms-swift's template of the Qwen-VL family: to max_pixels in proportion, then as qwen_vl_utils, not again."""
        template = getattr(self._engine, "template", None)
        images = getattr(getattr(template, "processor", None), "image_processor", None)
        if processor_step(images) is None or not any(b.__name__ == "Qwen2VLTemplate" for b in type(template).__mro__):
            return None
        patch_size = int(images.patch_size) if template.version == "v3" else PATCH_SIZE  # type: ignore[union-attr]
        factor = patch_size * MERGE_SIZE
        low, high = (count * factor**2 for count in vision_utils_limits())
        most = getattr(template, "max_pixels", None)
        first = (ResizeStep(1, 1, int(most)),) if most else ()
        return InputResizing((*first, ResizeStep(factor, low, high)))

    def _infer(self, prompts: Sequence[ModelPrompt], sampling: GenerationSettings) -> list[Any]:
        config = self._swift.RequestConfig(
            max_tokens=sampling.max_new_tokens, temperature=sampling.temperature, top_p=sampling.top_p,
            top_k=sampling.top_k, num_beams=sampling.num_beams, stop=list(sampling.stop), seed=sampling.seed,
        )  # fmt: skip
        requests = [self._swift.InferRequest(messages=self._messages(p)) for p in prompts]
        return list(self._engine.infer(requests, config, use_tqdm=False))

    def _messages(self, prompt: ModelPrompt) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = [{"type": "image", "image": i.convert("RGB")} for i in prompt.images]
        content.append({"type": "text", "text": without_tags(prompt.text)})
        system = [{"role": "system", "content": self._system}] if self._system else []
        return [*system, {"role": "user", "content": content}]

    @staticmethod
    def _text(response: Any) -> str:
        if isinstance(response, Exception):
            logger.warning("ad2_swift: a sample failed: {}: {}", type(response).__name__, response)
            return failure(f"{type(response).__name__}: {response}", NAME)
        content = response.choices[0].message.content
        return content if isinstance(content, str) else ""


def load(engine: Any, model: str, batch_size: int, more: Mapping[str, Any]) -> Any:
    """Create the engine. Raises Ad2Error for unknown arguments, and if the model cannot be loaded."""
    takes = [n for n, p in inspect.signature(engine.__init__).parameters.items() if p.kind is not p.VAR_KEYWORD]
    own = [n for n in takes if n not in ("self", "model", "model_id_or_path", "template", "template_type")]
    refuse_unknown("ad2_swift", more, (*_COMMON, *_LOCAL, *own))
    settings = {n: v for n, v in more.items() if n in own}
    settings["use_hf"] = more.get("use_hf", True)  # model names are those of Hugging Face, as in lmms-eval
    settings["torch_dtype"] = dtype(more.get("torch_dtype"))
    settings["template_type"] = more.get("template")
    for name in ("adapters", "device_map"):
        if name in more and name not in own:
            raise Ad2Error(f"ad2_swift: {engine.__name__} takes no {name}")
    if isinstance(more.get("adapters"), str):
        settings["adapters"] = more["adapters"].split(":")
    if "max_batch_size" in takes:
        settings["max_batch_size"] = batch_size
    try:
        loaded = engine(model, **settings)
    except (ValueError, OSError) as exc:
        hint = "Its --model_type and --template are model_type=... and template=... in --model_args"
        raise Ad2Error(f"ad2_swift: ms-swift cannot load '{model}': {exc}. {hint}") from exc
    if "max_pixels" in more:
        loaded.template.max_pixels = whole_number("ad2_swift", "max_pixels", more["max_pixels"], 1)
    return loaded


def dtype(name: Any) -> Any:
    """Return the torch dtype `name`; None (the checkpoint's own) for None and "auto"."""
    import torch

    if name in (None, "auto"):
        return None
    found = getattr(torch, str(name), None)
    if not isinstance(found, torch.dtype):
        raise Ad2Error(f"ad2_swift: torch_dtype must be auto, bfloat16, float16 or float32, not '{name}'")
    return found


class ServerEngine:
    """A model behind an OpenAI-compatible endpoint, as started by `swift deploy`.

    Not the client of the judges (llm/), which repeats a request with an empty reply: here that is the answer.
    `url`: base address, with or without /v1, or several joined by "+" (several_servers.py). `model`: default, the only
    one served. `timeout_s`: per request; a failed one is repeated three times. The API key, if needed, comes from
    SWIFT_API_KEY or OPENAI_API_KEY.
    """

    def __init__(
        self, url: str, model: str = "", *, concurrency: int = 16, timeout_s: float = 600.0, system: str = ""
    ) -> None:
        self._openai = require("openai", "by --model ad2_swift with server=")
        bases = [one.rstrip("/") for one in split_urls(url)]
        self._url = "+".join(base if base.endswith("/v1") else base + "/v1" for base in bases)
        key = os.environ.get("SWIFT_API_KEY") or os.environ.get("OPENAI_API_KEY") or "EMPTY"
        self._client = self._openai.OpenAI(base_url=self._url, api_key=key, timeout=timeout_s, max_retries=3)
        self._servers = spread_over_servers(self._client)
        self._system, self._concurrency = system, concurrency
        self.model = self._served(model)
        # A multiple of the concurrency, so that one slow answer does not leave the server idle.
        self.batch_size = 4 * concurrency

    def generate(self, prompts: Sequence[ModelPrompt], sampling: GenerationSettings) -> list[str]:
        with ThreadPoolExecutor(self._concurrency) as pool:
            return list(pool.map(lambda prompt: self._one(prompt, sampling), prompts))

    def _served(self, model: str) -> str:
        """Return the model to request. As the first request, it reports a wrong address before the run begins."""
        names = self._names()
        if model and (model in names or not names):
            return model
        if not model and len(names) == 1:
            return str(names[0])
        served = ", ".join(names) or "no model"
        raise Ad2Error(f"ad2_swift: {self._url} serves {served}" + (f", not '{model}'" if model else "; give model="))

    def _names(self) -> list[str]:
        """The models of the first server that answers."""
        fault: Exception | None = None
        for client in self._servers:
            try:
                return [m.id for m in client.with_options(timeout=30, max_retries=1).models.list().data]
            except (self._openai.AuthenticationError, self._openai.PermissionDeniedError) as exc:
                hint = "Is the key in SWIFT_API_KEY or OPENAI_API_KEY right?"
                raise Ad2Error(f"ad2_swift: no list of models from {client.base_url}: {exc} {hint}") from exc
            except self._openai.OpenAIError as exc:
                fault = exc
        raise Ad2Error(
            f"ad2_swift: no list of models from {self._url}: {fault} Is `swift deploy` running there?"
        ) from fault

    def _one(self, prompt: ModelPrompt, sampling: GenerationSettings) -> str:
        fatal = (
            self._openai.AuthenticationError, self._openai.PermissionDeniedError, self._openai.NotFoundError,
        )  # fmt: skip
        try:
            reply = self._client.chat.completions.create(**self._payload(prompt, sampling))
            return reply.choices[0].message.content or ""
        except fatal as exc:
            raise Ad2Error(f"ad2_swift: {server_of(exc) or self._url} refuses every request: {exc}") from exc
        except (self._openai.OpenAIError, ValueError, LookupError, TypeError, AttributeError) as exc:
            # Not only the client's errors: a server may return status 200 with other content.
            logger.warning("ad2_swift: a request failed: {}: {}", type(exc).__name__, exc)
            return failure(f"{type(exc).__name__}: {exc}", NAME)

    def _payload(self, prompt: ModelPrompt, sampling: GenerationSettings) -> dict[str, Any]:
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
            payload["extra_body"] = {"top_k": sampling.top_k}  # an extension of ms-swift and vLLM
        return {name: value for name, value in payload.items() if value is not None}


def data_url(image: Any) -> str:
    """Return the image as a JPEG data URL; encoding as PNG takes 25 times as long."""
    from lmms_eval.models.model_utils.media_encoder import encode_image_to_data_url

    return encode_image_to_data_url(image, image_format="JPEG", mime_type="image/jpeg", convert_rgb=True, quality=95)
