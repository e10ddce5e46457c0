"""`--model ad2_hf`: any image-text-to-text class of transformers, by its checkpoint (docs/models.md).

The checkpoint's own class, processor and chat template answer; nothing is known here of any family.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from loguru import logger

from lmms_eval_ad2.core.coordinates import InputResizing
from lmms_eval_ad2.core.errors import Ad2Error, require
from lmms_eval_ad2.core.numbers import environment_number
from lmms_eval_ad2.harness.model_input import processor_step
from lmms_eval_ad2.harness.models.arguments import refuse_unknown, whole_number
from lmms_eval_ad2.harness.models.engine_model import EngineModel, GenerationSettings, ModelPrompt, failure, sampling_of
from lmms_eval_ad2.harness.models.hf_requirements import CLASSES, NAME, NO_TEMPLATE, PLAIN
from lmms_eval_ad2.prompts.media_tags import without_tags

# The InferenceEngine of ad2_hf: chat template, processor, `generate`, for a batch of questions with images.

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


# A checkpoint of Hugging Face, loaded as whatever class of transformers it is of. Each mistake is one line.

DTYPES = ("auto", "bfloat16", "float16", "float32")
# Classes that a checkpoint with its own code may name for itself, besides CLASSES.
_OWN_CODE = ("AutoModelForCausalLM", "AutoModel")


class HfCheckpoint:
    """`pretrained`: a folder, or a name on the Hub. `remote_code`: whether Python files in it may be run.

    `template`: "" for the processor's own, "plain", or a file. Raises Ad2Error if transformers cannot read it.
    """

    def __init__(self, pretrained: str, remote_code: bool = False, template: str = "") -> None:
        if not pretrained:
            raise Ad2Error(f"{NAME}: name a checkpoint (pretrained=OWNER/NAME, or a folder)")
        self._transformers = require("transformers", f"by --model {NAME}")
        self._from = {"pretrained_model_name_or_path": pretrained, "trust_remote_code": remote_code}
        self._name, self._remote_code, self._template = pretrained, remote_code, template
        self.config = self._load("the configuration of", self._transformers.AutoConfig.from_pretrained)
        self._class = self._auto_class()

    def processor(self, max_pixels: int | None = None) -> Any:
        """The processor, padding on the left. `max_pixels`: of an image, where the processor has such a limit."""
        loaded = self._load("the processor of", self._transformers.AutoProcessor.from_pretrained)
        if getattr(loaded, "image_processor", None) is None:
            raise Ad2Error(f"{NAME}: {self._name} takes no images: its processor is {type(loaded).__name__}")
        if self._template == PLAIN:
            loaded.chat_template = None
            if not isinstance(getattr(loaded, "image_token", None), str):
                raise Ad2Error(f"{NAME}: chat_template=plain: {type(loaded).__name__} has no token for an image")
        elif self._template:
            try:
                loaded.chat_template = Path(self._template).read_text("utf-8")
            except (OSError, UnicodeDecodeError) as exc:
                raise Ad2Error(f"{NAME}: chat_template={self._template}: {exc}; name a file, or plain") from exc
        elif not getattr(loaded, "chat_template", None):
            raise Ad2Error(f"{NAME}: {self._name} {NO_TEMPLATE}")
        if (tokenizer := getattr(loaded, "tokenizer", None)) is not None:
            tokenizer.padding_side = "left"  # the model continues the last token of each row
            if tokenizer.pad_token is None:
                tokenizer.pad_token = tokenizer.eos_token
        if max_pixels is not None and (step := processor_step(loaded)) is not None:
            images = loaded.image_processor
            images.size = {"shortest_edge": min(step.min_pixels, max_pixels), "longest_edge": max_pixels}
        return loaded

    def model(
        self, *, dtype: str = "auto", device: Any = None, device_map: Any = None, attention: str | None = None,
        adapter: str = "",
    ) -> Any:  # fmt: skip
        """The model, in evaluation mode. `adapter`: folders of peft, joined by ":", which are merged in this order.

        Without `device` and `device_map`: on the GPU if there is one, else on the CPU.
        """
        import torch

        if dtype not in DTYPES:
            raise Ad2Error(f"{NAME}: dtype must be one of {', '.join(DTYPES)}, not '{dtype}'")
        gpu = torch.cuda.is_available()
        where = str(device or (device_map if device_map not in (None, "auto") else "cuda" if gpu else "cpu"))
        if where.startswith("cuda") and not gpu:
            raise Ad2Error(f"{NAME}: no GPU that this torch can use for '{where}'; leave it out to use the CPU")
        if dtype == "auto":
            half = "bfloat16" if gpu and torch.cuda.is_bf16_supported() else "float16"
            dtype = "float32" if where == "cpu" else half
        more = {"attn_implementation": attention} if attention else {}
        if device_map not in (None, "cpu", where):
            more["device_map"] = device_map
        model = self._load(
            "the model", self._class.from_pretrained, config=self.config, dtype=getattr(torch, dtype), **more
        )
        if "device_map" not in more:
            model = self._load("the model", lambda **_: model.to(where))
        for folder in filter(None, adapter.split(":")):
            model = self._load(f"the adapter {folder} of", _with_adapter, model=model, folder=folder)
        return model.eval()

    def _auto_class(self) -> Any:
        own = getattr(self.config, "auto_map", None) or {}
        for name in (*CLASSES, *_OWN_CODE):
            auto = getattr(self._transformers, name, None)
            if auto is None:
                continue
            if name in CLASSES and type(self.config) in auto._model_mapping:
                return auto
            if self._remote_code and name in own:
                return auto
        kind, version = getattr(self.config, "model_type", "?"), self._transformers.__version__
        raise Ad2Error(
            f"{NAME}: {self._name} is of type '{kind}', for which transformers {version} has no class that reads "
            f"images and writes text ({', '.join(CLASSES[:2])})"
        )

    def _load(self, what: str, call: Callable[..., Any], **more: Any) -> Any:
        """`call` with this checkpoint. Raises Ad2Error for whatever it raises: files, versions, memory, own code."""
        try:
            return call(**self._from, **more)
        except Exception as exc:
            reason = " ".join(str(exc).split())[:400] or type(exc).__name__
            if "does not recognize this architecture" in reason or "Unrecognized model" in reason:
                reason = (
                    f"its type is unknown to transformers {self._transformers.__version__}: pip install -U transformers"
                    f" (a newer one may know it), or another --model. {reason[:120]}"
                )
            elif "trust_remote_code" in reason:
                reason = "it brings Python code of its own; if you trust it: trust_remote_code=True"
            raise Ad2Error(f"{NAME}: cannot load {what} {self._name}: {reason}") from exc


def _with_adapter(model: Any, folder: str, **_: Any) -> Any:
    peft = require("peft", "by adapter=")
    return peft.PeftModel.from_pretrained(model, folder).merge_and_unload()


class HfModel(EngineModel):
    """`--model ad2_hf --model_args pretrained=OWNER/NAME` (or a folder).

    On several ranks of torchrun each has a copy of the model on its own GPU, or on the CPU.
    """

    name = NAME

    def __init__(
        self,
        pretrained: str = "",
        dtype: str = "auto",
        device: Any = None,
        device_map: Any = None,
        attn_implementation: str | None = None,
        max_pixels: Any = None,
        batch_size: Any = 1,
        max_batch_size: Any = None,
        trust_remote_code: Any = False,
        adapter: str = "",
        chat_template: str = "",
        system_prompt: str = "",
        max_new_tokens: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        **unknown: Any,
    ) -> None:
        """Load the model. Raises Ad2Error, in one line, for whatever a user can mend; arguments: docs/models.md."""
        super().__init__()
        refuse_unknown(NAME, unknown, inspect.getfullargspec(HfModel.__init__).args[1:])
        self._fixed = {"max_new_tokens": max_new_tokens, "temperature": temperature, "seed": seed}
        sampling_of({}, self._fixed)  # an invalid value must fail before the model is loaded
        size = whole_number(NAME, "batch_size", batch_size, 1)
        pixels = None if max_pixels is None else whole_number(NAME, "max_pixels", max_pixels, 1)
        if environment_number("WORLD_SIZE", 1) > 1:
            from accelerate import Accelerator

            self.accelerator = Accelerator()
            self._rank, self._world_size = self.accelerator.process_index, self.accelerator.num_processes
            device, device_map = self.accelerator.device, None  # a copy per rank, not one spread over all GPUs
        checkpoint = HfCheckpoint(str(pretrained), str(trust_remote_code).lower() in ("true", "1"), str(chat_template))
        processor = checkpoint.processor(pixels)
        self._engine: HfEngine = HfEngine(
            checkpoint.model(
                dtype=str(dtype), device=device, device_map=device_map, attention=attn_implementation,
                adapter=str(adapter or ""),
            ),
            processor, batch_size=size, max_pixels=pixels, system=self._resolve_system_prompt(system_prompt),
        )  # fmt: skip

    @property
    def model(self) -> Any:
        """The torch module: a closed loop seeds sampled answers of models that run in its process."""
        return self._engine.model

    @property
    def input_resizing(self) -> InputResizing | None:
        """How the processor resizes images; None if that is not known."""
        return self._engine.input_resizing

    def clean(self) -> None:
        """Release the model: in a series of runs (a --config list) the next one needs its memory."""
        self.__dict__.pop("_engine", None)
        super().clean()
