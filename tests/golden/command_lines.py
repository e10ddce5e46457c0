"""Command lines run in this process, and the parsers that programs build. Groups of these have `in_process: true`."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import re
import runpy
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

from content import LINE, shortened
from workspace import Workspace

Program = Callable[[Sequence[str]], Any]
PROGRESS = re.compile(r"\d%\||\d+it \[")  # the number of progress lines depends on time
TEXTS = ("1", "0", "-1", "1.5", "1e3", "1_000", " 1 ", "nan", "inf", "true", "x", "a/./b/", "")
FILES = {
    "fake endpoint": "lmms_eval_ad2/testing/fake_endpoint.py",
    "advlm_server": "closedloop_plugin/carla/leaderboard_agent/advlm_server.py",
    "install.py": "scripts/install.py",
    "torchvision_shim.py": "scripts/torchvision_shim.py",
    "verify_carla.py": "scripts/verify_carla.py",
}
ONBOARD = "closedloop_plugin.robots.onboard"


class _ParserBuilt(BaseException):
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


class _Stream(io.StringIO):
    def reconfigure(self, **_: Any) -> None:
        """Accept the encoding that a program sets."""


def program(work: Workspace, name: str) -> Program:
    """A program with a command line by its recorded name."""
    if name.startswith("onboard "):
        return lambda words: importlib.import_module(f"{ONBOARD}.{name.split()[1]}").main(list(words))
    if name in FILES:
        return lambda words: runpy.run_path(str(work.repo / FILES[name]), run_name="__main__") and 0
    (point,) = metadata.entry_points(group="console_scripts", name=name)
    return point.load()  # type: ignore[no-any-return]


def result_of(main: Program, words: Sequence[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a main function; 1 and the traceback if an exception is not caught."""
    out, err = _Stream(), _Stream()
    streams = (contextlib.redirect_stdout(out), contextlib.redirect_stderr(err))
    with streams[0], streams[1], mock.patch.object(sys, "argv", ["x", *words]):
        try:
            code = int(main(list(words)) or 0)
        except SystemExit as exc:
            code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
            if isinstance(exc.code, str):
                print(exc.code, file=err)
        except Exception:
            code = 1
            traceback.print_exc(file=err)
    return code, out.getvalue(), err.getvalue()


def exit_codes(work: Workspace, lines: str) -> dict[str, str]:
    """Exit code, whether there is output, and the message of each line. "traceback": a bug.

    Lines run in order; the name of a line that occurs again has a +, as if a user started it once more.
    """
    results: dict[str, str] = {}
    with work.here(AD2_ROS_PATH=str(work.folder / "empty"), HF_HUB_OFFLINE="1", TQDM_DISABLE="1"):
        for line in lines.strip().splitlines():
            words = shlex.split(work.filled(line))
            count = 2 if words[0] in ("fake", "onboard") else 1
            code, out, err = result_of(program(work, " ".join(words[:count])), words[count:])
            while line in results:
                line += " +"
            results[line] = f"{code} {'text' if out.strip() else '-'} {_message(work, err)}".strip()
    return results


def _message(work: Workspace, err: str) -> str:
    if "Traceback (most recent call last)" in err:
        return "traceback"
    lines = [line.strip() for line in err.strip().splitlines() if line.strip() and not PROGRESS.search(line)]
    if err.startswith("usage:"):
        lines = lines[-1:]
    return shortened(work.scrub_output(" / ".join(lines)), LINE)


# Parsers


def parser_of(main: Program) -> argparse.ArgumentParser:
    """The parser that a program builds, taken when it starts to parse."""

    parse, building = argparse.ArgumentParser.parse_known_args, True

    def stop(self: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> Any:
        if building:
            raise _ParserBuilt(self)
        return parse(self, *args, **kwargs)  # for parsers that have kept this method

    with mock.patch.object(argparse.ArgumentParser, "parse_known_args", stop):
        try:
            main([])
        except _ParserBuilt as built:
            building = False
            return built.parser
    raise RuntimeError(f"{main} builds no argparse parser")


def options(work: Workspace, name: str) -> dict[str, Any]:
    """Every command of a program with its arguments: flags, type, default, choices, help."""
    with work.here():
        return dict(_tree(work, name, parser_of(program(work, name))))


def _tree(work: Workspace, path: str, parser: argparse.ArgumentParser) -> Iterable[tuple[str, Any]]:
    branches = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    arguments = [action for action in parser._actions if action not in branches and action.dest != "help"]
    groups = [
        f"{'one' if g.required else 'at most one'} of {' '.join(map(_flags, g._group_actions))}"
        for g in parser._mutually_exclusive_groups
    ]
    about = {"": shortened(work.scrub(parser.description or ""))} | ({"exclusive": groups} if groups else {})
    yield path, {**about, **{_flags(action): _argument(work, parser, action) for action in arguments}}
    for action in branches:
        for name, child in action.choices.items():
            yield from _tree(work, f"{path} {name}", child)


def _flags(action: argparse.Action) -> str:
    return " ".join(action.option_strings) or f"<{action.dest}>"


def _argument(work: Workspace, parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Kind, what differs from the usual, values of TEXTS ("!": refused) if any changes, and help."""
    kind = type(action).__name__.strip("_").removesuffix("Action")
    default = None if action.default is argparse.SUPPRESS else _shown(action.default)
    named = {
        "nargs": action.nargs, "default": default, "const": action.const, "required": action.required or None,
        "choices": " ".join(map(str, action.choices)) if action.choices is not None else None,
        "takes": _takes(parser, action) if kind in ("Store", "Append") else None,
    }  # fmt: skip
    values = " ".join(f"{key}={value}" for key, value in named.items() if value not in (None, "None"))
    text = "hidden" if action.help is argparse.SUPPRESS else shortened(work.scrub(action.help or ""))
    return work.scrub(f"{kind} {values}; {text}")  # type: ignore[no-any-return]


def _takes(parser: argparse.ArgumentParser, action: argparse.Action) -> str | None:
    values = []
    for text in TEXTS:
        try:
            values.append(_shown(parser._get_value(action, text)))
        except argparse.ArgumentError:
            values.append("!")
    return " | ".join(values) if values != [repr(text) for text in TEXTS] else None


def _shown(value: Any) -> str:
    return f"path {str(value)!r}" if isinstance(value, Path) else repr(value)


def parsed(work: Workspace, lines: str) -> dict[str, Any]:
    """What the parser of `ad2` makes of each line, without values that are None or False."""
    with work.here():
        parser = parser_of(program(work, "ad2"))
        return {line: _parsed(parser, line) for line in lines.strip().splitlines()}


def _parsed(parser: argparse.ArgumentParser, line: str) -> Any:
    values: dict[str, Any] = {}
    code, _, _ = result_of(lambda words: values.update(vars(parser.parse_args(words))), line.split())
    if code:
        return f"refused with code {code}"
    return {k: _shown(v) for k, v in values.items() if not callable(v) and v not in (None, False)}
