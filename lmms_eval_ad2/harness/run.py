"""An evaluation run: folder, identity, judge, journal, result files, exit code.

Only runs with a task of ours are affected. With `--output_path OUT` the run has the folder OUT/ad2/<model>-<hash>/
(docs/architecture.md): answers are journalled as they arrive, so that repeating the command resumes a killed run.
Without it no answers are kept. The hash covers all that defines the model: arguments, weights, seeds, endpoint.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime as dt
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.command_errors import report_error
from lmms_eval_ad2.core.coordinates import ENV as FRAME_ENV
from lmms_eval_ad2.core.coordinates import HINT, InputResizing, misfit_warnings
from lmms_eval_ad2.core.errors import Ad2Error, import_remedy
from lmms_eval_ad2.core.numbers import environment_number
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.harness import hooks, model_input, run_checks
from lmms_eval_ad2.harness.batched_generation import IMAGE_ENCODING
from lmms_eval_ad2.harness.journal import AnswerJournal, attach
from lmms_eval_ad2.harness.run_identity import LibraryArguments, identity, mark_tasks, redact, versions
from lmms_eval_ad2.harness.task_data import TASKS, check_repeats, take_share, task_settings
from lmms_eval_ad2.harness.task_files import TaskFile, groups, included, task_files
from lmms_eval_ad2.parsing import FAILURES
from lmms_eval_ad2.scoring import judge_ratings, result_files
from lmms_eval_ad2.storage.files import remove_leftovers
from lmms_eval_ad2.storage.identity import UNKNOWN, run_folder
from lmms_eval_ad2.storage.local_weights import model_label
from lmms_eval_ad2.storage.lock import lock_folder
from lmms_eval_ad2.storage.shards import SHARDS, RunShard, shard_of_environment
from lmms_eval_ad2.storage.training_card import TrainingCard, cards_of

PREVIOUS = "summary.previous.json"
# Attributes of lmms-eval's options that change answers or how they are read, besides those of the run's identity.
OPTIONS_OF_ANSWERS = ("repeats", "num_fewshot", "apply_chat_template", "fewshot_as_multiturn", "reasoning_tags")
# Must be equal for tables in one summary.
SAME_SETTINGS = ("limit", "offset", "repeats", "gen_kwargs", "prompts_sha256", "frame")


class EvaluationRun:
    """State of an evaluation run. `folder` is None without --output_path."""

    def __init__(
        self, model: Any = "", model_args: Any = "", cli: Any = None, seed: int = 0, shard: RunShard | None = None
    ) -> None:
        named = str(getattr(cli, "model_name", None) or getattr(model, "name", type(model).__name__))
        self.model = model if isinstance(model, str) else named
        self.model_args, self.cli, self.seed = redact(model_args) if model_args else "", cli, seed
        self.tables: dict[str, dict[str, Any]] = {}
        self.resizing: InputResizing | None = None  # of images by the model; None: not known
        self.cards: list[TrainingCard] = []  # of the model's training data
        self.training: dict[str, Any] = {}
        self._judge: Any = None
        self.ours = False
        out = getattr(cli, "output_path", None)
        self.shard = shard
        self.repeats = int(getattr(cli, "repeats", None) or 1)  # replies to each question
        self.selected: dict[str, int] = {}  # rows of each task in all shards together
        self._identity = identity(model, model_args, cli) if out else {}
        part = self.shard.folder if self.shard else ""
        self.folder = run_folder(Path(out), self.model, self._identity, part) if out else None

    def judge(self) -> Any:
        """The judge of this run (AD2_JUDGE); replies are cached in the run folder, else in the data home."""
        if self._judge is None:
            from lmms_eval_ad2.data.home import home
            from lmms_eval_ad2.judge import make_judge

            folder = self.folder or home()
            folder.mkdir(parents=True, exist_ok=True)
            self._judge = make_judge(None, cache=folder / "judge.sqlite")
        return self._judge

    def begin(self) -> None:
        """Move an earlier summary aside: the folder counts as unfinished until this run is done. Needs its lock."""
        if self.folder is None:
            return
        remove_leftovers(self.folder, self.folder / "samples")
        path = self.folder / "summary.json"
        if path.exists():
            path.replace(path.with_name(PREVIOUS))

    def finish(self) -> None:
        """Write summary.json: the run is done. Earlier tables of other tasks stay if their settings are equal."""
        if not (self.folder and self.tables):
            return
        about = self.describe()
        earlier = result_files.read_summary(self.folder, PREVIOUS) if (self.folder / PREVIOUS).exists() else None
        tables = dict(self.tables)
        if (
            earlier
            and all(earlier["run"].get(k) == about[k] for k in SAME_SETTINGS)
            and earlier["run"].get(SHARDS) == about.get(SHARDS)
            and _same_judge(earlier["run"], about)
        ):
            tables = {**earlier["tasks"], **tables}
            about["versions"] = _both_versions(earlier, about["versions"], kept=earlier["tasks"].keys() - self.tables)
        elif earlier and (lost := sorted(set(earlier["tasks"]) - set(tables))):
            show(f"ad2: an earlier run here had other settings or another judge; no longer in the summary: {lost}")
        path = result_files.write_summary(self.folder, about, tables)
        (self.folder / PREVIOUS).unlink(missing_ok=True)
        if not isinstance(self.cli, LibraryArguments):
            show(f"ad2: results in {path.parent}; tables: ad2 report {path.parent}", flush=True)

    def describe(self) -> dict[str, Any]:
        judge = self._judge
        limit = getattr(self.cli, "limit", None)
        return {
            "model": self.model,
            "model_args": self.model_args,
            "label": self._label(),
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "seed": self.seed,
            "limit": None if limit in (None, -1) else _whole(limit),
            "offset": getattr(self.cli, "offset", 0) or 0,
            "repeats": self.repeats if self.repeats > 1 else None,
            "gen_kwargs": getattr(self.cli, "gen_kwargs", None) or None,
            "policy": "official",  # of the main scores; every cell also has the strict score
            "profile": hooks.prompts().name,
            "prompts_sha256": hooks.prompts().sha256,
            "frame": os.environ.get(FRAME_ENV) or None,  # of all tasks; None: each task's own
            "model_input": self.resizing.to_json() if self.resizing else None,
            "image_encoding": {k: os.environ.get(k, v) for k, v in IMAGE_ENCODING.items()},
            "judge": judge_ratings.judge_record(judge) if judge else None,
            "training": self.training,
            "versions": versions(),
            **self._shards(),
        }

    def _label(self) -> str:
        """The name of the run in tables."""
        asked = f" ({hooks.prompts().published})" if hooks.prompts().published else ""
        return model_label(self.model, self.model_args) + asked

    def _shards(self) -> dict[str, Any]:
        """What a merge compares besides the rest of `describe`, in a shard; empty for a whole run."""
        if self.shard is None:
            return {}
        asked = {name: getattr(self.cli, name, None) for name in OPTIONS_OF_ANSWERS}
        block = {"of": self.shard.of, "included": [self.shard.index], "identity": {**self._identity, **asked}}
        return {SHARDS: block}


def _whole(limit: float) -> float:
    """lmms-eval parses 120 as 120.0; below 1 the limit is a fraction of the records."""
    return int(limit) if float(limit).is_integer() else limit


def _both_versions(earlier: Mapping[str, Any], now: dict[str, str], kept: Collection[str]) -> dict[str, str]:
    """The versions of a summary; if it keeps tables of an earlier one, our own version is that of each."""
    before = str((earlier["run"].get("versions") or {}).get("lmms_eval_ad2", UNKNOWN))
    own = [*(before.split(", ") if kept else []), now["lmms_eval_ad2"]]
    return {**now, "lmms_eval_ad2": ", ".join(dict.fromkeys(own))}


def _same_judge(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two runs have the same judge, apart from its usage."""
    judges = [
        {k: v for k, v in (run.get("judge") or {}).items() if k not in ("usage", "served_as")} for run in (one, other)
    ]
    return judges[0] == judges[1]


_current = EvaluationRun()


def current() -> EvaluationRun:
    return _current


def _tasks(task_dict: Any) -> list[Any]:
    """The tasks of lmms-eval's nested task dictionary."""
    from lmms_eval.evaluator_utils import get_task_list

    return [output.task for output in get_task_list(task_dict) if output.task is not None]


def own_task_names(task_dict: Any) -> list[str]:
    """Names of our tasks in lmms-eval's nested task dictionary."""
    return [task.config.task for task in _tasks(task_dict) if task_settings(task) is not None]


def wrap_evaluate(original: Callable[..., Any]) -> Callable[..., Any]:
    def evaluate(lm: Any, task_dict: Any, *args: Any, **kwargs: Any) -> Any:
        ours = own_task_names(task_dict)
        if not ours:
            return original(lm, task_dict, *args, **kwargs)
        if kwargs.get("response_cache") is not None:
            raise Ad2Error(
                "--use_cache ignores image content and keeps failures, so it cannot be used "
                f"with {', '.join(ours[:3])}: omit it; with --output_path a killed run resumes from its journal"
            )
        return _evaluate(original, lm, task_dict, args, kwargs)

    return evaluate


def _evaluate(original: Callable[..., Any], lm: Any, task_dict: Any, args: Any, kwargs: Any) -> Any:
    run = current()
    run.ours = True
    if run.folder is None and run.cli is not None:
        print(
            "ad2: without --output_path no answers are kept: a killed run cannot be resumed, nor the answers rescored"
        )
    rank = environment_number("RANK", 0)
    check_repeats(run.repeats, own_task_names(task_dict))
    if 0 < float(kwargs.get("limit") or 0) < 1:
        take_share(_tasks(task_dict), kwargs.pop("limit"), int(kwargs.get("offset") or 0))
    with contextlib.ExitStack() as held:
        if rank == 0:
            if run.folder:
                held.enter_context(lock_folder(run.folder))
            run.judge()  # an invalid specification must fail before the model runs for hours
            run.resizing = model_input.of_model(lm)
            _check_input_size(run, own_task_names(task_dict))
        run.training = mark_tasks(run.cards, own_task_names(task_dict), quiet=rank > 0)
        if rank == 0:
            run.begin()
        journal = AnswerJournal(run.folder / "journal", rank) if run.folder else None
        with attach(lm, journal, getattr(run.cli, "progress", None)):
            results = original(lm, task_dict, *args, **kwargs)
        if results is not None:
            run.finish()
            _check_requests(run.tables)
            blocks = {name: table.get("coordinates") for name, table in run.tables.items()}
            for warning in misfit_warnings(blocks, str(run.folder or "RUN")):
                show(f"ad2: {warning}", flush=True)
    return results


def _check_input_size(run: EvaluationRun, tasks: Collection[str]) -> None:
    """Say before the model runs that its input's size is not known, if a task reads answers in pixels of it."""
    variants = [TASKS[name].variant for name in tasks if name in TASKS]
    if run.resizing is None and any(v.frame == "model_input" and not v.model_input for v in variants):
        print(
            f"ad2: frame model_input: how {run.model} resizes images is not known; points and boxes will be unparsed "
            f"(no_model_input_size). Name it: {HINT}", file=sys.stderr, flush=True,
        )  # fmt: skip


def _check_requests(tables: Mapping[str, Any]) -> None:
    """Report failed requests; raise Ad2Error if all of them failed."""
    n_failed, n_requests = failed_requests(tables)
    if n_failed:
        text = f"{n_failed} of {n_requests} requests failed (or their images are unreadable); they are unscored"
        hint = "run the same command again to repeat them"
        if n_failed == n_requests:
            raise Ad2Error(f"{text}; see the messages above, then {hint}")
        show(f"ad2: {text}; {hint}", file=sys.stderr, flush=True)


def failed_requests(tables: Mapping[str, Any]) -> tuple[int, int]:
    """(requests that failed or whose images are unreadable, all requests) of the tables of a run."""
    reasons = [item for table in tables.values() for item in table["reasons"].items()]
    n_failed = sum(n for reason, n in reasons if reason.removeprefix("unscored:") in FAILURES)
    return n_failed, sum(table["n"] for table in tables.values())


def wrap_simple_evaluate(original: Callable[..., Any]) -> Callable[..., Any]:
    def simple_evaluate(model: Any, model_args: Any = None, *args: Any, **kwargs: Any) -> Any:
        global _current
        cli = kwargs.get("cli_args")
        names = kwargs.get("tasks") or ()
        ours = _own_tasks(names, cli)
        destroy_process_group_at_exit()
        try:
            shard = shard_of_environment()
            _current = EvaluationRun(model, model_args, cli, int(kwargs.get("random_seed") or 0), shard)
            if shard:
                _check_shard(shard, names, cli)
            if cli is not None and ours:
                for fault in run_checks.option_faults(cli):
                    raise Ad2Error(fault)
                _check_before_loading(model, model_args, ours, bool(kwargs.get("force_simple")))
            if ours and isinstance(model, str):
                _current.cards = cards_of(model_args or "")
            results = original(model, model_args, *args, **kwargs)
            _name_results(kwargs.get("evaluation_tracker"), model, ours)
            return results
        except (Exception, KeyboardInterrupt) as exc:
            error = exc
            if isinstance(exc, ImportError) and ours and not _current.ours:  # the model is not loaded yet
                remedy = import_remedy(str(exc))
                hint = f": {remedy}" if remedy else ""
                error = Ad2Error(f"--model {model} cannot be run, an import fails: {exc}{hint}")
            # Called as a library, or without a task of ours: the caller, or lmms-eval, handles the error.
            if isinstance(cli, LibraryArguments):
                raise error from exc
            if cli is None or not (ours or isinstance(error, Ad2Error)):
                raise
            exit_after_error(error)

    return simple_evaluate


def _own_tasks(names: Iterable[Any], cli: Any = None) -> list[TaskFile]:
    """Our tasks, and those of --include_path on records, among those of an evaluation.

    lmms-eval has expanded the names from wildcards but not from groups.
    """
    files = {**task_files(), **included(getattr(cli, "include_path", None)).tasks}
    texts = [name for name in names if isinstance(name, str)]  # others are task objects and configurations
    members = [member for name in texts for member in groups().get(name, (name,))]
    return [files[name] for name in members if name in files]


def _name_results(tracker: Any, model: Any, ours: Sequence[TaskFile]) -> None:
    """Let lmms-eval write its results to OUT/<model>/ also if the arguments name no checkpoint, as of the baselines.

    Its server (`lmms-eval serve`) looks for results in such a folder only, and calls a job without one failed.
    """
    about = getattr(tracker, "general_config_tracker", None)
    if ours and isinstance(model, str) and about is not None and not about.model_name_sanitized:
        about.model_name_sanitized = model


def _check_before_loading(model: Any, model_args: Any, tasks: Sequence[TaskFile], force_simple: bool) -> None:
    """Raise Ad2Error for a mistake that would otherwise be found after the model is loaded."""
    name = model if isinstance(model, str) else None
    on_records = any(task.settings for task in tasks)
    for fault in run_checks.faults(name, model_args, force_simple=force_simple, ours=on_records):
        raise Ad2Error(fault)
    for task in tasks:
        found = task.readiness()
        if found.state != "ready":
            raise Ad2Error(f"task {task.name}: {found.reason}")


def _check_shard(shard: RunShard, names: Iterable[Any], cli: Any = None) -> None:
    """Raise Ad2Error for a task that cannot be divided: one of lmms-eval, or a drive."""
    on_records = {task.name for task in _own_tasks(names, cli) if task.settings}
    for name in names:
        members = groups().get(name, (name,)) if isinstance(name, str) else (name,)
        if whole := [member for member in members if member not in on_records]:
            drive = "; ad2 drive run has its own --shard" if str(whole[0]).startswith("ad2drive_") else ""
            raise Ad2Error(f"--shard {shard}: {whole[0]} is not a task on records, and would run whole in all{drive}")


def exit_after_error(exc: BaseException) -> None:
    """Print the error as one line and exit with its code; lmms-eval would exit with 0."""
    resumes = "the same command resumes this run" if _current.folder else "--output_path DIR would make it resumable"
    code = report_error(exc, "the evaluation", resumes)
    sys.stdout.flush()
    if environment_number("WORLD_SIZE", 1) > 1:
        os._exit(code)  # immediately: other ranks wait in a collective until torchrun ends them
    raise SystemExit(code)


# --- several ranks ---


def destroy_process_group_at_exit() -> None:
    """Destroy the process group at exit; otherwise gloo's threads sometimes abort the interpreter."""
    if environment_number("WORLD_SIZE", 1) > 1:
        atexit.unregister(_destroy_process_group)
        atexit.register(_destroy_process_group)


def _destroy_process_group() -> None:
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
