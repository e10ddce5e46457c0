"""The console script `lmms_eval`: lmms-eval's command line with our tasks and a correct exit code.

A wildcard over our tasks is resolved to those that can be asked; the others are printed as left out. A mistake in the
model, its API key, the output folder, the prompts or the judge is reported before lmms-eval is imported. All other
arguments are passed to lmms-eval unchanged.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from lmms_eval_ad2.core.command_errors import run_command
from lmms_eval_ad2.core.coordinates import ENV as FRAME_ENV
from lmms_eval_ad2.core.coordinates import FrameSetting
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.storage.shards import shard_of_environment

# Commands of lmms-eval that ask no tasks in this process: its module of evaluations is not imported for them.
WITHOUT_EVALUATION = ("tasks", "power", "serve", "mcp", "models")


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    resumes = "with --output_path the same command resumes this run"
    return run_command("lmms_eval", lambda: run(arguments), resumes, process=argv is None)


def run(arguments: list[str], own_tables: bool = False) -> int:
    """Run lmms-eval in this process; returns its exit code, or 1 for an error that it reports as success.

    own_tables: the caller prints the tables of our tasks, so that lmms-eval does not.
    """
    if frame := os.environ.get(FRAME_ENV):
        FrameSetting.parse(frame, FRAME_ENV)  # an invalid one must fail before imports that take ten seconds
    shard_of_environment()
    arguments = checked(arguments)
    sys.argv = ["lmms_eval", *arguments]
    if not needs_plugin(arguments):
        from lmms_eval.cli import dispatch

        return _exit_code(dispatch.main)
    from lmms_eval.cli import dispatch

    from lmms_eval_ad2.harness import plugin

    if arguments[0] in WITHOUT_EVALUATION:
        if arguments[0] != "models":  # imports no tasks; the entry point adds our models
            plugin.install()
        return _exit_code(dispatch.main)
    import lmms_eval.__main__ as host

    plugin.install()
    plugin.wrap(host, "cli_evaluate_single", _true_exit)
    if own_tables:
        plugin.wrap(host, "make_table", _of_others)
        plugin.wrap(host, "get_eval_banner", lambda original: lambda **_: "")
    return _exit_code(dispatch.main)


def needs_plugin(arguments: Sequence[str]) -> bool:
    """False for help, version and the banner: they need no tasks and stay fast."""
    return bool(arguments) and not {"-h", "--help", "version", "--version"} & set(arguments[:1])


def checked(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--tasks` resolved. Raises Ad2Error for a mistake that would end the run after its start."""
    from lmms_eval_ad2.harness import host_options, run_checks
    from lmms_eval_ad2.harness.task_selection import select

    given = value_of(arguments, "--tasks")
    if given is None:
        return list(arguments)
    selection = select(given, include_path(arguments))
    for line in selection.left_out:
        show(line, file=sys.stderr)
    for fault in selection.faults:
        raise Ad2Error(fault)
    model, model_args, out = (value_of(arguments, name) for name in ("--model", "--model_args", "--output_path"))
    words = arguments[1:] if arguments[0] == "eval" else arguments
    if selection.tasks and words[0].startswith("-"):  # else it is another command of lmms-eval
        for fault in run_checks.option_faults(host_options.parse(words)):
            raise Ad2Error(fault)
    simple = "--force_simple" in arguments
    device = value_of(arguments, "--device") if value_of(arguments, "--config") is None else ...  # a file may name it
    for fault in run_checks.faults(
        model, model_args, out, force_simple=simple, ours=selection.on_records, device=device
    ):
        raise Ad2Error(fault)
    return _replaced(arguments, "--tasks", ",".join(selection.names))


def value_of(arguments: Sequence[str], option: str) -> str | None:
    """The last value of `option` in the form "--x y" or "--x=y"."""
    value = None
    for i, word in enumerate(arguments):
        if word == option:
            value = next(iter(arguments[i + 1 :]), None)
        elif word.startswith(f"{option}="):
            value = word.partition("=")[2]
    return value


def include_path(arguments: Sequence[str]) -> str | None:
    """The folder of further tasks."""
    return value_of(arguments, "--include_path") or value_of(arguments, "--include-path")


def _replaced(arguments: Sequence[str], option: str, value: str) -> list[str]:
    """The arguments with another value of `option`."""
    result = list(arguments)
    for i, word in enumerate(result):
        if word == option and i + 1 < len(result):
            result[i + 1] = value
        elif word.startswith(f"{option}="):
            result[i] = f"{option}={value}"
    return result


def _true_exit(original: Callable[..., Any]) -> Callable[..., Any]:
    def cli_evaluate_single(args: Any = None) -> Any:
        from lmms_eval_ad2.harness.run import exit_after_error

        limit = getattr(args, "limit", None)
        if isinstance(limit, float) and limit.is_integer():
            args.limit = int(limit)  # lmms-eval parses and prints --limit 120 as 120.0
        try:
            return original(args)
        except Exception as exc:
            exit_after_error(exc)

    return cli_evaluate_single


def _of_others(original: Callable[..., Any]) -> Callable[..., Any]:
    def make_table(results: Any, column: str = "results", **more: Any) -> Any:
        from lmms_eval_ad2.harness.task_files import groups, task_files

        ours = {*task_files(), *groups()} >= set(results["results"])
        return "" if ours else original(results, column, **more)

    return make_table


def _exit_code(call: Callable[[], Any]) -> int:
    try:
        call()
    except SystemExit as exc:
        if exc.code is None or isinstance(exc.code, int):
            return int(exc.code or 0)
        show(exc.code, file=sys.stderr)
        return 1
    return 0
