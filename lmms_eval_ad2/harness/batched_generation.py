"""Batched generation in which each answer is available as early as possible.

Local models: batches of the model's own size. Endpoints (models with `num_concurrent`): one request per call, that many
calls at once. `async_openai`: a single call, with each answer saved as it arrives.

Each call contains a single task: with several tasks and batch > 1, many wrappers of lmms-eval take images from the
wrong task.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from typing import Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.harness.wrapper_guard import NO_TEXT, RefusedRequestsError

GenerateFn = Callable[[list[Any]], list[Any]]  # requests -> answers
SaveFn = Callable[[dict[int, Any]], None]  # answers by request index

ASYNC_MODEL = "lmms_eval.models.chat.async_openai"
# The endpoint wrappers of lmms-eval encode to PNG by default: 25 times slower, four times larger.
IMAGE_ENCODING = {"LMMS_IMAGE_ENCODE_FORMAT": "JPEG", "LMMS_IMAGE_JPEG_QUALITY": "95"}
_METRICS = "lmms_eval.models.model_utils.gen_metrics"
NO_MEDIA = "[AD2_MEDIA_FAILED]"


def request_parts(lm: Any, request: Any) -> tuple[str, Any, int, str]:
    """Return (context, generation settings, doc id, task) of a simple or chat request."""
    args = request.args
    gen = args[1] if getattr(lm, "is_simple", True) else args[2]
    return args[0], gen, args[3], args[4]


def clean(answer: Any) -> Any:
    """Return a storable answer: no text becomes a failure text, lone surrogates are replaced."""
    text = answer if isinstance(answer, str) else getattr(answer, "text", answer)
    if text is None:
        return NO_TEXT
    if not isinstance(text, str):
        return answer
    valid = text.encode("utf-8", "replace").decode("utf-8")
    return answer if valid == text else valid


def answers(
    lm: Any, generate: GenerateFn, requests: list[Any], todo: list[int], save: SaveFn
) -> Iterator[dict[int, Any]]:
    """Yield answers by index for the requests `todo`, as they arrive. `save` gets answers of an unfinished batch."""
    isolating = _isolate_failures(generate)
    with _hidden_progress_bars(lm), _quiet_metrics(), _image_encoding():
        if type(lm).__module__ == ASYNC_MODEL and hasattr(lm, "maybe_forward_with_tool"):
            batches = _stream_async(lm, generate, requests, todo, save)
        elif getattr(lm, "num_concurrent", None) and not getattr(lm, "adaptive_concurrency", False):
            batches = _threads(int(lm.num_concurrent), isolating, requests, todo)
        else:
            batches = _batches(lm, isolating, requests, todo)
        for batch in batches:
            yield {i: clean(a) for i, a in batch}


def _isolate_failures(generate: GenerateFn) -> GenerateFn:
    """Repeat a batch with an unreadable image one by one, so that only that sample fails."""

    def call(requests: list[Any]) -> list[Any]:
        try:
            return generate(requests)
        except DataError as exc:
            if len(requests) > 1:
                return [a for r in requests for a in call([r])]
            show(f"ad2: sample skipped: {exc}", file=sys.stderr, flush=True)
            return [f"{NO_MEDIA} {exc}"]

    return call


def _batch_size(lm: Any) -> int:
    """The batch size of the model; 1 if it has none."""
    for name in ("batch_size", "batch_size_per_gpu"):
        try:
            size = getattr(lm, name, None)
        except Exception:  # a property of the lmms base class that this model does not support
            continue
        if isinstance(size, int) and size > 0:
            return size
    return 1


def _batches(lm: Any, generate: GenerateFn, requests: list[Any], todo: list[int]) -> Iterator[list[tuple[int, Any]]]:
    """Batches of the model's own size, longest prompts first, as lmms-eval's own sorting does."""
    size = _batch_size(lm)
    by_task: dict[str, list[int]] = {}
    for i in todo:
        by_task.setdefault(request_parts(lm, requests[i])[3], []).append(i)
    for indices in by_task.values():
        ordered = sorted(indices, key=lambda i: -len(request_parts(lm, requests[i])[0])) if size > 1 else indices
        for start in range(0, len(ordered), size):
            batch = ordered[start : start + size]
            yield list(zip(batch, generate([requests[i] for i in batch]), strict=True))


def _threads(
    workers: int, generate: GenerateFn, requests: list[Any], todo: list[int]
) -> Iterator[list[tuple[int, Any]]]:
    """`workers` requests in flight, each yielded when done; images are encoded in the threads.

    A request counts as in flight until its answer has been handled, so that a killed process loses no others: busy
    threads would get far ahead of the one that saves.
    """
    waiting, futures = iter(todo), dict[Future[list[Any]], int]()
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        try:
            while True:
                for i in islice(waiting, max(1, workers) - len(futures)):
                    futures[pool.submit(generate, [requests[i]])] = i
                if not futures:
                    return
                for future in wait(futures, return_when=FIRST_COMPLETED).done:
                    answer = future.result()[0]
                    yield [(futures.pop(future), answer)]
        except RefusedRequestsError:
            pool.shutdown(wait=True, cancel_futures=True)
            yield [(i, f.result()[0]) for f, i in futures.items() if not f.cancelled() and f.exception() is None]
            raise
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _stream_async(
    lm: Any, generate: GenerateFn, requests: list[Any], todo: list[int], save: SaveFn
) -> Iterator[list[tuple[int, Any]]]:
    """A single call, whose client belongs to its event loop. Each reply is saved when it arrives."""
    original = lm.maybe_forward_with_tool

    async def forward(request: Any, position: int) -> Any:
        reply = await original(request, position)
        save({todo[position]: clean(reply[0])})
        return reply

    lm.maybe_forward_with_tool = forward
    try:
        yield list(zip(todo, generate([requests[i] for i in todo]), strict=True)) if todo else []
    finally:
        del lm.maybe_forward_with_tool


@contextmanager
def _image_encoding() -> Iterator[None]:
    """Set the image encoding for our requests only; variables set by the user stay."""
    unset = [k for k in IMAGE_ENCODING if k not in os.environ]
    os.environ.update({k: IMAGE_ENCODING[k] for k in unset})
    try:
        yield
    finally:
        for key in unset:
            os.environ.pop(key, None)


@contextmanager
def _quiet_metrics() -> Iterator[None]:
    """Silence the line "Metric summary" that wrappers log for each call: for an endpoint, one line per answer."""
    from loguru import logger

    logger.disable(_METRICS)
    try:
        yield
    finally:
        logger.enable(_METRICS)


class _SilentProgress:
    """A tqdm without output: a model called once per batch would print a bar each time."""

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
def _hidden_progress_bars(lm: Any) -> Iterator[None]:
    """Hide the wrapper's own progress bars; ours covers all batches."""
    modules = {m for c in type(lm).__mro__ if (m := sys.modules.get(c.__module__)) and hasattr(m, "tqdm")}
    saved = {m: m.tqdm for m in modules}
    for module in modules:
        module.tqdm = _SilentProgress  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, bar in saved.items():
            module.tqdm = bar  # type: ignore[attr-defined]
