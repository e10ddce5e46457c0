"""The console script `lmms_eval`: lmms-eval's own command line with an honest exit code and no task missing.

Before handing over it resolves a wildcard over our tasks to those whose data are there, and
says which it left out. Everything else goes to lmms-eval as it was typed.
"""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Callable, Sequence
from typing import Any

from lmms_eval_ad2.errors import Ad2Error


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return run(arguments)
    except Ad2Error as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 2


def run(arguments: list[str]) -> int:
    """Hand `arguments` to lmms-eval in this process; its exit code, or ours where its would lie."""
    arguments = resolve_tasks(arguments)
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
    """Help, version and the banner need no tasks: keep them instant."""
    return bool(arguments) and not {"-h", "--help", "version", "--version"} & set(arguments[:1])


def _true_exit(original: Callable[..., Any]) -> Callable[..., Any]:
    def cli_evaluate_single(args: Any = None) -> Any:
        from lmms_eval_ad2.harness.run import end_badly

        try:
            return original(args)
        except Exception as exc:
            end_badly(exc)

    return cli_evaluate_single


def _exit_code(call: Callable[[], Any]) -> int:
    try:
        call()
    except SystemExit as exc:
        if exc.code is None or isinstance(exc.code, int):
            return int(exc.code or 0)
        print(exc.code, file=sys.stderr)
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
        if "*" not in name or not name.startswith(("ad2", "bench_")):
            resolved.append(name)
            continue
        matched = [t for t in tasks.catalogue() if fnmatch.fnmatch(t.name, name)]
        ready = [t for t in matched if t.ready()]
        missing = [t for t in matched if not t.ready()]
        if missing:
            print(f"left out, no data: {', '.join(t.name for t in missing)}", file=sys.stderr)
            for hint in dict.fromkeys(t.hint() for t in missing):
                print(f"  to have them: {hint}", file=sys.stderr)
        if matched and not ready:
            raise Ad2Error(
                f"'{name}': none of its {len(matched)} tasks has its data; see the lines above, or: ad2 demo"
            )
        resolved += [t.name for t in ready] or [name]
    return ",".join(dict.fromkeys(resolved))
