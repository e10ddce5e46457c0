"""One evaluation run: its folder, its judge, its journal, its result files, and an honest end.

`evaluate` is wrapped for runs with a task of ours only. With `--output_path OUT` the run owns
OUT/ad2/<model>-<hash>/ (docs/architecture.md): answers are journalled as they come, so that
the same command goes on after a kill. Without it everything still works, but nothing is kept.
"""

from __future__ import annotations

import datetime as dt
import os
import platform
import sys
import traceback
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import lmms_eval_ad2
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.harness import hooks
from lmms_eval_ad2.harness.data import task_settings
from lmms_eval_ad2.harness.journal import Journal, attach
from lmms_eval_ad2.scoring import store

# The endpoint wrappers of lmms-eval encode to PNG by default: 25 times slower, four times larger.
IMAGE_ENCODING = {"LMMS_IMAGE_ENCODE_FORMAT": "JPEG", "LMMS_IMAGE_JPEG_QUALITY": "95"}


class Run:
    """What a run knows and collects. `folder` is None without --output_path."""

    def __init__(self, model: str = "", model_args: str = "", cli: Any = None, seed: int = 0) -> None:
        self.model, self.model_args, self.cli, self.seed = model, model_args, cli, seed
        self.tables: dict[str, dict[str, Any]] = {}
        self.failure: BaseException | None = None
        self._judge: Any = None
        out = getattr(cli, "output_path", None)
        self.folder = store.run_folder(Path(out), model, {"model": model, "args": model_args}) if out else None

    def judge(self) -> Any:
        """The judge of this run (AD2_JUDGE); replies are cached beside the run, else in the data home."""
        if self._judge is None:
            from lmms_eval_ad2.judge import make_judge
            from lmms_eval_ad2.library import home

            folder = self.folder or home()
            folder.mkdir(parents=True, exist_ok=True)
            self._judge = make_judge(None, cache=folder / "judge.sqlite")
        return self._judge

    def finish(self) -> None:
        """Write summary.json: from now on the run counts as done."""
        if self.folder and self.tables:
            path = store.write_summary(self.folder, self.describe(), self.tables)
            print(f"ad2: results in {path.parent}; tables: ad2 report {path.parent}", flush=True)

    def describe(self) -> dict[str, Any]:
        judge = self._judge
        limit = getattr(self.cli, "limit", None)
        return {
            "model": self.model,
            "model_args": self.model_args,
            "label": model_label(self.model, self.model_args),
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "seed": self.seed,
            "limit": None if limit in (None, -1) else limit,
            "gen_kwargs": getattr(self.cli, "gen_kwargs", None) or None,
            "policy": "official",  # of the headline; strict stands beside it in every cell
            "profile": Path(hooks.prompts().source).name,  # "packaged", or the user's file of prompts
            "prompts_sha256": hooks.prompts().sha256,
            "image_encoding": {k: os.environ.get(k) for k in IMAGE_ENCODING},
            "judge": {**judge.describe(), "label": judge.label, "usage": dict(judge.usage)} if judge else None,
            "versions": versions(),
        }


def versions() -> dict[str, str]:
    """The versions that can move a number."""
    found = {"lmms_eval_ad2": lmms_eval_ad2.__version__, "python": platform.python_version()}
    for name in ("lmms_eval", "torch", "transformers", "pillow", "pycocoevalcap", "jiwer", "ms_swift", "openai"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def model_label(model: str, model_args: str) -> str:
    """A short name for tables: the checkpoint's where there is one."""
    pairs = dict(p.split("=", 1) for p in model_args.split(",") if "=" in p)
    for key in ("pretrained", "model_version", "model"):
        if pairs.get(key):
            return pairs[key].rstrip("/").split("/")[-1]
    return model


_current = Run()


def current() -> Run:
    return _current


def redact(model_args: Any) -> str:
    """Model arguments as text, without keys and tokens."""
    from lmms_eval.evaluator import _redact_eval_config_secrets as hide

    if isinstance(model_args, dict):
        return ",".join(f"{k}={v}" for k, v in sorted(hide(model_args).items()))
    return str(hide(str(model_args or "")))


def ours_in(task_dict: Any) -> list[str]:
    """Names of our tasks in lmms-eval's nested task dictionary."""
    from lmms_eval.evaluator_utils import get_task_list

    return [o.task_name for o in get_task_list(task_dict) if o.task is not None and task_settings(o.task) is not None]


def wrap_evaluate(original: Callable[..., Any]) -> Callable[..., Any]:
    def evaluate(lm: Any, task_dict: Any, *args: Any, **kwargs: Any) -> Any:
        ours = ours_in(task_dict)
        if not ours:
            return original(lm, task_dict, *args, **kwargs)
        if kwargs.get("response_cache") is not None:
            raise Ad2Error(
                "--use_cache ignores image content and keeps failures, so it cannot serve "
                f"{', '.join(ours[:3])}: leave it out; with --output_path a killed run goes on from its journal"
            )
        return _evaluate(original, lm, task_dict, args, kwargs)

    return evaluate


def _evaluate(original: Callable[..., Any], lm: Any, task_dict: Any, args: Any, kwargs: Any) -> Any:
    run = current()
    for key, value in IMAGE_ENCODING.items():
        os.environ.setdefault(key, value)
    rank = int(os.environ.get("RANK", 0))
    if rank == 0:
        run.judge()  # a wrong specification must fail before the model has worked for hours
    journal = Journal(run.folder / "journal", rank) if run.folder else None
    with attach(lm, journal):
        results = original(lm, task_dict, *args, **kwargs)
    if results is not None:
        run.finish()
    return results


def wrap_simple_evaluate(original: Callable[..., Any]) -> Callable[..., Any]:
    def simple_evaluate(model: Any, model_args: Any = None, *args: Any, **kwargs: Any) -> Any:
        global _current
        cli = kwargs.get("cli_args")
        name = model if isinstance(model, str) else type(model).__name__
        _current = Run(name, redact(model_args), cli, int(kwargs.get("random_seed") or 0))
        try:
            return original(model, model_args, *args, **kwargs)
        except Exception as exc:
            _current.failure = exc
            if cli is None:  # called as a library: the caller handles it
                raise
            end_badly(exc)

    return simple_evaluate


def end_badly(exc: BaseException) -> None:
    """lmms-eval ends with code 0 after a failed evaluation. Say what failed and leave with 2 (user's) or 1 (ours)."""
    code = 1
    if isinstance(exc, Ad2Error):
        code = 2
        print(f"error: {exc}", file=sys.stderr, flush=True)
    else:
        traceback.print_exception(exc)
    sys.stdout.flush()
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        os._exit(code)  # at once: other ranks wait in a collective until torchrun ends them
    raise SystemExit(code)
