"""Places of errors in a user's program: file, line and message of any exception of Scenic, and of its rejections."""

from __future__ import annotations

import inspect
import math
import re
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from closedloop_plugin.core.xml_files import MapError
from closedloop_plugin.scenarios.known_words import UnknownWord
from closedloop_plugin.worlds.base import EpisodeSetup, InvalidScene
from closedloop_plugin.worlds.bridge.faults.dialects import no_map
from closedloop_plugin.worlds.bridge.faults.names import line_with, message_of
from closedloop_plugin.worlds.bridge.faults.syntax import decoding_fault, depth_fault, frames_of, syntax_fault
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.numbers import is_number

HOME = Path(__file__).parents[4]  # of our package
_OF_NUMBERS = {
    "SetPositionAction": "a point", "SetSpeedAction": "m/s", "SetWalkingSpeedAction": "m/s",
    "SetWalkingDirectionAction": "a heading",
}  # fmt: skip
APPLY = "executeActions"  # the method of Scenic's Simulation that applies the actions of the agents


def place_of(program: Path, exc: BaseException) -> str:
    """Path, line and message of an error in a program."""
    program = Path(program)
    if isinstance(exc.__cause__, StopIteration):  # Python hides it, with its line, behind a RuntimeError
        exc = exc.__cause__
    if (fault := syntax_fault(program, exc)) is not None:
        return f"{fault[0]}, line {fault[1]}: {fault[2]}"
    if isinstance(exc, UnicodeDecodeError):
        return decoding_fault(program, exc)
    if isinstance(exc, RecursionError) and not any(f.f_code.co_filename == str(program) for f in frames_of(exc)):
        return depth_fault(program)
    if (hint := no_map(program, exc)) is not None:
        return hint
    name, line = _place(program, exc)
    message = str(exc) if isinstance(exc, UnknownWord) else message_of(program, exc)
    return f"{name}" + (f", line {line}" if line else "") + f": {message}"


def _place(program: Path, exc: BaseException) -> tuple[str, int | None]:
    """File and line: of the exception itself, of the last step in the user's files, of the running behaviour, or of the
    statement that made the object or value at fault."""
    line = getattr(exc, "lineno", None)
    if line is not None:
        return getattr(exc, "filename", None) or str(program), line
    stack, frames = traceback.extract_tb(exc.__traceback__), list(frames_of(exc))
    # Code that Scenic generates, as for specifiers, has line 1.
    steps = [f for f in stack if f.filename.endswith(".scenic") and (f.lineno != 1 or f.name == "<module>")]
    own = [f for f in steps if f.filename == str(program)] or [f for f in steps if not of_packages(f.filename)]
    if own:
        return own[-1].filename, own[-1].lineno
    if isinstance(exc, UnknownWord) and (line := _numbered(line_with(program, exc.what, exc.word))):
        return str(program), line
    if stated := re.search(r" on line (\d+)$", str(exc)):
        return str(program), int(stated[1])
    # The line at which the behaviour stands whose action failed when Scenic applied it.
    acting = next((_standing(f.f_locals.get("agent")) for f in frames if f.f_code.co_name == APPLY), None)
    if (found := acting or _named(program, frames) or _made_at(frames)) is not None:
        return found
    return (steps[-1].filename, steps[-1].lineno) if steps else (str(program), None)


def of_packages(file: str) -> bool:
    """True if a file is part of Scenic or of this project, not of a user."""
    import scenic

    return any(
        Path(file).is_relative_to(folder) for folder in (Path(scenic.__file__).parent, HOME / "closedloop_plugin")
    )


def _named(program: Path, frames: list[FrameType]) -> tuple[str, int] | None:
    """The line of the program that names the behaviour of our library in which the error occurred."""
    for frame in reversed(frames):
        behavior = getattr(frame.f_locals.get("agent"), "behavior", None)
        line = _numbered(line_with(program, type(behavior).__name__)) if behavior is not None else None
        if line:
            return str(program), line
    return None


def _numbered(line: str) -> int | None:
    """The number of ", line N"."""
    return int(line.rpartition(" ")[2]) if line else None


def _made_at(frames: list[FrameType]) -> tuple[str, int] | None:
    """(file, line) of the statement that made the random value or the object at fault; the outermost one."""
    for frame in frames:
        for name in ("self", "oi", "obj"):
            line: Any = getattr(frame.f_locals.get(name), "__dict__", {}).get("_source_line")
            if line is not None:
                return line
    return None


def line_of(one: Any, program: Path) -> str:
    """ ", line N" of the statement of the program that made the object; empty if it was made elsewhere."""
    found = one.__dict__.get("_source_line")
    return f", line {found[1]}" if found and found[0] == str(program) else ""


@contextmanager
def at_its_param(program: Path) -> Iterator[None]:
    """Add file and line to an error that begins with "param NAME: "."""
    try:
        yield
    except Ad2Error as exc:
        named = re.match(r"param (\w+)", str(exc))
        place = (line_with(program, f"param {named[1]}") or line_with(program, "param", named[1])) if named else ""
        raise Ad2Error(f"{program}{place}: {exc}") from exc


def check_actions(agent: Any, actions: Iterable[Any]) -> None:
    """Raise Ad2Error, with the line at which the agent's behaviour stands, for what the agent cannot take."""
    standing = _standing(agent)
    place = "{}, line {}: ".format(*standing) if standing else ""
    for action in actions:
        if inspect.isclass(action):
            call = f"{action.__name__}({', '.join(list(inspect.signature(action).parameters))})"
            raise Ad2Error(f"{place}take {action.__name__}: its arguments are missing: {call}")
        if not hasattr(action, "canBeTakenBy"):
            raise Ad2Error(f"{place}take {action!r}: expected an action, such as SetThrottleAction(0.5)")
        name = type(action).__name__
        if not action.canBeTakenBy(agent):
            raise Ad2Error(f"{place}a {type(agent).__name__} cannot take {name}")
        for key, value in vars(action).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise Ad2Error(f"{place}take {name}: {key}: expected a number, found {value:g}")
            if name in _OF_NUMBERS and isinstance(value, str):
                raise Ad2Error(f"{place}take {name}: {key}: expected {_OF_NUMBERS[name]}, found {value!r}")
            if name == "SetWalkingSpeedAction" and is_number(value) and value < 0:
                raise Ad2Error(f"{place}take {name}: {key}: expected m/s, 0 or more, found {value:g}")


def _standing(agent: Any) -> tuple[str, int] | None:
    """(file, line) of the innermost step of a program in the agent's behaviour."""
    generator, found = getattr(getattr(agent, "behavior", None), "_runningIterator", None), None
    while generator is not None:
        frame = getattr(generator, "gi_frame", None)
        if frame is not None and not of_packages(frame.f_code.co_filename):
            found = frame.f_code.co_filename, frame.f_lineno
        generator = getattr(generator, "gi_yieldfrom", None)
    return found


_LAST: list[BaseException] = []  # why the last simulation was rejected


@contextmanager
def counted_rejections(scenario: Any, program: Path, tries: int) -> Iterator[None]:
    """Raise InvalidScene with the requirement that most samples violate, if no scene is found."""
    from scenic.core.distributions import RejectionException

    counts: Counter[str] = Counter()
    checker = scenario.checker
    check = checker.checkRequirements

    def counting(sample: Any) -> Any:
        rejection = check(sample)
        if rejection is not None:
            counts[" ".join(str(rejection).split())] += 1
        return rejection

    checker.checkRequirements = counting
    try:
        yield
    except RejectionException as exc:
        if not counts:
            raise
        reason, count = counts.most_common(1)[0]
        raise InvalidScene(
            f"{program.name}: no scene found in {tries} tries: {count} of {counts.total()} rejected by: {reason}"
        ) from exc
    finally:
        del checker.checkRequirements


def remember_rejections() -> None:
    """Let Scenic's simulator store why it rejects a simulation."""
    import scenic.core.simulators as simulators

    own = simulators.optionallyDebugRejection

    def remembering(exc: BaseException) -> None:
        _LAST[:] = [exc]
        own(exc)

    simulators.optionallyDebugRejection = remembering


def rejection_of_simulation() -> str:
    """Reason of the last rejection of a simulation; empty if it is not known."""
    return " ".join(str(_LAST.pop()).split()) if _LAST else ""


@contextmanager
def map_of(setup: EpisodeSetup) -> Iterator[None]:
    """Name in the error of a map that Scenic refuses the route or program, the user's own file, and the way out."""
    try:
        yield
    except MapError as exc:
        if setup.route is not None:
            other = "give another file of the town" if setup.town else "use the town's own map: --towns DIR"
            raise exc.of_user(f"route {setup.route.id}", setup.town, f"repair it, or {other}") from exc
        assert setup.program is not None
        line = "" if setup.town else line_with(setup.program, "param", "map")
        other = "repair it, or give another one: --map FILE.xodr"
        raise exc.of_user(f"{setup.program}{line}", setup.town, other) from exc
