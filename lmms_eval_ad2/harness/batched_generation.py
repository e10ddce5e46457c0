"""Ask a model for many answers so that each is known as early as possible.

Local models: in batches of their own size. Endpoints (anything with `num_concurrent`): one request
a call, as many calls at once. `async_openai`: one call for all, its answers noticed as they arrive.

One task a model call: with several tasks in one call and batch > 1, many wrappers of lmms-eval
take images from the wrong task.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

from lmms_eval_ad2.errors import DataError

Ask = Callable[[list[Any]], list[Any]]
Save = Callable[[dict[int, Any]], None]

ASYNC_MODEL = "lmms_eval.models.chat.async_openai"
# The endpoint wrappers of lmms-eval encode to PNG by default: 25 times slower, four times larger.
IMAGE_ENCODING = {"LMMS_IMAGE_ENCODE_FORMAT": "JPEG", "LMMS_IMAGE_JPEG_QUALITY": "95"}
NO_MEDIA = "[AD2_MEDIA_FAILED]"
NO_TEXT = "[GENERATION_FAILED] the model returned no text"


def request_parts(lm: Any, request: Any) -> tuple[str, Any, int, str]:
    """(context, generation settings, doc id, task) of a simple or chat request."""
    args = request.args
    gen = args[1] if getattr(lm, "is_simple", True) else args[2]
    return args[0], gen, args[3], args[4]


def clean(answer: Any) -> Any:
    """An answer that can be stored and read: no text is a failure, not the word "None"; no lone surrogates."""
    text = answer if isinstance(answer, str) else getattr(answer, "text", answer)
    if text is None:
        return NO_TEXT
    if not isinstance(text, str):
        return answer
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return answer if whole == text else whole


def answers(lm: Any, ask: Ask, requests: list[Any], todo: list[int], save: Save) -> Iterator[dict[int, Any]]:
    """Answers by index for `todo`, as they come. `save` gets early what is known before its batch is whole."""
    safe = _safely(ask)
    with _quiet(lm), _encoding():
        if type(lm).__module__ == ASYNC_MODEL and hasattr(lm, "maybe_forward_with_tool"):
            batches = _stream_async(lm, ask, requests, todo, save)
        elif getattr(lm, "num_concurrent", None) and not getattr(lm, "adaptive_concurrency", False):
            batches = _threads(int(lm.num_concurrent), safe, requests, todo)
        else:
            batches = _batches(lm, safe, requests, todo)
        for batch in batches:
            yield {i: clean(a) for i, a in batch}


def _safely(ask: Ask) -> Ask:
    """A batch with an unreadable image is asked one by one: that sample fails, and the run goes on."""

    def asking(requests: list[Any]) -> list[Any]:
        try:
            return ask(requests)
        except DataError as exc:
            if len(requests) > 1:
                return [a for r in requests for a in asking([r])]
            print(f"ad2: not asked: {exc}", file=sys.stderr, flush=True)
            return [f"{NO_MEDIA} {exc}"]

    return asking


def _batch_size(lm: Any) -> int:
    """The model's batch size: what it would take in one go anyway."""
    for name in ("batch_size", "batch_size_per_gpu"):
        try:
            size = getattr(lm, name, None)
        except Exception:  # a property of the host that needs what this model has not
            continue
        if isinstance(size, int) and size > 0:
            return size
    return 1


def _batches(lm: Any, ask: Ask, requests: list[Any], todo: list[int]) -> Iterator[list[tuple[int, Any]]]:
    """Batches of the model's own size, long prompts first as its own sorting would have them."""
    size = _batch_size(lm)
    by_task: dict[str, list[int]] = {}
    for i in todo:
        by_task.setdefault(request_parts(lm, requests[i])[3], []).append(i)
    for indices in by_task.values():
        ordered = sorted(indices, key=lambda i: -len(request_parts(lm, requests[i])[0])) if size > 1 else indices
        for start in range(0, len(ordered), size):
            batch = ordered[start : start + size]
            yield list(zip(batch, ask([requests[i] for i in batch]), strict=True))


def _threads(workers: int, ask: Ask, requests: list[Any], todo: list[int]) -> Iterator[list[tuple[int, Any]]]:
    """`workers` requests in flight, each noticed on arrival; images are encoded in the threads."""
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        futures = {pool.submit(ask, [requests[i]]): i for i in todo}
        try:
            for future in as_completed(futures):
                yield [(futures[future], future.result()[0])]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _stream_async(
    lm: Any, ask: Ask, requests: list[Any], todo: list[int], save: Save
) -> Iterator[list[tuple[int, Any]]]:
    """One call for all: its client belongs to the event loop of that call. Each reply is saved when it is there."""
    original = lm.maybe_forward_with_tool

    async def forward(request: Any, position: int) -> Any:
        reply = await original(request, position)
        save({todo[position]: clean(reply[0])})
        return reply

    lm.maybe_forward_with_tool = forward
    try:
        yield list(zip(todo, ask([requests[i] for i in todo]), strict=True)) if todo else []
    finally:
        del lm.maybe_forward_with_tool


@contextmanager
def _encoding() -> Iterator[None]:
    """Set how images are sent, for our requests only; what the user has set stays."""
    mine = [k for k in IMAGE_ENCODING if k not in os.environ]
    os.environ.update({k: IMAGE_ENCODING[k] for k in mine})
    try:
        yield
    finally:
        for key in mine:
            os.environ.pop(key, None)


class _SilentProgress:
    """A tqdm that shows nothing: a model called once a batch would print a bar each time."""

    def __init__(self, iterable: Any = None, **_: Any) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterable or ())

    def __enter__(self) -> _SilentProgress:
        return self

    def __exit__(self, *_: Any) -> None:
        return

    def __getattr__(self, _: str) -> Any:
        return lambda *args, **kwargs: None


@contextmanager
def _quiet(lm: Any) -> Iterator[None]:
    """Hide the wrapper's own progress bars; ours counts across batches."""
    modules = {m for c in type(lm).__mro__ if (m := sys.modules.get(c.__module__)) and hasattr(m, "tqdm")}
    saved = {m: m.tqdm for m in modules}
    for module in modules:
        module.tqdm = _SilentProgress  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, bar in saved.items():
            module.tqdm = bar  # type: ignore[attr-defined]
