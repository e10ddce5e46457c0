"""Mistakes in Scenic programs whose own messages do not name them: open brackets, unknown parameters and words."""

from __future__ import annotations

import inspect
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from closedloop_plugin.core.state import ActorKind
from closedloop_plugin.scenarios.catalogue import HERE
from lmms_eval_ad2.errors import Ad2Error, near_hint

WHEN = ("time", "distance")  # how the library's behaviors measure `due`, see places.scenic
_OF_SCENIC = {"debugRender", "use2DMap"}  # parameters that Scenic adds
_PAIRS = {")": "(", "]": "[", "}": "{"}


def syntax_fault(program: Path, exc: BaseException) -> tuple[str, int, str] | None:
    """(file, line, message) of a bracket or text that is not closed, if the parser failed for it; else None.

    Scenic names another line then, or raises KeyError with the number of an empty line (of pegen's tokenizer).
    """
    frames = list(_frames(exc))
    parser = next(
        (frame for frame in reversed(frames) if frame.f_code.co_filename.endswith("pegen/tokenizer.py")), None
    )
    from scenic.core.errors import ScenicSyntaxError

    if not (isinstance(exc, SyntaxError | ScenicSyntaxError) or (isinstance(exc, KeyError) and parser is not None)):
        return None
    name = getattr(exc, "filename", None)
    if parser is not None and not name:
        name = getattr(parser.f_locals.get("self"), "_path", None)
    file = Path(name or program)
    try:
        found = unclosed(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return found and (str(file), *found)


def unclosed(text: str) -> tuple[int, str] | None:
    """(line, message) of the innermost bracket without its counterpart, or of a text without its end."""
    opened: list[tuple[str, int]] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type != tokenize.OP:
                continue
            if token.string in _PAIRS.values():
                opened.append((token.string, token.start[0]))
            elif token.string in _PAIRS:
                if not opened or opened[-1][0] != _PAIRS[token.string]:
                    other = f": line {opened[-1][1]} has '{opened[-1][0]}'" if opened else ""
                    return token.start[0], f"SyntaxError: '{token.string}' closes no bracket{other}"
                opened.pop()
    except tokenize.TokenError as exc:
        if "string" in str(exc.args[0]):
            return exc.args[1][0], "SyntaxError: this text is never closed"
    except IndentationError:
        return None
    return (opened[-1][1], f"SyntaxError: '{opened[-1][0]}' is never closed") if opened else None


def unknown_parameter(program: Path, exc: BaseException) -> str | None:
    """The message of a `globalParameters.name` that the program does not have; None for any other error."""
    if not isinstance(exc, KeyError) or not exc.args:
        return None
    from scenic.syntax.veneer import ParameterTableProxy

    frame = next(iter(reversed(list(_frames(exc)))), None)
    table = frame.f_locals.get("self") if frame else None
    if not isinstance(table, ParameterTableProxy):
        return None
    from closedloop_plugin.worlds.bridge.params import RESERVED

    if _line_with(program, "param ", f"{exc.args[0]} ="):
        return (
            f"globalParameters.{exc.args[0]}: a requirement cannot read globalParameters; give the value a name before "
            f"it ({exc.args[0]} = globalParameters.{exc.args[0]}) and use the name"
        )
    name, known = str(exc.args[0]), sorted(set(table) - RESERVED - _OF_SCENIC)
    if not known:
        return f"globalParameters.{name}: no parameter of this name: a line `param {name} = ...` is needed before it"
    return f"globalParameters.{name}: no parameter of this name{near_hint(name, known)}"


def unknown_kind(program: Path, exc: BaseException) -> str | None:
    """Place and message of `with kind "tram"`, if there is no such kind of actor; None for any other error."""
    found = re.fullmatch(r"'(.*)' is not a valid ActorKind", str(exc)) if isinstance(exc, ValueError) else None
    if found is None:
        return None
    return f"{program}{_line_with(program, found[1])}: kind '{found[1]}': no such kind{near_hint(found[1], ActorKind)}"


def check_words(objects: Iterable[Any], program: Path) -> None:
    """Raise Ad2Error for a behavior of the library whose `kind` is neither "time" nor "distance"."""
    from scenic.core.dynamics.behaviors import Behavior

    for behavior in (getattr(one, "behavior", None) for one in objects):
        if not isinstance(behavior, Behavior) or not _is_of_library(type(behavior)):
            continue
        given = inspect.signature(behavior.makeGenerator).bind(None, *behavior._args, **behavior._kwargs).arguments
        kind = given.get("kind")
        if isinstance(kind, str) and kind not in WHEN:
            name = type(behavior).__name__
            line = _line_with(program, name, kind)
            raise Ad2Error(
                f"{program}{line}: {name}: '{kind}' is no way to measure when the ego is due; expected "
                '"time" (seconds before the place) or "distance" (metres before it)'
            )


def _is_of_library(behavior: type) -> bool:
    try:
        return Path(inspect.getfile(behavior)).parent == HERE
    except (TypeError, OSError):
        return behavior.__module__.startswith("closedloop_plugin.scenarios.")


def _line_with(program: Path, *words: str) -> str:
    """ ", line N" of the first line with all these words, or empty."""
    try:
        lines = program.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    return next((f", line {n}" for n, line in enumerate(lines, 1) if all(word in line for word in words)), "")


def _frames(exc: BaseException) -> Iterator[FrameType]:
    trace = exc.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next
