"""lmms-eval's command line, read from its source: an import of the module that parses it takes seconds."""

from __future__ import annotations

import argparse
import ast
import difflib
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.harness.wrapper_source import source_of

_TYPES = {"int": int, "float": float}
_CONSTANTS = ("action", "nargs", "dest", "choices", "default")  # arguments of add_argument that are read


class _HostParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Ad2Error(f"options of lmms-eval: {message}")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read a command line as lmms-eval does; empty if its source has another form than the tested one.

    Raises Ad2Error for an unknown option, with the nearest one, and for a value that is missing or of the wrong type.
    """
    parser = _parser()
    if parser is None:
        return argparse.Namespace()
    parsed, rest = parser.parse_known_args(list(words))
    for word in rest:
        if not word.startswith("-"):
            raise Ad2Error(f"options of lmms-eval: '{word}' belongs to no option")
        known = [name for action in parser._actions for name in action.option_strings]
        near = difflib.get_close_matches(word.partition("=")[0], known, 1, 0.6)
        hint = f"did you mean {near[0]}?" if near else "all: lmms_eval --help"
        raise Ad2Error(f"options of lmms-eval: unknown option {word.partition('=')[0]}; {hint}")
    return parsed


@functools.cache
def _parser() -> argparse.ArgumentParser | None:
    file = source_of("lmms_eval.__main__")
    if file is None:
        return None
    parser, found = _HostParser(add_help=False), False
    parser.add_argument("-h", "--help", action="store_true")
    for names, how in _arguments(ast.parse(file.read_text("utf-8"))):
        parser.add_argument(*names, **how)
        found = True
    return parser if found else None


def _arguments(tree: ast.Module) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Arguments of each call of `add_argument` in `parse_eval_args`; types are read if they are numbers."""
    functions = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "parse_eval_args")
    for node in (inner for function in functions for inner in ast.walk(function)):
        if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"):
            continue
        names = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        how = {name: ast.literal_eval(given[name]) for name in _CONSTANTS if name in given and _is_literal(given[name])}
        if (number := _TYPES.get(getattr(given.get("type"), "id", ""))) is not None:
            how["type"] = number
        yield names, how


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True
