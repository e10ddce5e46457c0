"""`ad2 eval`: run lmms-eval with an output folder and a judge, then print our tables."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.cli.judge_options import JudgeOptions
from lmms_eval_ad2.core.coordinates import ENV as FRAME_ENV
from lmms_eval_ad2.core.coordinates import FrameSetting
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.numbers import environment_number
from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.storage.shards import ENV as SHARD_ENV
from lmms_eval_ad2.storage.shards import RunShard
from lmms_eval_ad2.storage.training_card import STRICT_ENV

# Options of lmms-eval that ad2 eval always gives.
_OWN = ("--model", "--tasks", "--model_args", "--output_path")


@dataclass(frozen=True, kw_only=True)
class EvalOptions(JudgeOptions):
    """`ad2 eval`."""

    model: str = option("any lmms-eval model, e.g. qwen2_5_vl, openai, ad2_swift, ad2_chance", metavar="NAME")
    model_args: str = option("lmms-eval's --model_args", default="", metavar="KEY=VALUE,...")
    tasks: str = option("task names, wildcards, groups (default: 'ad2_*')", default="ad2_*", metavar="TASK,...")
    out: str = option("folder of answers, scores and tables", metavar="DIR")
    frame: str | None = option(
        "frame in which points and boxes are asked and read: auto, pixel, unit, percent, thousand, thousand_yx, "
        "model_input[:max_pixels=N,...]; see docs/models.md (default: the tasks' own, or AD2_FRAME)",
        default=None,
        metavar="FRAME",
    )
    prompts: str | None = option(
        "YAML file that overrides prompts; 'paper': the wording that AD2-Bench (Table 4) and CODA-LM (5.3) print; "
        "coda_lm:CHECKOUT: the official questions of CODA-LM",
        default=None,
        metavar="FILE",
    )
    shard: str | None = option(
        "only shard i of N (1/N to N/N) of each task, of the records that --limit selects; join shards with ad2 merge",
        default=None,
        metavar="i/N",
    )
    limit: float | None = option(
        "only the first N records of each task; below 1: this share of them", default=None, metavar="N"
    )
    repeats: int = option(
        "replies to each question: the score is their mean; also how many questions have equal, or only right replies",
        default=1,
        metavar="N",
    )
    batch_size: str = option("lmms-eval's --batch_size (default 1)", default="1", metavar="N")
    device: str | None = option("lmms-eval's --device", default=None)
    strict_contamination: bool = option(
        "refuse to ask questions that the model was trained on, as its ad2_training.json names them (default: they are "
        "counted in the tables)",
        default=False,
        expert=True,
    )
    strict_requests: bool = option(
        "exit with code 1 if requests failed; the same command repeats them (default: code 2 if none was answered, "
        "else a message)",
        default=False,
        expert=True,
    )
    dry_run: bool = option(
        "only check data, images, model, key, prompts and judge, and print the requests and the judge's cost to come",
        default=False,
    )
    rest: tuple[str, ...] = option(
        "after --: further options of lmms-eval", default=(), positional=True, metavar="OPTION"
    )


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "eval",
        run,
        EvalOptions,
        help="evaluate a model with lmms-eval and print our tables",
        description="Run lmms-eval with --output_path. The same command continues an interrupted run. "
        "Options after -- are passed to lmms-eval unchanged.",
    )


def arguments(options: EvalOptions) -> list[str]:
    """Return lmms-eval's command line for these options; raises Ad2Error for one of them among those after `--`."""
    for word in options.rest:
        if word.partition("=")[0] in _OWN:
            raise Ad2Error(f"{word.partition('=')[0]} after --: it is an option of ad2 eval, give it before --")
    words = [
        "--model",
        options.model,
        "--tasks",
        options.tasks,
        "--output_path",
        options.out,
        "--batch_size",
        options.batch_size,
    ]
    if options.model_args:
        words += ["--model_args", options.model_args]
    if options.limit is not None:
        words += ["--limit", f"{options.limit:.15g}"]
    if options.repeats != 1:
        words += ["--repeats", str(options.repeats)]
    if options.device:
        words += ["--device", options.device]
    return words + list(options.rest)


def run(options: EvalOptions) -> int:
    if not options.out.strip():
        raise Ad2Error("--out is empty; name a folder")
    if options.frame is not None:
        FrameSetting.parse(options.frame, "--frame")
    if options.shard is not None:
        RunShard.parse(options.shard)
    options.set_environment()
    settings = (
        ("AD2_PROMPTS", options.prompts),
        (FRAME_ENV, options.frame),
        (SHARD_ENV, options.shard),
        (STRICT_ENV, "1" if options.strict_contamination else None),
    )
    for variable, value in settings:
        if value:
            os.environ[variable] = value
    if options.dry_run:
        from lmms_eval_ad2.cli import dry_run

        return dry_run.run(options.model, options.model_args, Path(options.out), arguments(options), options.tasks)
    from lmms_eval_ad2.cli import lmms

    code = lmms.run(arguments(options), own_tables=True)
    if code == 0 and environment_number("RANK", 0) == 0:
        _tables()
        return int(options.strict_requests and _failed_requests())
    return code


def _failed_requests() -> bool:
    """Whether requests of the run that has just ended failed; says so."""
    from lmms_eval_ad2.harness.run import current, failed_requests

    n_failed, n_requests = failed_requests(current().tables)
    if n_failed:
        text = f"strict_requests: {n_failed} of {n_requests} requests failed; the same command repeats them"
        show(f"error: {text}", file=sys.stderr)
    return n_failed > 0


def _tables() -> None:
    """Print the tables of the run that has just ended."""
    from lmms_eval_ad2 import report
    from lmms_eval_ad2.harness.run import current
    from lmms_eval_ad2.report import tables

    folder = current().folder
    if folder and current().tables:  # --predict_only makes none
        print(tables.render(report.with_floors(report.load([folder]))))
        if shard := current().shard:
            print(f"shard {shard}; join the shards with: ad2 merge OUT DIR...")
