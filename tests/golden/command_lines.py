"""Command lines run in this process: exit code, output, and the argparse parser that a program builds."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

from workspace import REPO, Workspace

# Every command of `ad2` as typed; a command that only has sub-commands comes before them.
AD2_COMMANDS = (
    "", "demo", "data", "data import", "data list", "data verify", "data relocate", "data schema", "eval", "tasks",
    "merge", "rescore", "score", "score coda_lm", "report", "judge", "judge rate", "judge agree", "drivelm",
    "drivelm score", "drive",
    "drive run", "drive score", "drive show", "drive routes", "drive routes add", "drive routes list", "drive map",
    "threats", "threats generate", "threats check", "threats search", "threats gallery", "carla", "carla up",
    "carla status", "carla down", "serve", "robot", "robot plan", "robot run", "robot stop", "robot deploy",
    "robot sandbox", "robot console", "mcq", "mcq build", "mcq check", "mcq split", "export", "export swift",
    "export coda_lm", "annotate", "annotate page", "annotate export", "annotate agreement", "doctor",
)  # fmt: skip
FAKE_WORLD = "closedloop_plugin.testing.fake_world:FakeWorld"  # as a user names a custom world
PROGRESS = re.compile(r"\d%\||\d+it \[")  # the number of progress lines depends on time
OTHER_PROGRAMS = ("fake endpoint", "advlm_server", "install.py", "torchvision_shim.py", "verify_carla.py")


@dataclass(frozen=True)
class CommandResult:
    """Exit code and output. `code` is "exception" if an exception was not caught (a user sees a traceback)."""

    code: int | str
    out: str
    err: str

    def recorded_form(self) -> dict[str, Any]:
        """The recorded form: the wording is free to change."""
        return {"code": self.code, "out": "text" if self.out.strip() else "none", "err": _lines(self.err)}


class _Stream(io.StringIO):
    """Captured output of a program that sets its streams' encoding."""

    def reconfigure(self, **_: Any) -> None:
        pass


class _ParserBuilt(BaseException):
    """Raised to get the parser out of a program that starts to parse."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def run_in_process(program: Callable[..., Any], words: Sequence[str]) -> CommandResult:
    """Run a program's main function in this process."""
    out, err = _Stream(), _Stream()
    code: int | str
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["x", *words]),
    ):
        try:
            code = int(program(list(words)) or 0)
        except SystemExit as exc:
            code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
            if isinstance(exc.code, str):
                print(exc.code, file=err)
        except Exception:
            code = "exception"
            traceback.print_exc(file=err)
    return CommandResult(code, out.getvalue(), err.getvalue())


def parser_of(program: Callable[..., Any]) -> argparse.ArgumentParser:
    """The parser that a program builds, taken when it starts to parse."""

    def stop_with_parser(self: argparse.ArgumentParser, *_: Any, **__: Any) -> Any:
        raise _ParserBuilt(self)

    with mock.patch.object(argparse.ArgumentParser, "parse_args", stop_with_parser):
        try:
            program([])
        except _ParserBuilt as exc:
            return exc.parser
    raise RuntimeError(f"{program} builds no argparse parser")


@contextlib.contextmanager
def in_workspace(work: Workspace, **changes: str) -> Iterator[None]:
    """The environment and the current folder of `work.run`, for programs in this process."""
    before = Path.cwd()
    with mock.patch.dict(os.environ, work.environment(**changes), clear=True):
        os.chdir(work.folder)
        try:
            yield
        finally:
            os.chdir(before)


def _lines(text: str) -> str:
    if "Traceback (most recent call last)" in text:
        return "traceback"
    if text.startswith("usage:"):
        return "usage"
    count = sum(1 for line in text.strip().splitlines() if line.strip() and not PROGRESS.search(line))
    return "none" if not count else "one" if count == 1 else "several"


def programs() -> Mapping[str, Callable[..., Any]]:
    """Every program with a command line, by its recorded name; each takes the arguments after the name."""
    files = {"advlm_server": _advlm_server()}
    files |= {path.name: path for path in (REPO / "scripts").glob("*.py") if path.name in OTHER_PROGRAMS}
    installed = {name: _installed(name) for name in ("ad2", "lmms_eval")}
    onboard = {"onboard client": _onboard("client"), "onboard relay": _onboard("relay")}
    return {**installed, **onboard, "fake endpoint": _fake_endpoint, **{k: _file(path) for k, path in files.items()}}


def _installed(name: str) -> Callable[..., Any]:
    (found,) = metadata.entry_points(group="console_scripts", name=name)
    return found.load()


def _file(path: Path) -> Callable[..., Any]:
    def run(words: Sequence[str]) -> Any:
        with mock.patch.object(sys, "argv", [str(path), *words]):
            return runpy.run_path(str(path), run_name="__main__") and 0

    return run


# Adapter: names of our modules, which may move.


def _fake_endpoint(words: Sequence[str]) -> Any:
    from lmms_eval_ad2.testing.fake_endpoint import main

    return main(words)


def _advlm_server() -> Path:
    return REPO / "closedloop_plugin" / "carla" / "leaderboard_agent" / "advlm_server.py"


def _onboard(name: str) -> Callable[..., Any]:
    def run(words: Sequence[str]) -> Any:
        module = importlib.import_module(f"closedloop_plugin.robots.onboard.{name}")
        return module.main(list(words))

    return run
