"""Every model answer is saved as it comes, so that kill -9 loses at most the batch in flight.

File: <run>/journal/rank<R>.jsonl (storage/journal.py), one line an answer: {"key": sha256,
"text": answer}, synced after each batch. All ranks' files are read at start, so a run begun on
one rank goes on on two. A line that cannot be read is skipped: its answer is asked for again.

Key: all inputs of the answer: task, prompt, generation settings, image files' content, the
variant (marks, views), round, and the how-manyth repetition. The folder is the model's (storage/identity.py).
Failures, empty answers and rank padding are not stored: they are asked again.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

import lmms_eval_ad2
from lmms_eval_ad2.harness import batched_generation
from lmms_eval_ad2.harness.batched_generation import Ask, request_parts
from lmms_eval_ad2.harness.task_data import TASKS
from lmms_eval_ad2.parsing import failure_reason
from lmms_eval_ad2.storage.identity import digest
from lmms_eval_ad2.storage.journal import JournalFile, JournalLine, parse_object, scan


class AnswerJournal:
    """Answers on disk for one rank; reads those of all ranks."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.path = folder / f"rank{rank}.jsonl"
        self._known: dict[str, str] = {}
        for path in sorted(folder.glob("rank*.jsonl")):
            self._known.update(read_lines(path))
        self._file = JournalFile(self.path)

    def get(self, key: str) -> str | None:
        return self._known.get(key)

    def put(self, answers: Sequence[tuple[str, str]]) -> None:
        """Append and sync; failures and empty answers stay out."""
        lines = [
            json.dumps({"key": k, "text": t}, ensure_ascii=False).encode()
            for k, t in answers
            if isinstance(t, str) and t.strip() and not failure_reason(t)
        ]
        if lines:
            self._file.append(*lines)

    def close(self) -> None:
        self._file.close()


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """(key, text) of every completed line that can be read."""
    for line in scan(path, _answer):
        if isinstance(line, JournalLine):
            yield line.value


def _answer(content: bytes) -> tuple[str, str]:
    row = parse_object(content)
    return str(row["key"]), str(row["text"])


class _ImageHashes:
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
    return digest(inputs)


@contextmanager
def attach(lm: Any, journal: AnswerJournal | None) -> Iterator[None]:
    """Let `lm.generate_until` save as it goes (and ask one task at a time), for the length of the block."""
    own = vars(lm).get("generate_until")  # the caller may have set one on the instance: it comes back
    original = lm.generate_until
    lm.generate_until = lambda requests: _generate(lm, original, list(requests), journal)
    try:
        yield
    finally:
        del lm.generate_until
        if own is not None:
            lm.generate_until = own
        if journal:
            journal.close()


def _generate(lm: Any, ask: Ask, requests: list[Any], journal: AnswerJournal | None) -> list[Any]:
    mine = [i for i, r in enumerate(requests) if request_parts(lm, r)[3] in TASKS]
    answers: list[Any] = [None] * len(requests)
    others = sorted(set(range(len(requests))) - set(mine))
    if others:
        for i, text in zip(others, ask([requests[i] for i in others]), strict=True):
            answers[i] = text
    keys = _keys(lm, requests, mine) if journal else {}
    known = {i: text for i in mine if journal and (text := journal.get(keys[i])) is not None}
    for i, text in known.items():
        answers[i] = text
    todo = [i for i in mine if i not in known]
    if known:
        print(f"ad2: {len(known)} of {len(mine)} answers were there already; asking for {len(todo)}", flush=True)
    saver = _Saver(journal, keys, requests)
    with tqdm(total=len(todo), desc="answers", disable=getattr(lm, "rank", 0) != 0 or not todo) as bar:
        for batch in batched_generation.answers(lm, ask, requests, todo, saver.save):
            saver.save(batch)
            for i, answer in batch.items():
                answers[i] = answer
            bar.update(len(batch))
    return answers


class _Saver:
    """Hands answers to the journal, each once: a batch in one write, what arrives by itself at once."""

    def __init__(self, journal: AnswerJournal | None, keys: Mapping[int, str], requests: Sequence[Any]) -> None:
        self._journal, self._keys, self._requests = journal, keys, requests
        self._saved: set[int] = set()

    def save(self, answers: Mapping[int, Any]) -> None:
        if self._journal is None:
            return
        new = [i for i in answers if i not in self._saved and not _padding(self._requests[i])]
        self._saved.update(new)
        self._journal.put([(self._keys[i], _text(answers[i])) for i in new])


def _keys(lm: Any, requests: list[Any], mine: list[int]) -> dict[int, str]:
    images, seen = _ImageHashes(), Counter[str]()
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
