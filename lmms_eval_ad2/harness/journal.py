"""Every model answer is saved as it comes, so that kill -9 loses at most the batch in flight.

File: <run>/journal/rank<R>.jsonl, one line an answer: {"key": sha256, "text": answer}. Lines
are appended whole and synced after each batch; a torn last line is skipped. All ranks' files
are read at start, so a run begun on one rank goes on on two.

Key: all inputs of the answer: task, prompt, generation settings, image files' content, the
variant (marks, views), round, and the how-manyth repetition. The folder is the model's (scoring/store.py).
Failures, empty answers and rank padding are not stored: they are asked again.

One task a model call: with several tasks in one call and batch > 1, many wrappers of lmms-eval
take images from the wrong task.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

import lmms_eval_ad2
from lmms_eval_ad2.harness.data import TASKS
from lmms_eval_ad2.parsing import failure_reason

API_MODELS = ("lmms_eval.models.chat.openai", "lmms_eval.models.simple.openai")


class Journal:
    """Answers on disk for one rank; reads those of all ranks."""

    def __init__(self, folder: Path, rank: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"rank{rank}.jsonl"
        self._known: dict[str, str] = {}
        for path in sorted(folder.glob("rank*.jsonl")):
            self._known.update(read_lines(path))
        _mend_tail(self.path)
        self._handle = self.path.open("a", encoding="utf-8")

    def get(self, key: str) -> str | None:
        return self._known.get(key)

    def put(self, answers: Sequence[tuple[str, str]]) -> None:
        """Append and sync; failures and empty answers stay out."""
        lines = [
            json.dumps({"key": k, "text": t}, ensure_ascii=False) + "\n"
            for k, t in answers
            if isinstance(t, str) and t.strip() and not failure_reason(t)
        ]
        if lines:
            self._handle.write("".join(lines))
            self._handle.flush()
            os.fsync(self._handle.fileno())

    def close(self) -> None:
        self._handle.close()


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """(key, text) of every whole line; a torn one (the last, after a kill) is skipped."""
    with path.open(encoding="utf-8", errors="replace") as handle:
        for line in handle:
            try:
                row = json.loads(line)
                yield str(row["key"]), str(row["text"])
            except (ValueError, KeyError, TypeError):
                continue


def _mend_tail(path: Path) -> None:
    """End a torn last line, so that the next one starts on its own."""
    if path.exists() and path.stat().st_size:
        with path.open("rb+") as handle:
            handle.seek(-1, os.SEEK_END)
            if handle.read(1) != b"\n":
                handle.write(b"\n")


class _Images:
    """Content hashes of image files, computed once a file."""

    def __init__(self) -> None:
        self._seen: dict[Path, str] = {}

    def __call__(self, path: Path) -> str:
        if path not in self._seen:
            try:
                self._seen[path] = hashlib.sha256(path.read_bytes()).hexdigest()
            except OSError:
                self._seen[path] = "unreadable"  # rendering will say so, with the file's name
        return self._seen[path]


def request_parts(lm: Any, request: Any) -> tuple[str, Any, int, str]:
    """(context, generation settings, doc id, task) of a simple or chat request."""
    args = request.args
    gen = args[1] if getattr(lm, "is_simple", True) else args[2]
    return args[0], gen, args[3], args[4]


def request_key(lm: Any, request: Any, images: Callable[[Path], str]) -> str:
    """sha256 over all inputs of the answer. The record's own JSON stands for its marks and everything else in it."""
    context, gen, row, task = request_parts(lm, request)
    info = TASKS[task]
    record = info.records[row].as_py()
    inputs = [
        lmms_eval_ad2.__version__,
        task,
        record,
        context,
        gen,
        info.variant.changes(),
        [images(info.image_root / name) for name in json.loads(record)["images"]],
        (request.metadata or {}).get("ad2_step", 0),
    ]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()


@contextmanager
def attach(lm: Any, journal: Journal | None) -> Iterator[None]:
    """Let `lm.generate_until` save as it goes (and ask one task at a time), for the length of the block."""
    original = lm.generate_until
    lm.generate_until = lambda requests: _generate(lm, original, list(requests), journal)
    try:
        yield
    finally:
        del lm.generate_until
        if journal:
            journal.close()


def _generate(
    lm: Any, ask: Callable[[list[Any]], list[Any]], requests: list[Any], journal: Journal | None
) -> list[Any]:
    mine = [i for i, r in enumerate(requests) if request_parts(lm, r)[3] in TASKS]
    answers: list[Any] = [None] * len(requests)
    others = sorted(set(range(len(requests))) - set(mine))
    if others:
        for i, text in zip(others, ask([requests[i] for i in others]), strict=True):
            answers[i] = text
    keys = _keys(lm, requests, mine) if journal else {}
    todo = []
    for i in mine:
        known = journal.get(keys[i]) if journal else None
        if known is None:
            todo.append(i)
        else:
            answers[i] = known
    if journal and len(todo) < len(mine):
        print(
            f"ad2: {len(mine) - len(todo)} of {len(mine)} answers were there already; asking for {len(todo)}",
            flush=True,
        )
    with _quiet(lm), tqdm(total=len(todo), desc="answers", disable=getattr(lm, "rank", 0) != 0 or not todo) as bar:
        for batch, texts in _batches(lm, ask, requests, todo):
            for i, text in zip(batch, texts, strict=True):
                answers[i] = text
            if journal:
                journal.put([
                    (keys[i], _text(t)) for i, t in zip(batch, texts, strict=True) if not _padding(requests[i])
                ])  # fmt: skip
            bar.update(len(batch))
    return answers


def _keys(lm: Any, requests: list[Any], mine: list[int]) -> dict[int, str]:
    images, seen = _Images(), Counter[str]()
    keys = {}
    for i in mine:
        key = request_key(lm, requests[i], images)
        keys[i] = f"{key}:{seen[key]}"
        seen[key] += 1
    return keys


def _padding(request: Any) -> bool:
    return bool((request.metadata or {}).get("__padding_only__"))


def _text(answer: Any) -> str:
    from lmms_eval.api.instance import unwrap_generation_output

    text, _ = unwrap_generation_output(answer)
    return text if isinstance(text, str) else ""


def batch_size_of(lm: Any) -> int:
    """The model's batch size: what it would take in one go anyway."""
    for name in ("batch_size", "batch_size_per_gpu"):
        size = getattr(lm, name, None)
        if isinstance(size, int) and size > 0:
            return size
    return 1


def _batches(
    lm: Any, ask: Callable[[list[Any]], list[Any]], requests: list[Any], todo: list[int]
) -> Iterator[tuple[list[int], list[Any]]]:
    """Ask in batches of the model's own size, long prompts first as its own sorting would have them."""
    if type(lm).__module__ in API_MODELS and not getattr(lm, "adaptive_concurrency", False):
        yield from _threads(lm, ask, requests, todo)
        return
    size = batch_size_of(lm)
    by_task: dict[str, list[int]] = {}
    for i in todo:
        by_task.setdefault(request_parts(lm, requests[i])[3], []).append(i)
    for indices in by_task.values():
        ordered = sorted(indices, key=lambda i: -len(request_parts(lm, requests[i])[0])) if size > 1 else indices
        for start in range(0, len(ordered), size):
            batch = ordered[start : start + size]
            yield batch, ask([requests[i] for i in batch])


def _threads(
    lm: Any, ask: Callable[[list[Any]], list[Any]], requests: list[Any], todo: list[int]
) -> Iterator[tuple[list[int], list[Any]]]:
    """An endpoint: `num_concurrent` requests in flight, each saved on arrival; images are encoded in the threads."""
    with ThreadPoolExecutor(max_workers=max(1, int(getattr(lm, "num_concurrent", 1)))) as pool:
        futures = {pool.submit(ask, [requests[i]]): i for i in todo}
        try:
            for future in as_completed(futures):
                yield [futures[future]], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class _NoBar:
    """A tqdm that shows nothing: a model called once a batch would print a bar each time."""

    def __init__(self, iterable: Any = None, **_: Any) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterable or ())

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *_: Any) -> None:
        return

    def __getattr__(self, _: str) -> Any:
        return lambda *args, **kwargs: None


@contextmanager
def _quiet(lm: Any) -> Iterator[None]:
    """Hide the wrapper's own progress bars; ours counts across batches."""
    import sys

    modules = {m for c in type(lm).__mro__ if (m := sys.modules.get(c.__module__)) and hasattr(m, "tqdm")}
    saved = {m: m.tqdm for m in modules}
    for module in modules:
        module.tqdm = _NoBar  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, bar in saved.items():
            module.tqdm = bar  # type: ignore[attr-defined]
