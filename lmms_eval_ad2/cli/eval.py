"""`ad2 eval`: a run through lmms-eval with a folder, a judge and our tables at the end."""

from __future__ import annotations

import argparse
import os
from typing import Any


def register(subparsers: Any) -> None:
    p = subparsers.add_parser(
        "eval",
        help="evaluate a model (lmms-eval's own command line underneath)",
        description="Runs lmms-eval with --output_path: a killed run goes on with the same command. "
        "Options after -- go to lmms-eval as they are.",
    )
    p.add_argument("--model", required=True, help="any lmms-eval model, e.g. qwen2_5_vl, openai, ad2_swift, ad2_chance")
    p.add_argument("--model-args", default="", help="as lmms-eval's --model_args")
    p.add_argument("--tasks", default="ad2_*", help="names, wildcards, groups (default: 'ad2_*')")
    p.add_argument("--out", required=True, help="folder for answers, scores and tables")
    p.add_argument(
        "--judge", help="lexical | embedding:NAME | openai:model=…,base_url=… | a YAML file (default: AD2_JUDGE)"
    )
    p.add_argument("--prompts", help="a YAML file that overrides prompts")
    p.add_argument("--limit", type=int, help="only the first N records of each task")
    p.add_argument("--batch-size", default="1")
    p.add_argument("--device")
    p.add_argument("rest", nargs="*", help="-- further options of lmms-eval")
    p.set_defaults(func=run)


def arguments(args: argparse.Namespace) -> list[str]:
    """lmms-eval's command line for `args`."""
    words = ["--model", args.model, "--tasks", args.tasks, "--output_path", args.out, "--batch_size", args.batch_size]
    if args.model_args:
        words += ["--model_args", args.model_args]
    if args.limit is not None:
        words += ["--limit", str(args.limit)]
    if args.device:
        words += ["--device", args.device]
    return words + list(args.rest)


def run(args: argparse.Namespace) -> int:
    for option, name in (("judge", "AD2_JUDGE"), ("prompts", "AD2_PROMPTS")):
        if getattr(args, option):
            os.environ[name] = getattr(args, option)
    from lmms_eval_ad2.cli import lmms

    code = lmms.run(arguments(args))
    if code == 0 and int(os.environ.get("RANK", 0)) == 0:
        _tables()
    return code


def _tables() -> None:
    """Print our own tables of the run that has just ended."""
    from lmms_eval_ad2 import report
    from lmms_eval_ad2.harness.run import current
    from lmms_eval_ad2.report import tables

    folder = current().folder
    if folder and current().tables:  # --predict_only makes none
        print(tables.render(report.load([folder])))
