"""A checkpoint of Hugging Face, loaded as whatever class of transformers it is of. Each mistake is one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, require
from lmms_eval_ad2.harness.model_input import processor_step
from lmms_eval_ad2.harness.models.hf_requirements import CLASSES, NAME, NO_TEMPLATE, PLAIN

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
