"""LmmsModel: an lmms-eval model in this process as ModelBackend."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import io
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any

import numpy as np
from PIL import Image

from closedloop_plugin.driver.agents.model_backend import ModelQuestion, ModelReply
from lmms_eval_ad2.core.errors import Ad2Error, require
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.harness.library import model_object
from lmms_eval_ad2.harness.model_requirements import argument_fault, faults, find_wrapper, path_fault
from lmms_eval_ad2.harness.several_servers import spread_over_servers
from lmms_eval_ad2.harness.wrapper_guard import CaughtErrors, RefusalGuard, RefusedRequestsError
from lmms_eval_ad2.parsing import failure_reason
from lmms_eval_ad2.storage.local_weights import local_weights
from lmms_eval_ad2.storage.redaction import environment_keys, redacted, without_keys

MAX_TOKENS = 256
# Generation settings in a spec; all other arguments are passed to the model's class.
GENERATION = ("max_new_tokens", "temperature")
_TASK, _SPLIT = "ad2_drive", "run"


class LmmsModel:
    """`lm`: a loaded lmms-eval model; during a call its task_dict has one additional entry."""

    def __init__(self, lm: Any, name: str, args: str = "", generation: Mapping[str, Any] | None = None) -> None:
        self.lm, self.name, self.args = lm, f"lmms:{name}", redacted(args)
        spread_over_servers(getattr(lm, "client", None))
        self._guard = RefusalGuard(lm, arguments=f"lmms:{name}")
        self._weights = local_weights(args)
        self._generation = {"max_new_tokens": MAX_TOKENS, "temperature": 0.0, **(generation or {})}
        self._generation["temperature"] = float(self._generation["temperature"])  # transformers refuses an integer
        self._generation["do_sample"] = self._generation["temperature"] > 0

    @classmethod
    def from_spec(cls, spec: str) -> LmmsModel:
        """From `NAME,arg=value,...`. A model with equal name and arguments is loaded once."""
        name, args, given, generation = _parsed(spec)
        return cls(_load(name, tuple(sorted(given.items(), key=str))), name, args, generation)

    @classmethod
    def check_spec(cls, spec: str) -> None:
        """Raise Ad2Error for what keeps the model from being loaded; it is not loaded."""
        name, _, given, _ = _parsed(spec)
        if fault := next(iter(faults(name, {key: str(value) for key, value in given.items()})), None):
            raise Ad2Error(f"lmms:{name}: {fault}")

    @classmethod
    def from_object(cls, model: Any, name: str | None, batch_size: int) -> LmmsModel:
        """A model object of lmms-eval, or a function, see FunctionModel.

        `name`: of the model and its weights; without one, the model is equal to no other in the identity of a run.
        """
        lm = model_object(model, name, batch_size)
        found = cls(
            lm, name or str(getattr(lm, "name", type(lm).__name__)), "" if name else f"object={uuid.uuid4().hex}"
        )
        if lm is not model:
            found.name = f"function:{found.name.removeprefix('lmms:')}"
        return found

    def ask(self, questions: Sequence[ModelQuestion]) -> list[ModelReply]:
        """See ModelBackend.ask. One generate_until for all questions; an exception becomes the error of each, but a
        refusal of every request (a wrong key, address or model) raises Ad2Error.

        Answers that are sampled in this process are drawn one by one, each with the seed of its decision, so that they
        do not depend on what else is asked in the same call.
        """
        if self._generation["do_sample"] and _runs_here(self.lm):
            return [reply for question in questions for reply in self._seeded(question)]
        return self._answers(questions)

    def _seeded(self, question: ModelQuestion) -> list[ModelReply]:
        import torch

        drawn = hashlib.sha256((question.key.partition("|")[2] or question.key).encode()).digest()
        torch.manual_seed(int.from_bytes(drawn[:7], "big"))
        return self._answers([question])

    def _answers(self, questions: Sequence[ModelQuestion]) -> list[ModelReply]:
        # Without an `encoding`, all images are arrays.
        docs = [[Image.fromarray(np.asarray(image)) for image in q.images] for q in questions]
        requests = [self._instance(i, q) for i, q in enumerate(questions)]
        if not requests:
            return []
        self.lm.task_dict[_TASK] = {_SPLIT: docs}
        start = time.monotonic()
        try:
            # Model classes draw a progress bar per call, which would be one per decision.
            caught = CaughtErrors(self.lm, self.lm.generate_until)
            with contextlib.redirect_stderr(io.StringIO()), self._guard.active(), caught.active():
                outputs = caught.generate(requests)
            self._guard.check(outputs)
        except (RefusedRequestsError, asyncio.CancelledError) as exc:
            if self._guard.refusal is None:
                raise
            raise Ad2Error(str(self._guard.refusal)) from exc
        except Exception as exc:  # any exception of a model class is a failure of the model, which is recorded
            error = f"generation_failed: {type(exc).__name__}: {' '.join(str(exc).split())[:300]}"
            return [ModelReply(error=error, seconds=time.monotonic() - start)] * len(requests)
        finally:
            del self.lm.task_dict[_TASK]
        seconds = time.monotonic() - start
        if len(outputs) != len(requests):
            error = f"generation_failed: {len(outputs)} answers to {len(requests)} questions"
            return [ModelReply(error=error, seconds=seconds)] * len(requests)
        return [_reply(output, seconds, may_be_empty=self._guard.sees_replies) for output in outputs]

    def tuned(self, max_tokens: int | None = None, temperature: float | None = None) -> LmmsModel:
        """The same model with other generation settings; None: unchanged. Not to be mixed within a batch: model classes
        use the settings of its first request for all of it."""
        given = {"max_new_tokens": max_tokens, "temperature": temperature}
        changed = {**self._generation, **{k: v for k, v in given.items() if v is not None}}
        tuned = LmmsModel(self.lm, self.name.partition(":")[2], self.args, changed)
        tuned.name, tuned._weights = self.name, self._weights
        return tuned

    def describe(self) -> dict[str, Any]:
        return {
            "backend": "lmms",
            "model": self.name.partition(":")[2],
            "model_args": self.args,
            **({"weights": self._weights} if self._weights else {}),
            "lmms_eval": metadata.version("lmms-eval"),
            **self._generation,
        }

    def _instance(self, index: int, question: ModelQuestion) -> Any:
        """Chat and simple models take their arguments in different orders (lmms_eval.api.instance)."""
        instance = require("lmms_eval.api.instance").Instance
        settings = dict(self._generation)  # a copy, since some model classes remove entries
        where = (index, _TASK, _SPLIT)
        args: tuple[Any, ...] = (question.text, settings, _visuals, *where)
        if not getattr(self.lm, "is_simple", True):
            args = (question.text, functools.partial(_messages, question.text), settings, *where)
        return instance("generate_until", args, 0, {"task": _TASK, "doc_id": index, "repeats": 1})


def _parsed(spec: str) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """(name, text of the arguments, arguments, generation settings) of `NAME,arg=value,...`. Raises Ad2Error."""
    name, _, args = (part.strip() for part in spec.partition(","))
    if not name:
        raise Ad2Error("lmms: which model? e.g. lmms:qwen2_5_vl,pretrained=Qwen/Qwen2.5-VL-7B-Instruct")
    utils = require("lmms_eval.utils", f"by lmms:{name}")
    try:
        given = dict(utils.simple_parse_args_string(args))
    except ValueError:
        raise Ad2Error(f"lmms:{name}: expected KEY=VALUE, separated by commas, after the model's name") from None
    generation = {key: given.pop(key) for key in GENERATION if key in given}
    for key, value in generation.items():
        if not is_number(value) or value < 0:
            raise Ad2Error(f"lmms:{name}: {key}: expected a number of at least 0, found {value!r}")
    return name, args, given, generation


def _runs_here(lm: Any) -> bool:
    """Whether a model class holds a torch module, and not a client of a server."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(getattr(lm, "model", None), torch.nn.Module)


def _visuals(doc: list[Image.Image]) -> list[Image.Image]:
    """doc_to_visual of lmms-eval; one function for all requests, since model classes use the first one of a batch."""
    return doc


def _messages(text: str, doc: list[Image.Image]) -> list[dict[str, Any]]:
    """doc_to_messages of lmms-eval: images first, then text."""
    parts: list[dict[str, Any]] = [{"type": "image", "url": image} for image in doc]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": text}]}]


def _reply(output: Any, seconds: float, *, may_be_empty: bool) -> ModelReply:
    """`may_be_empty`: an empty text is a thought that the token limit ended, and no failure."""
    text, counts = require("lmms_eval.api.instance").unwrap_generation_output(output)
    tokens_in, tokens_out = _count(counts, "input_tokens"), _count(counts, "output_tokens")
    text = without_keys(text if isinstance(text, str) else str(text or ""), environment_keys())
    failed, empty = failure_reason(text), not text.strip()
    if failed:  # placeholders of lmms-eval for a missing answer
        reply = ModelReply(error=f"{failed}: {' '.join(text.split())[:300]}", seconds=seconds)
    elif empty and not may_be_empty:
        reply = ModelReply(error="empty_reply", seconds=seconds)
    else:
        reply = ModelReply(text, seconds=seconds, cut=empty)
    return replace(reply, tokens_in=tokens_in, tokens_out=tokens_out)


def _count(counts: Any, name: str) -> int | None:
    """One of lmms-eval's TokenCounts; None if the model class does not report it (some write 0)."""
    value = getattr(counts, name, None)
    return value if type(value) is int and value > 0 else None


@functools.lru_cache(maxsize=4)  # fast and slow system may be the same weights
def _load(name: str, args: tuple[tuple[str, Any], ...]) -> Any:
    models = require("lmms_eval.models", f"by lmms:{name}")
    wrapper, given = find_wrapper(name), {key: str(value) for key, value in args}
    if fault := argument_fault(wrapper, given) or path_fault(wrapper, given):
        raise Ad2Error(f"lmms:{name}: {fault}")
    settings = {"batch_size": 1, **dict(args)}
    try:
        lm = models.get_model(name)(**settings)
    except Exception as exc:  # a missing package, a wrong argument, missing weights: errors of the user
        reason = " ".join(str(exc).split())[:300] or type(exc).__name__
        raise Ad2Error(f"lmms:{name} cannot be loaded: {type(exc).__name__}: {reason}") from exc
    return lm
