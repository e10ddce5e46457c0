"""Run files: the options of a command in YAML, given by `--config FILE`, or one of them by `--config KEY=VALUE`.

    # run.yaml: ad2 drive run --config run.yaml --out runs/a
    suite: demo
    agent: steer-only
    decision_hz: 5        # an expert's option: it has no flag of its own

A key is an option's name with underscores. Options on the command line override those of files, and later files
earlier ones; KEY=VALUE of an option that may be repeated is given once for each value. Values go through the parser
of the command line, so that both are checked alike.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import one_line

FLAG = "--config"
HELP = "YAML file of options by their names, or one option; also those without a flag (docs/commands.md); repeatable"


RunFileOption = Any  # a DeclaredOption of options.py, which imports this module


@dataclass(frozen=True)
class RunFileSetting:
    """One value of a run file. `place`: how messages name it, "run.yaml, line 3, decision_hz"; `single`: KEY=VALUE."""

    key: str
    value: Any
    place: str
    single: bool = False


class CommandParser(argparse.ArgumentParser):
    """Parser of a command; what `--config` gives stands in front of the words of the command line."""

    declared: Mapping[str, RunFileOption] = {}  # empty: the command has no options without a flag

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        if not self.declared:
            return super().parse_known_args(words, namespace)
        space = argparse.Namespace() if namespace is None else namespace
        files, words = _taken(words)
        taken: dict[str, tuple[list[str], bool]] = {}  # by name: words, and whether they are of KEY=VALUE
        for setting in (one for file in files for one in settings_of(file)):
            option = self._option(setting)
            given = option_words(option, setting)
            checked = _checked(option, given, setting)
            before, extends = taken.get(option.name, ([], False))
            if option.spec.repeated and extends and setting.single:  # as a flag that is given several times
                given = [*before, *given]
                checked = _checked(option, given, setting)
            taken[option.name] = given, setting.single
            if option.spec.expert:
                setattr(space, option.dest, getattr(checked, option.dest))
        front: list[str] = []
        for name, (given, _) in taken.items():
            option = self.declared[name]
            on_line = option.spec.repeated and any(word.partition("=")[0] == option.flag for word in words)
            front += [] if option.spec.expert or on_line else given
        parsed, unknown = super().parse_known_args(front + words, space)
        if getattr(parsed, "config", None):  # "--conf x": argparse takes it for --config, but its value was not read
            self.error(f"{FLAG}: write it in full")
        return parsed, unknown

    def hint(self, unknown: Sequence[str]) -> str:
        """What to write instead of the first of these words that is the flag of an option without one."""
        for word in unknown:
            name = word.partition("=")[0].removeprefix("--").replace("-", "_")
            if word.startswith("--") and name in self.declared and self.declared[name].spec.expert:
                return f"; {word.partition('=')[0]} is a key: {FLAG} {name}=VALUE"
        return ""

    def _option(self, setting: RunFileSetting) -> RunFileOption:
        name = setting.key.replace("-", "_")
        if name not in self.declared:
            near = difflib.get_close_matches(name, self.declared, n=1)
            hint = f"did you mean {near[0]}?" if near else f"see {self.prog} --help and docs/commands.md"
            raise Ad2Error(f"{setting.place}: no option of {self.prog}; {hint}")
        return self.declared[name]


class _ValueParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Ad2Error(message)


def _taken(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The values of `--config`, and the other words."""
    files: list[str] = []
    others: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--":
            return files, [*others, word, *left]
        if word == FLAG:
            if (value := next(left, None)) is None:
                raise Ad2Error(f"{FLAG}: a file or KEY=VALUE is missing after it")
            files.append(value)
        elif word.startswith(f"{FLAG}="):
            files.append(word.removeprefix(f"{FLAG}="))
        else:
            others.append(word)
    return files, others


def settings_of(text: str) -> Iterator[RunFileSetting]:
    """The settings of a value of `--config`: of a file, or "KEY=VALUE" with a value as in YAML. Raises Ad2Error."""
    import yaml  # here, since every command imports this module

    from lmms_eval_ad2.storage import user_yaml

    key, equals, value = text.partition("=")
    if equals and key.replace("-", "_").isidentifier():
        read: Any = value
        if value in ("true", "false") or value.startswith("["):
            with contextlib.suppress(yaml.YAMLError):  # a text that begins with "["
                read = user_yaml.parse(value, user_yaml.PlainTexts)
        yield RunFileSetting(key, read, f"{FLAG} {key}", single=True)
        return
    path = Path(text)
    try:
        content = user_yaml.read_text(path)
        values = user_yaml.parse(content, user_yaml.PlainTexts)
    except (OSError, yaml.YAMLError) as exc:
        raise Ad2Error(f"{FLAG} {one_line(text)}: not a readable YAML file: {' '.join(str(exc).split())}") from exc
    if values is None:
        return
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise Ad2Error(f"{path}: expected options as KEY: VALUE, one per line")
    root = yaml.compose(content, user_yaml.PlainTexts)
    lines = {key.value: key.start_mark.line + 1 for key, _ in root.value} if isinstance(root, yaml.MappingNode) else {}
    for key, value in values.items():
        yield RunFileSetting(key, value, f"{path}, line {lines.get(key, 1)}, {key}")


def option_words(option: RunFileOption, setting: RunFileSetting) -> list[str]:
    """The setting as words of a command line; empty for null, and for a switch that is off."""
    value = setting.value
    if value is None:
        return []
    if option.hint is bool:
        if not isinstance(value, bool):
            raise Ad2Error(f"{setting.place}: expected true or false, found {one_line(repr(value))}")
        return [option.flag] if value else []
    if option.spec.positional:
        raise Ad2Error(f"{setting.place}: an argument of the command line, not of a run file")
    items = value if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, str):
            raise Ad2Error(f"{setting.place}: expected a text or a number, found {one_line(repr(item))}")
    if option.is_tuple and not option.spec.repeated:
        return [option.flag, *map(str, items)] if items else []
    if len(items) > 1 and not option.is_tuple:
        raise Ad2Error(f"{setting.place}: expected one value, found {len(items)}")
    return [f"{option.flag}={item}" for item in items]


def _checked(option: RunFileOption, words: Sequence[str], setting: RunFileSetting) -> argparse.Namespace:
    """The words parsed by the option alone; an error names the place of the setting."""
    parser = _ValueParser(add_help=False, allow_abbrev=False)
    names, how = option.arguments()
    parser.add_argument(*names, **{**how, "required": False})
    try:
        read = parser.parse_args(list(words))
    except Ad2Error as exc:
        message = str(exc).partition(": ")[2] or str(exc)
        raise Ad2Error(f"{setting.place}: {message}") from None
    return read if words else argparse.Namespace(**{option.dest: option.default})
