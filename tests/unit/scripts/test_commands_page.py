"""docs/commands.md is current, and the options that it marks as a run's identity are those found by measurement."""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from support.running import REPO

from lmms_eval_ad2.cli.main import parser
from lmms_eval_ad2.core.options import DeclaredOption, options_of

MEASURED: dict[str, Any] = json.loads((REPO / "tests/golden/recordings/resume_rules.json").read_text("utf-8"))["rows"]
# command -> its tables in the recording, and the prefix of the identity's keys in the file of the folder
COMMANDS = {
    "drive run": (("drive run",), "identity."),
    "threats search": (("threats search",), "identity."),
    "threats generate": (("threats generate",), "asked."),
    "robot run": (("robot run",), "identity."),
    "mcq build": (("mcq build, rules", "mcq build, a model"), ""),
    "annotate page": (("annotate",), ""),
}
FIXED = {"version", "commit"}  # of an identity: no option sets them
BY_SEED = {"threats search": {"draws"}}  # a search draws by the seed only


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("commands_page", REPO / "scripts/commands_page.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_is_current(script: ModuleType) -> None:
    assert script.PAGE.read_text("utf-8") == script.page(), "python scripts/commands_page.py"


def test_the_page_has_every_flag_of_every_command(script: ModuleType) -> None:
    page, flags = script.page(), {flag for p in _all(parser()) for flag in p._option_string_actions}
    missing = [flag for flag in flags - {"-h", "--help", "--version"} if f"`{flag}" not in page]
    assert not missing


def _all(p: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield p
    for action in p._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _all(command)


def options(command: str) -> list[DeclaredOption]:
    p = parser()
    for word in command.split():
        (branches,) = (action for action in p._actions if isinstance(action, argparse._SubParsersAction))
        p = branches.choices[word]
    return [option for option in options_of(p.get_default("func").options) if not option.spec.fixed]


@pytest.mark.parametrize("command", COMMANDS)
def test_identity_options_are_those_refused_on_resume(command: str) -> None:
    """A row of the measurement is an option with another value, such as "--agent temperature"."""
    refused: dict[str, bool] = {}
    for table in COMMANDS[command][0]:
        for row, outcome in MEASURED[table]["options"].items():
            flag = row.split()[0]
            refused[flag] = refused.get(flag, False) or outcome == "refused"
    marked = {one.flag: bool(one.spec.identity) for one in options(command)}
    assert {flag: outcome for flag, outcome in refused.items() if flag in marked} == {
        flag: marked[flag] for flag in refused if flag in marked
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_identity_marks_are_keys_of_the_identity(command: str) -> None:
    """For folders with a run.json, marks cover all keys of the identity."""
    tables, prefix = COMMANDS[command]
    keys = {key for table in tables for key in MEASURED[table]["compared"] if key.startswith(prefix)}
    identity_keys = {key.removeprefix(prefix) for key in keys if "." not in key.removeprefix(prefix)}
    marked = {key for one in options(command) for key in one.spec.identity}
    assert marked <= identity_keys
    if prefix:
        assert identity_keys - marked <= FIXED | BY_SEED.get(command, set())
