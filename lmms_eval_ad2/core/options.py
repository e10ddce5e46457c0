"""Command options as fields of a frozen dataclass; parser, run identity and reference page are derived from them.

    @dataclass(frozen=True, kw_only=True)
    class GreetOptions:
        name: str = option("person to greet", metavar="NAME", positional=True)
        times: int = option("number of greetings (default 1)", default=1, least=1)
        loud: bool = option("print in capitals", default=False)

    def register(parts):
        add_command(parts, "greet", greet, GreetOptions, help="print a greeting")

    def greet(options: GreetOptions) -> int: ...

The field's name is the flag (`no_traffic` is `--no-traffic`), its type determines what the parser accepts:

    bool                     a switch, False without the flag
    str, int, float, Path    one value
    Literal["a", "b"]        one of these
    tuple[str, ...]          one or more values; with `repeated`, the flag may be given several times
    tuple[str, str]          as many values as types
    X | None                 as X, None without the flag

A field without a default is required. Shared options are a dataclass that the commands' own dataclasses inherit;
a command that does not offer an inherited option replaces it by a field with the value `fixed(...)`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import NoneType
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.run_files import FLAG, HELP, CommandParser

KEY = "command option"  # of a field's metadata
OptionsT = TypeVar("OptionsT")
Groups = Mapping[str, Sequence[type]]  # title in --help -> classes whose options are listed below it


@dataclass(frozen=True, eq=False)
class ExclusiveOptions:
    """Options of which only one may be given; one must be, if `required`."""

    required: bool = False


@dataclass(frozen=True)
class OptionSpec:
    """The metadata of a field, see `option`. `fixed`: not offered, always the default."""

    help: str | None = None
    metavar: str | tuple[str, ...] | None = None
    choices: tuple[Any, ...] | None = None
    flag: str | None = None
    dest: str | None = None
    positional: bool = False
    repeated: bool = False
    exclusive: ExclusiveOptions | None = None
    needs: str | None = None
    least: float | None = None
    most: float | None = None
    identity: tuple[str, ...] = ()
    fixed: bool = False
    expert: bool = False


def option(help: str | None = None, *, default: Any = MISSING, identity: str | Sequence[str] = (), **spec: Any) -> Any:
    """A dataclass field that is an option; its type is the field's annotation.

    help, metavar, choices    as in `argparse`
    flag, dest                if they differ from the field's name
    positional                an argument without a flag
    repeated                  of a tuple: a flag that may be given several times, with one value each
    exclusive                 the ExclusiveOptions that it belongs to
    needs                     name of the option without which it has no effect: a value other than its default is then
                              refused by `read_options`
    least, most               bounds of a number, checked by `read_options`
    identity                  keys of the run's identity that it determines: a folder with results refuses other values;
                              an option without such a key may differ from start to start
    expert                    without a flag: a key of `--config` (run_files.py)
    """
    keys = (identity,) if isinstance(identity, str) else tuple(identity)
    return field(default=default, metadata={KEY: OptionSpec(help=help, identity=keys, **spec)})


def fixed(value: Any) -> Any:
    """A dataclass field for an inherited option that the command does not offer."""
    return field(default=value, metadata={KEY: OptionSpec(fixed=True)})


@dataclass(frozen=True)
class DeclaredOption:
    """One option of a dataclass: its field and the field's annotation."""

    name: str
    hint: Any
    default: Any
    owner: type  # the class that declares it, a base class for shared options
    spec: OptionSpec

    @property
    def flag(self) -> str:
        return self.spec.flag or f"--{self.name.replace('_', '-')}"

    @property
    def dest(self) -> str:
        return self.spec.dest or self.name

    @property
    def shown(self) -> str:
        """The option as messages name it."""
        return f"{FLAG} {self.name}:" if self.spec.expert else self.flag

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def is_tuple(self) -> bool:
        return get_origin(_without_none(self.hint)) is tuple

    def arguments(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Arguments of `add_argument`."""
        more: dict[str, Any] = {"help": self.spec.help}
        if self.hint is bool:
            return (self.flag,), more | {"action": "store_true", "dest": self.dest}
        if self.spec.metavar is not None:
            more["metavar"] = self.spec.metavar
        more |= self._values()
        if not (self.required or self.is_tuple):
            more["default"] = self.default
        if self.spec.positional:
            return (self.dest,), more
        return (self.flag,), more | {"dest": self.dest, "required": self.required}

    def _values(self) -> dict[str, Any]:
        """nargs, action, choices and type."""
        found: dict[str, Any] = {}
        kind = _without_none(self.hint)
        if self.is_tuple:
            items = get_args(kind)
            if self.spec.repeated:
                found["action"] = "append"
            elif items[-1] is not Ellipsis:
                found["nargs"] = len(items)
            else:
                found["nargs"] = "+" if self.required or not self.spec.positional else "*"
            kind = items[0]
        elif self.spec.positional and not self.required:
            found["nargs"] = "?"
        choices = get_args(kind) if get_origin(kind) is Literal else self.spec.choices
        if choices is not None:
            found["choices"] = choices
            kind = type(choices[0])
        return found if kind is str else found | {"type": _path if kind is Path else kind}

    def read(self, args: argparse.Namespace) -> Any:
        """Return the parsed value; raises Ad2Error if it is out of bounds."""
        value = getattr(args, self.dest)
        if self.is_tuple:
            return tuple(value) if value else self.default
        return self.bounded(value)

    def bounded(self, value: Any) -> Any:
        """The value; raises Ad2Error if it is out of bounds."""
        least, most = self.spec.least, self.spec.most
        if value is not None and least is not None and not least <= value <= (value if most is None else most):
            bounds = f"{least} or more" if most is None else f"from {least} to {most}"
            raise Ad2Error(f"{self.shown} {value}: {bounds}")
        if value is not None and least is not None and math.isinf(value):
            raise Ad2Error(f"{self.shown} {value}: a finite number")
        return value


@dataclass(frozen=True)
class OptionsCommand(Generic[OptionsT]):
    """The function behind a parser: reads the options and calls the command with them."""

    run: Callable[..., int]
    options: type[OptionsT] | None
    parser: argparse.ArgumentParser

    def __call__(self, args: argparse.Namespace) -> int:
        return self.run(read_options(self.options, args)) if self.options else self.run()


def add_command(
    parts: Any,
    name: str,
    run: Callable[..., int],
    options: type | None = None,
    groups: Groups | None = None,
    **how: Any,
) -> argparse.ArgumentParser:
    """Add a sub-command. `run` gets an instance of `options`, if any; `how` is passed to `add_parser`.

    Descriptions and epilogs with line breaks are printed as they are laid out.
    """
    if any("\n" in (how.get(text) or "") for text in ("description", "epilog")):
        how["formatter_class"] = argparse.RawDescriptionHelpFormatter
    parts._parser_class = CommandParser
    parser: CommandParser = parts.add_parser(name, **how)
    if options:
        add_options(parser, options, groups or {})
    parser.set_defaults(func=OptionsCommand(run=run, options=options, parser=parser))
    return parser


def add_options(parser: argparse.ArgumentParser, options: type, groups: Groups) -> None:
    """Add the options; a class with options without a flag needs a CommandParser."""
    declared = options_of(options)
    if isinstance(parser, CommandParser) and any(one.spec.expert for one in declared):
        parser.declared = {one.name: one for one in declared if not one.spec.fixed}
    titled = {title: parser.add_argument_group(title) for title in groups}
    containers: dict[type, Any] = {owner: titled[title] for title, owners in groups.items() for owner in owners}
    exclusive: dict[ExclusiveOptions, Any] = {}
    for one in declared:
        if one.spec.fixed or one.spec.expert:
            parser.set_defaults(**{one.dest: one.default})
            continue
        container = containers.get(one.owner, parser)
        if of := one.spec.exclusive:
            container = exclusive.get(of) or container.add_mutually_exclusive_group(required=of.required)
            exclusive[of] = container
        names, how = one.arguments()
        container.add_argument(*names, **how)
    if isinstance(parser, CommandParser) and parser.declared:
        parser.add_argument(FLAG, metavar="FILE|KEY=VALUE", action="append", help=HELP)


def read_options(options: type[OptionsT], args: argparse.Namespace) -> OptionsT:
    """Return an instance with the parsed values; raises Ad2Error for a number out of bounds, and for an option without
    the one that it needs."""
    declared = {one.name: one for one in options_of(options) if not one.spec.fixed}
    values = {name: one.read(args) for name, one in declared.items()}
    given = {name for name, one in declared.items() if values[name] != one.default}
    for name, one in declared.items():
        if name in given and one.spec.needs is not None and one.spec.needs not in given:
            raise Ad2Error(f"{one.shown} is an option of {declared[one.spec.needs].shown}, which is not given; omit it")
    return options(**values)


def from_values(options: type[OptionsT], values: Mapping[str, Any]) -> OptionsT:
    """Return an instance from a caller's values, with the checks of the command line; a text for a path is one.

    Raises Ad2Error for a number out of bounds, or a value that is not among the choices.
    """
    checked = dict(values)
    for one in options_of(options):
        if (value := values.get(one.name)) is None:
            continue
        kind = _without_none(one.hint)
        choices = get_args(kind) if get_origin(kind) is Literal else one.spec.choices
        if choices is not None and not one.is_tuple and value not in choices:
            raise Ad2Error(f"{one.name}={value!r}: expected one of {', '.join(map(str, choices))}")
        checked[one.name] = Path(value) if kind is Path and isinstance(value, str) else one.bounded(value)
    return options(**checked)


def options_of(options: type) -> tuple[DeclaredOption, ...]:
    """The options of a dataclass, those of its bases first, in the order of their definition."""
    hints, declared = get_type_hints(options), {one.name: one for one in fields(options) if KEY in one.metadata}
    named = {owner: vars(owner).get("__annotations__", {}) for owner in (*options.__mro__[1:], options)}
    # A class replaces the options of the classes behind it in the method resolution order.
    owners = {name: owner for owner in reversed(options.__mro__) for name in named[owner]}
    return tuple(
        DeclaredOption(
            name=name, hint=hints[name], default=declared[name].default, owner=owner, spec=declared[name].metadata[KEY]
        )
        for owner, names in named.items()
        for name in names
        if name in declared and owners[name] is owner
    )


def identity_of(options: Any, resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of a run: each key that an option determines, with its value in `resolved`, else the option's.

    `resolved` contains values derived from options: the hash of a file, the description of a loaded model.
    """
    declared = [one for one in options_of(type(options)) if not one.spec.fixed]
    keys = dict.fromkeys(key for one in declared for key in one.spec.identity)
    return {key: resolved[key] if key in resolved else getattr(options, key) for key in keys}


def _path(text: str) -> Path:
    """The path on a command line; an empty one would be the current folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; name a file or a folder")
    return Path(text)


def _without_none(hint: Any) -> Any:
    """X of X | None."""
    left = [part for part in get_args(hint) if part is not NoneType]
    return left[0] if NoneType in get_args(hint) and len(left) == 1 else hint
