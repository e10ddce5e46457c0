"""Every command's flags and positionals in its parser: types, defaults, choices, and parsed command lines.

The internal view: it needs argparse parsers. `commands_help` does not depend on the library.
A type is recorded by its values for the TEXTS: the repr, or "!" if refused; none if all texts are unchanged.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from command_lines import OTHER_PROGRAMS, in_workspace, parser_of, programs, run_in_process
from workspace import Workspace

COST = "seconds"
TEXTS = ("1", "0", "-1", "1.5", "1e3", "1_000", " 1 ", "nan", "inf", "true", "x", "a/./b/", "")
LINES = (
    "demo", "demo --out a --out b", "demo --open", "data import drivelm x --form csv --skip-bad", "tasks",
    "tasks ad2_*", "data import --split train drivelm x", "data import drivelm x --as other",
    "data verify --json drivelm", "eval --model m --out o -- --verbosity DEBUG --x=1",
    "eval --model=m --out=o --limit=3", "eval --model m --out o rest", "report a b --json",
    "report a --distractors s t", "report --html p.html a b", "report compare a b",
    "drive score a b --routes r --apart", "drive score --routes r a", "drive show o:1 --frames 3",
    "drive run --suite demo --agent expert --out o --set a=1 --set b=2 --seed -1",
    "drive run --scenario f.scenic --agent endpoint:m@http://h/v1 --out o --decision-hz 2.5 --limit 1 --limit 2",
    "drive map --route 1 --route 2 --out o", "merge o a b", "drive routes add f.xml --name n",
    "threats gallery d --runs a b --out o", "threats check a b --seed 7",
    "threats search s --agent expert --out o --budget 3", "carla up --ports 2000,2010 --gpus 0,1", "carla down",
    "serve --model m --queue 1", "robot run --agent still --out o", "robot deploy limo-ackermann",
    "robot deploy limo-ackermann me@host --dry-run", "robot stop --robot r --release",
    "mcq build --source a --source b=c --split x --images i --llm rules --out o", "mcq check q --rotations 4",
    "mcq split q --test 1e-1", "export swift --tasks t --out o.jsonl", "annotate page s --out o --scale 5 --lang zh",
    "annotate export d --out o --merge majority", "judge rate i --out o", "judge agree r h --json",
    "annotate pictures --out o", "annotate --out o pictures", "annotate d --no-page --out o",
    "serve --model m --model-x 1", "drive run --suite a --scenario b --agent c --out o", "report a --json --markdown",
)  # fmt: skip


def record(work: Workspace) -> dict[str, Any]:
    with in_workspace(work):
        found = programs()
        parsers = {name: parser_of(found[name]) for name in ("ad2", *OTHER_PROGRAMS)}
        commands = {path: entry for name, parser in parsers.items() for path, entry in _tree(name, parser)}
        return {
            "texts": list(TEXTS),
            "commands": commands,
            "parsed": {line: _parsed(parsers["ad2"], line) for line in LINES},
        }


def _tree(path: str, parser: argparse.ArgumentParser) -> list[tuple[str, dict[str, Any]]]:
    """A parser and all its sub-commands, each with its full name."""
    subparsers = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    children = {name: child for action in subparsers for name, child in action.choices.items()}
    arguments = [action for action in parser._actions if action not in subparsers]
    entry: dict[str, Any] = {
        "arguments": {_name(action): _argument(parser, action) for action in arguments},
        "positionals": [_name(action) for action in arguments if not action.option_strings],
        "abbreviations": parser.allow_abbrev,
        "exclusive": [
            {"required": group.required, "of": [_name(action) for action in group._group_actions]}
            for group in parser._mutually_exclusive_groups
        ],
    }
    if subparsers:
        entry["sub-commands"] = {"required": subparsers[0].required, "names": list(children)}
    return [(path, entry), *(item for name, child in children.items() for item in _tree(f"{path} {name}", child))]


def _argument(parser: argparse.ArgumentParser, action: argparse.Action) -> dict[str, Any]:
    kind = type(action).__name__.strip("_").removesuffix("Action")
    entry = {"kind": kind, "dest": action.dest}
    known = {
        "flags": action.option_strings,
        "nargs": action.nargs,
        "default": None if action.default is argparse.SUPPRESS else _plain(action.default),
        "const": _plain(action.const),
        "choices": _plain(tuple(action.choices)) if action.choices is not None else None,
        "required": action.required or None,
        "hidden": True if action.help is argparse.SUPPRESS else None,
        "takes": _takes(parser, action) if kind in ("Store", "Append") else None,
    }
    return entry | {key: value for key, value in known.items() if value not in (None, [])}


def _takes(parser: argparse.ArgumentParser, action: argparse.Action) -> str | None:
    """The value of each text, None if all are unchanged; choices are recorded separately."""
    values = []
    for text in TEXTS:
        try:
            values.append(_shown(parser._get_value(action, text)))
        except argparse.ArgumentError:
            values.append("!")
    return " | ".join(values) if values != [repr(text) for text in TEXTS] else None


def _shown(value: Any) -> str:
    return f"path {str(value)!r}" if isinstance(value, Path) else repr(value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return _shown(value) if isinstance(value, Path) else value


def _name(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else action.dest


def _parsed(parser: argparse.ArgumentParser, line: str) -> Any:
    values: dict[str, Any] = {}

    def parse(words: list[str]) -> None:
        values.update(vars(parser.parse_args(words)))

    result = run_in_process(parse, line.split())
    if result.code:
        return f"refused with code {result.code}"
    return {key: _plain(value) for key, value in values.items() if not callable(value)}
