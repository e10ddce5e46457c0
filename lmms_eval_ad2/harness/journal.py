"""Journal of model answers: each is saved when it arrives, so that a killed run loses at most one batch.

File: <run>/journal/rank<R>.jsonl (storage/journal.py), one line per answer: {"key": sha256, "text": answer}, synced
after each batch. The files of all ranks are read at start, so a run can be resumed with another number of ranks.
Unreadable lines are skipped, and their answers requested again.

Key: all inputs of the answer: task, prompt, generation settings, content of the image files, variant (marks, views),
round and repetition index. The coordinate frame is part of the prompt where it matters: a run in another frame does not
ask again for answers whose prompt is the same. The folder belongs to one model (storage/identity.py). Failures, empty
answers and rank padding are not stored.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.version import __version__
from lmms_eval_ad2.harness import batched_generation
from lmms_eval_ad2.harness.batched_generation import GenerateFn, request_parts
from lmms_eval_ad2.harness.several_servers import spread_over_servers
from lmms_eval_ad2.harness.task_data import TASKS
from lmms_eval_ad2.harness.wrapper_guard import CaughtErrors, RefusalGuard, RefusedRequestsError
from lmms_eval_ad2.parsing import failure_reason
from lmms_eval_ad2.storage.identity import digest
from lmms_eval_ad2.storage.image_files import image_sha256
from lmms_eval_ad2.storage.journal import JournalFile, JournalLine, parse_object, scan
from lmms_eval_ad2.storage.redaction import environment_keys, without_keys

ProgressFn = Callable[[int, int], None]  # (answers, requests)


class AnswerJournal:
    """The answers on disk: writes those of one rank, reads those of all."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.path = folder / f"rank{rank}.jsonl"
        self._known: dict[str, str] = {}
        for path in sorted(folder.glob("rank*.jsonl")):
            self._known.update(read_lines(path))
        self._file = JournalFile(self.path)

    def get(self, key: str) -> str | None:
        return self._known.get(key)

    def put(self, answers: Sequence[tuple[str, str]]) -> None:
        """Append answers and sync; failures and empty answers are skipped."""
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
    """Yield (key, text) of every readable line."""
    for line in scan(path, _answer):
        if isinstance(line, JournalLine):
            yield line.value


def _answer(content: bytes) -> tuple[str, str]:
    row = parse_object(content)
    return str(row["key"]), str(row["text"])


class ImageHashes:
    """Content hashes of image files, computed once per file."""

    def __init__(self) -> None:
        self._seen: dict[tuple[Path, str], str] = {}

    def __call__(self, root: Path, name: str) -> str:
        if (root, name) not in self._seen:
            try:
                self._seen[root, name] = image_sha256(root, name)
            except OSError:
                self._seen[root, name] = "unreadable"  # rendering the image raises the error, with the file's name
        return self._seen[root, name]


def request_key(lm: Any, request: Any, images: Callable[[Path, str], str]) -> str:
    """Return the sha256 over all inputs of the answer; the record's JSON covers its marks and texts."""
    context, gen, row, task = request_parts(lm, request)
    info = TASKS[task]
    record = info.records[row].as_py()
    inputs = [
        __version__,
        task,
        record,
        context,
        gen,
        _asked(lm, info.variant.changes()),
        [images(info.image_root, name) for name in json.loads(record)["images"]],
        (request.metadata or {}).get("ad2_step", 0),
    ]
    return digest(inputs)


def _asked(lm: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that affect answers beyond the prompt; the baselines' answers are written in the frame."""
    own = getattr(lm, "answers_in_frame", False)
    return {key: value for key, value in changes.items() if own or key not in ("frame", "model_input")}


@contextmanager
def attach(lm: Any, journal: AnswerJournal | None, progress: ProgressFn | None = None) -> Iterator[None]:
    """Within the block, `lm.generate_until` reads and writes the journal and generates one task at a time.

    progress: called with (answers, requests) instead of showing a bar.
    """
    own = vars(lm).get("generate_until")  # set on the instance by the caller: restored at the end
    spread_over_servers(getattr(lm, "client", None))
    original, guard = lm.generate_until, RefusalGuard(lm)
    lm.generate_until = lambda requests: _generate(lm, original, list(requests), journal, guard, progress)
    try:
        yield
    finally:
        del lm.generate_until
        if own is not None:
            lm.generate_until = own
        if journal:
            journal.close()


def _generate(
    lm: Any, generate: GenerateFn, requests: list[Any], journal: AnswerJournal | None, guard: RefusalGuard,
    progress: ProgressFn | None,
) -> list[Any]:  # fmt: skip
    ours = [i for i, r in enumerate(requests) if request_parts(lm, r)[3] in TASKS]
    answers: list[Any] = [None] * len(requests)
    others = sorted(set(range(len(requests))) - set(ours))
    if others:
        for i, text in zip(others, generate([requests[i] for i in others]), strict=True):
            answers[i] = text
    keys = _keys(lm, requests, ours) if journal else {}
    known = {i: text for i in ours if journal and (text := journal.get(keys[i])) is not None}
    for i, text in known.items():
        answers[i] = text
    todo = [i for i in ours if i not in known]
    if known:
        print(f"ad2: {len(known)} of {len(ours)} answers are in the journal; requesting {len(todo)}", flush=True)
    saver, caught, done = _Saver(journal, keys, requests), CaughtErrors(lm, generate), len(known)
    try:
        with (
            guard.active(),
            caught.active(),
            tqdm(total=len(todo), desc="answers", disable=bool(getattr(lm, "rank", 0) or not todo or progress)) as bar,
        ):
            for batch in batched_generation.answers(lm, caught.generate, requests, todo, saver.save):
                marked = guard.marked(batch)
                saver.save(marked)
                guard.check(marked.values())
                for i, answer in marked.items():
                    answers[i] = _without_keys(answer, saver.api_keys)
                bar.update(len(batch))
                done += len(batch)
                if progress:
                    progress(done, len(ours))
    except (RefusedRequestsError, asyncio.CancelledError) as exc:
        if guard.refusal is None:
            raise
        kept = "; the answers so far are kept: correct it, then run the same command again" if journal else ""
        raise Ad2Error(f"{guard.refusal}{kept}") from exc
    return answers


class _Saver:
    """Writes each answer to the journal once: whole batches in one write, single answers immediately."""

    def __init__(self, journal: AnswerJournal | None, keys: Mapping[int, str], requests: Sequence[Any]) -> None:
        self._journal, self._keys, self._requests = journal, keys, requests
        self._saved: set[int] = set()
        self.api_keys = environment_keys()

    def save(self, answers: Mapping[int, Any]) -> None:
        if self._journal is None:
            return
        padding = {i for i in answers if (self._requests[i].metadata or {}).get("__padding_only__")}
        new = [i for i in answers if i not in self._saved and i not in padding]
        self._saved.update(new)
        self._journal.put([(self._keys[i], _text(_without_keys(answers[i], self.api_keys))) for i in new])


def _keys(lm: Any, requests: list[Any], ours: list[int]) -> dict[int, str]:
    images, seen = ImageHashes(), Counter[str]()
    keys = {}
    for i in ours:
        key = request_key(lm, requests[i], images)
        keys[i] = f"{key}:{seen[key]}"
        seen[key] += 1
    return keys


def _without_keys(answer: Any, api_keys: Sequence[str]) -> Any:
    """The answer without API keys, which an endpoint may repeat in a completion: answers are stored."""
    if isinstance(answer, str):
        return without_keys(answer, api_keys)
    if type(answer) in (list, tuple):
        return type(answer)(_without_keys(part, api_keys) for part in answer)
    if dataclasses.is_dataclass(answer) and not isinstance(answer, type) and hasattr(answer, "text"):
        return dataclasses.replace(answer, text=_without_keys(answer.text, api_keys))
    return answer


def _text(answer: Any) -> str:
    from lmms_eval.api.instance import unwrap_generation_output

    text, _ = unwrap_generation_output(answer)
    return text if isinstance(text, str) else ""
