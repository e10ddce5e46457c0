"""Command-line entry point of `ad2`; sub-commands are entry points of the group "ad2.commands"."""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from typing import Any

from lmms_eval_ad2.core import plugins
from lmms_eval_ad2.core.command_errors import run_command
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import one_line, print_logs_safely
from lmms_eval_ad2.core.run_files import CommandParser
from lmms_eval_ad2.core.version import __version__

# The order of `ad2 --help`: first what most people need; commands of other distributions follow by name.
FIRST = ("demo", "doctor", "data", "tasks", "eval", "report", "drive", "threats", "learn", "robot")
ORDER = (
    *FIRST, "score", "rescore", "merge", "judge", "mcq", "annotate", "export", "scenic", "carla", "serve",
)  # fmt: skip
SEPARATOR = "    " + 60 * "-"


class CommandList(argparse.HelpFormatter):
    """Help with a line between the commands that most people need first and the others."""

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        return f"{text}{SEPARATOR}\n" if action.dest == FIRST[-1] and not action.option_strings else text


def parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser of the command that the first word names, else of all commands (faster than always all)."""
    top = argparse.ArgumentParser(
        prog="ad2",
        description="Driving benchmarks for vision-language models as plain lmms-eval tasks.",
        formatter_class=CommandList,
    )
    top.add_argument("--version", action="version", version=f"lmms-eval-ad2 {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands = _commands()
    named = [entry for entry in commands if entry.name in words[:1]]
    if not any(_add(subparsers, entry) for entry in named):
        for entry in commands:
            if entry not in named:
                _add(subparsers, entry)
    return top


def _commands() -> list[EntryPoint]:
    """Return the declared commands, not imported; raises Ad2Error if there are none, as in a checkout."""
    found = plugins.declared(plugins.COMMANDS)
    if not found:
        raise Ad2Error("no command found: lmms-eval-ad2 is not installed here; in its checkout: pip install -e .")
    place = {name: i for i, name in enumerate(ORDER)}
    return sorted(found, key=lambda entry: (place.get(entry.name, len(ORDER)), entry.name))


def _add(subparsers: Any, entry: EntryPoint) -> bool:
    """Add a command; False, after a warning, if it cannot be imported or fails to add its options."""
    register = plugins.load(entry)
    if register is None:
        return False
    try:
        register(subparsers)
    except Exception as exc:
        plugins.warn(f"{entry.value}: command '{entry.name}' is left out: {type(exc).__name__}: {exc}")
        return False
    return True


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse the words of a command; an argument that it does not know is shown with the usage of this command."""
    top = parser(words)
    args, unknown = top.parse_known_args(words)
    if unknown:
        command = getattr(args.func, "parser", top)
        hint = command.hint(unknown) if isinstance(command, CommandParser) else ""
        command.error(f"unrecognized arguments: {one_line(' '.join(unknown))}{one_line(hint)}")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; exit codes of errors: lmms_eval_ad2/core/command_errors.py."""
    words = sys.argv[1:] if argv is None else list(argv)
    print_logs_safely()

    def call() -> int:
        args = _parsed(words)
        return int(args.func(args) or 0)

    return run_command(_name(words), call, process=argv is None)


def _name(words: Sequence[str]) -> str:
    """The command as messages name it: "ad2 drive run"."""
    leading = itertools.takewhile(lambda word: re.fullmatch(r"[a-z][a-z-]*", word), words[:3])
    return " ".join(["ad2", *leading])


if __name__ == "__main__":
    raise SystemExit(main())
