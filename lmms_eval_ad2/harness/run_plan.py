"""What a run would do, without lmms-eval: records, images and requests of each task, and requests to an LLM judge.

Answers that an earlier run has left in the journal of the same folder are not requested again. They are recognised by
the journal's own keys, so the prompts and the content of the images are compared. Where that would take too long, or
where options of lmms-eval change the prompts, the number of requests is an upper bound.
"""

from __future__ import annotations

import argparse
import functools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.harness import hooks, task_data
from lmms_eval_ad2.harness.journal import ImageHashes, read_lines, request_key
from lmms_eval_ad2.harness.run_identity import identity
from lmms_eval_ad2.harness.task_data import LoadedTask
from lmms_eval_ad2.harness.task_files import TaskFile
from lmms_eval_ad2.judge.base import JudgeItem
from lmms_eval_ad2.prompts.views import shown
from lmms_eval_ad2.scoring.judge_ratings import to_rate
from lmms_eval_ad2.scoring.reference_answers import chain, reference
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.storage.identity import run_folder
from lmms_eval_ad2.storage.shards import RunShard, shard_of_environment

ROWS_READ = 30_000  # of all tasks together; of more, a random sample of this size is read
BYTES_HASHED = 2**30  # of images, to recognise answers of an earlier run
T = TypeVar("T")
CERTAINTIES = ("", "at most ", "about ")  # of a number of requests, from the most certain
_SEEDS = "0,1234,1234,1234"  # lmms-eval's default
_PROMPT_OPTIONS = ("system_instruction", "apply_chat_template", "fewshot_as_multiturn", "num_fewshot", "gen_kwargs")


@dataclass(frozen=True, slots=True)
class HostOptions:
    """Options of lmms-eval that determine requests and their folder; `same_prompts`: none changes the prompts."""

    limit: float | None
    offset: int
    repeats: int
    force_simple: bool
    same_prompts: bool
    parsed: argparse.Namespace  # with the options that are part of the run's identity
    shard: RunShard | None = None

    @classmethod
    def parse(cls, words: Sequence[str]) -> HostOptions:
        """Read lmms-eval's command line; other options are ignored. Raises Ad2Error for a value of the wrong type."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
        parser.add_argument("--limit", type=float)
        parser.add_argument("--offset", type=int, default=0)
        parser.add_argument("--repeats", "--num_samples", "-n", type=int, default=1)
        parser.add_argument("--seed", default=_SEEDS)
        for name in ("force_simple", "apply_chat_template", "fewshot_as_multiturn"):
            parser.add_argument(f"--{name}", action="store_true")
        for name in ("system_instruction", "num_fewshot", "gen_kwargs"):
            parser.add_argument(f"--{name}")
        try:
            found, _ = parser.parse_known_args(list(words))
            found.seed = _seeds(found.seed)
        except (argparse.ArgumentError, ValueError) as exc:
            raise Ad2Error(f"options of lmms-eval: {exc}") from exc
        same = not any(getattr(found, name) for name in _PROMPT_OPTIONS)
        return cls(
            limit=found.limit, offset=found.offset, repeats=found.repeats, force_simple=found.force_simple,
            same_prompts=same, parsed=found, shard=shard_of_environment(),
        )  # fmt: skip

    def rows(self, task: LoadedTask) -> list[int]:
        """The rows of a task that are asked."""
        n = int(task.data["n"])
        if self.limit is None or self.limit == -1:
            count = n
        else:
            count = math.ceil(n * self.limit) if 0 < self.limit < 1 else int(self.limit)
        rows = range(min(self.offset, n), min(self.offset + count, n))
        return [row for row in rows if self.shard is None or self.shard.has(task.question_of(row))]


def _seeds(text: str) -> list[int | None]:
    """As lmms-eval: one seed for all four, or four; missing ones have their default."""
    seeds = [None if part.strip().lower() == "none" else int(part) for part in text.split(",")]
    if len(seeds) == 1:
        return seeds * 4
    return seeds + [int(part) for part in _SEEDS.split(",")][len(seeds) :]


def folder_of(out: Path, model: str, model_args: str, host: HostOptions) -> Path:
    """The folder of the run below `out`."""
    part = host.shard.folder if host.shard else ""
    return run_folder(out, model, identity(model, model_args, host.parsed), part)


@dataclass(slots=True)
class TaskPlan:
    """One task. `requests` and `judge_items` are still to come; `read` rows of `questions` were examined.

    images: distinct ones that are shown; missing: those that are no files. certainty: of `requests`, one of
    CERTAINTIES. judge_items: texts to be rated, estimated from the references where there is no answer yet.
    """

    task: TaskFile
    questions: int = 0
    read: int = 0
    requests: int = 0
    answered: int = 0
    certainty: str = ""
    images: int = 0
    missing: list[str] = field(default_factory=list)
    judge_items: list[JudgeItem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fault: str = ""

    def scaled(self, number: int) -> int:
        """A number of the rows read, for all questions."""
        return math.ceil(number * self.questions / self.read) if self.read else 0


class RunPlanner:
    """Plans tasks on records. `folder`: of the run, whose journal is read."""

    def __init__(self, host: HostOptions, folder: Path | None) -> None:
        self._host = host
        self._known = _answers(folder) if folder and host.same_prompts and host.repeats == 1 else {}
        self._maybe_known = bool(folder and not self._known and _answers(folder))
        self._hashes = _BoundedHashes()
        self._is_file = functools.cache(Path.is_file)

    def plan(self, tasks: Sequence[TaskFile]) -> list[TaskPlan]:
        """One plan per task; a task that cannot be read has a `fault`."""
        plans = [TaskPlan(task) for task in tasks]
        loaded = {plan.task.name: loaded for plan in plans if (loaded := self._load(plan))}
        total = sum(plan.questions for plan in plans)
        for plan in plans:
            if plan.task.name in loaded:
                try:
                    self._examine(plan, loaded[plan.task.name], share=min(1.0, ROWS_READ / max(1, total)))
                except Ad2Error as exc:
                    plan.fault = f"task {plan.task.name}: {exc}"
        return plans

    def _load(self, plan: TaskPlan) -> LoadedTask | None:
        task = plan.task
        try:
            loaded, _ = task_data.read(task.name, task.dataset, task.split, task.variant())
        except Ad2Error as exc:
            plan.fault = str(exc)
            return None
        plan.questions = len(self._host.rows(loaded))
        if not plan.questions and self._host.offset >= int(loaded.data["n"]) and self._host.offset:
            plan.fault = f"--offset {self._host.offset}: task {task.name} has {loaded.data['n']} records"
            return None
        plan.notes = task_data.notes(loaded)
        return loaded

    def _examine(self, plan: TaskPlan, task: LoadedTask, share: float) -> None:
        images: dict[str, bool] = {}
        answered = requests = 0
        for row in sample(self._host.rows(task), share):
            record = Record.from_json(task.records[row].as_py())
            plan.read += 1
            for _, name in shown(record, task.variant.views):
                images[name] = images[name] if name in images else self._is_file(task.image_root / name)
            replies = self._replies(plan.task, task, record, row)
            turns = len(record.steps) if task.variant.rounds else 1
            answered += len(replies)
            requests += (turns - len(replies)) * self._host.repeats
            plan.judge_items += _to_judge(record, task, replies if len(replies) == turns else None)
        plan.images, plan.missing = len(images), [name for name, there in images.items() if not there]
        plan.answered, plan.requests = plan.scaled(answered), plan.scaled(requests)
        if share < 1 and (self._known or task.variant.rounds):
            plan.certainty = "about "
        elif self._maybe_known or self._hashes.exhausted:
            plan.certainty = "at most "

    def _replies(self, file: TaskFile, task: LoadedTask, record: Record, row: int) -> list[str]:
        """The answers of an earlier run: one, or one per round until the first that is missing."""
        replies: list[str] = []
        if not self._known:
            return replies
        for step in range(len(record.steps) if task.variant.rounds else 1):
            context = hooks.round_of(record, task, step, replies) if step else hooks.prompt_of(record, task)
            request = SimpleNamespace(
                args=(context, _generation(file), None, row, task.name, file.split),
                metadata={"ad2_step": step},
            )
            text = self._known.get(f"{request_key(None, request, self._hashes)}:0")
            if text is None:
                break
            replies.append(text)
        return replies


def sample(items: Sequence[T], share: float) -> list[T]:
    """A random share of the items, in order; the same ones each time."""
    chosen = random.Random(0).sample(range(len(items)), math.ceil(share * len(items)))
    return [items[i] for i in sorted(chosen)]


class _BoundedHashes(ImageHashes):
    """Hashes of image files; "unknown" after BYTES_HASHED, so that a large set cannot delay the plan."""

    def __init__(self) -> None:
        super().__init__()
        self._left = BYTES_HASHED
        self.exhausted = False

    def __call__(self, root: Path, name: str) -> str:
        if (root, name) not in self._seen:
            path = root / name
            self._left -= path.stat().st_size if path.is_file() else 0
            if self._left < 0:
                self.exhausted = True
                return "unknown"
        return super().__call__(root, name)


def _answers(folder: Path) -> dict[str, str]:
    """All answers in the journal of a run, by key."""
    return {key: text for path in sorted((folder / "journal").glob("rank*.jsonl")) for key, text in read_lines(path)}


def _generation(task: TaskFile) -> Mapping[str, Any]:
    """The generation settings of a request, as lmms-eval makes them from the task file."""
    settings = {k: v for k, v in task.generation.items() if k != "max_agentic_steps"}
    if "temperature" in settings:
        settings["temperature"] = float(settings["temperature"])
    return settings


def _to_judge(record: Record, task: LoadedTask, replies: Sequence[str] | None) -> Iterator[JudgeItem]:
    """The texts to be rated for one record; without an answer the reference stands for it."""
    if not task.variant.judge or task.variant.asked_form(record) not in ("vqa", "chain"):
        return
    raw: str | Sequence[str]
    if replies is None:
        raw = _stand_in(record, task)
    else:
        raw = replies if task.variant.rounds else replies[0].strip()
    yield from to_rate(score_sample(record, raw, task.variant, task.name))


def _stand_in(record: Record, task: LoadedTask) -> str | Sequence[str]:
    variant = task.variant
    if variant.asked_form(record) == "vqa":
        return str(reference(record, "vqa", variant.lang) or "?")
    steps = [str(reference(record, "chain", variant.lang, i) or "?") for i in range(len(record.steps))]
    return steps if variant.rounds else chain(steps)
