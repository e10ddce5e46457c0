"""The console script `lmms_eval`: lmms-eval's command line with our tasks and a correct exit code.

A wildcard over our tasks is resolved to those whose data are imported; the others are printed as left out. All other
arguments are passed to lmms-eval unchanged.
"""

from __future__ import annotations

import difflib
import fnmatch
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.printed import show

OUR_MODELS = ("ad2_chance", "ad2_majority", "ad2_oracle", "ad2_swift")


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return run(arguments)
    except Ad2Error as exc:
        show(f"error: {exc}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; with --output_path the same command resumes this run", file=sys.stderr)
        return 130


def run(arguments: list[str]) -> int:
    """Run lmms-eval in this process; returns its exit code, or 1 for an error that it reports as success."""
    arguments = resolve_tasks(arguments)
    check_model(_value(arguments, "--model"))
    check_output(_value(arguments, "--output_path"))
    sys.argv = ["lmms_eval", *arguments]
    if not needs_plugin(arguments):
        from lmms_eval.cli import dispatch

        return _exit_code(dispatch.main)
    import lmms_eval.__main__ as host
    from lmms_eval.cli import dispatch

    from lmms_eval_ad2.harness import plugin

    plugin.install()
    plugin.wrap(host, "cli_evaluate_single", _true_exit)
    return _exit_code(dispatch.main)


def needs_plugin(arguments: Sequence[str]) -> bool:
    """False for help, version and the banner: they need no tasks and stay fast."""
    return bool(arguments) and not {"-h", "--help", "version", "--version"} & set(arguments[:1])


def _value(arguments: Sequence[str], option: str) -> str | None:
    """The value of `option` in the form "--x y" or "--x=y"."""
    for word, following in zip(arguments, [*arguments[1:], None], strict=True):
        if word == option:
            return following
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def check_model(name: str | None) -> None:
    """Raise Ad2Error for a misspelt model of ours before imports that take ten seconds."""
    if name and name.startswith("ad2") and name not in OUR_MODELS:
        raise Ad2Error(f"no model '{name}'" + _near(name, OUR_MODELS))


def check_output(path: str | None) -> None:
    """Raise Ad2Error for a folder that cannot be written before the model is run."""
    if not path:
        return
    folder = Path(path)
    nearest = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not nearest.is_dir():
        raise Ad2Error(f"--output_path {path}: {nearest} is a file; name a folder")
    if not os.access(nearest, os.W_OK):
        raise Ad2Error(f"--output_path {path}: {nearest} cannot be written to")


def _near(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, 3, 0.6)
    return f"; did you mean {' or '.join(close)}?" if close else f"; known: {', '.join(known)}"


def _true_exit(original: Callable[..., Any]) -> Callable[..., Any]:
    def cli_evaluate_single(args: Any = None) -> Any:
        from lmms_eval_ad2.harness.run import exit_after_error

        try:
            return original(args)
        except Exception as exc:
            exit_after_error(exc)

    return cli_evaluate_single


def _exit_code(call: Callable[[], Any]) -> int:
    try:
        call()
    except SystemExit as exc:
        if exc.code is None or isinstance(exc.code, int):
            return int(exc.code or 0)
        show(exc.code, file=sys.stderr)
        return 1
    return 0


def resolve_tasks(arguments: list[str]) -> list[str]:
    """Replace wildcards over our names in `--tasks` by the tasks whose data are imported."""
    result = list(arguments)
    for i, word in enumerate(result):
        if word == "--tasks" and i + 1 < len(result):
            result[i + 1] = resolve(result[i + 1])
        elif word.startswith("--tasks="):
            result[i] = "--tasks=" + resolve(word.removeprefix("--tasks="))
    return result


def resolve(names: str) -> str:
    from lmms_eval_ad2.cli import tasks

    resolved: list[str] = []
    for name in names.split(","):
        if not name.startswith(("ad2", "bench_")):
            resolved.append(name)
            continue
        if "*" not in name:
            known = [t.name for t in tasks.catalogue()] + tasks.groups()
            if name not in known:
                raise Ad2Error(f"no task '{name}'{_near(name, known) if len(name) > 4 else ''}; all: ad2 tasks")
            resolved.append(name)
            continue
        if name.startswith("bench_"):
            resolved += fnmatch.filter(tasks.groups(), name) or [name]
            continue
        matched = [t for t in tasks.catalogue() if fnmatch.fnmatch(t.name, name)]
        ready = [t for t in matched if t.ready()]
        missing = [t for t in matched if not t.ready()]
        if missing:
            print(f"left out, no data: {', '.join(t.name for t in missing)}", file=sys.stderr)
            for hint in dict.fromkeys(t.hint() for t in missing):
                print(f"  to import them: {hint}", file=sys.stderr)
        if matched and not ready:
            raise Ad2Error(
                f"'{name}': the data of its {len(matched)} tasks are not imported; see the lines above, or: ad2 demo"
            )
        resolved += [t.name for t in ready] or [name]
    return ",".join(dict.fromkeys(resolved))
