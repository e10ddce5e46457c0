"""Unknown names in Scenic programs: classes, behaviours, functions, attributes, parameters, arguments, modules."""

from __future__ import annotations

import builtins
import difflib
import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from closedloop_plugin.scenarios.catalogue import HERE
from closedloop_plugin.worlds.bridge.faults.syntax import frames_of
from closedloop_plugin.worlds.bridge.params import RESERVED
from closedloop_plugin.worlds.bridge.rail import Rail
from lmms_eval_ad2.core.errors import import_remedy, near_hint

_OF_SCENIC = {"debugRender", "use2DMap"}  # parameters that Scenic adds
LIBRARY = "from closedloop_plugin.scenarios.actions import *"
_OF_CARLA = {"carlaActor", "carlaController", "control", "world", "map", "client", "tm"}  # of Scenic's CARLA objects
FEW = 24  # so many names of an object are listed in full
_OPTION_ERROR = re.compile(r"missing|too many positional|unexpected keyword|multiple values|positional argument")


def message_of(program: Path, exc: BaseException) -> str:
    """The error's message in one line, with the names that are known where it occurred."""
    frames = list(frames_of(exc))
    if (parameter := unknown_parameter(program, exc, frames)) is not None:
        return parameter
    message = ": ".join(filter(None, (type(exc).__name__, " ".join(str(exc).split()))))
    if isinstance(exc, NameError) and exc.name:
        return message + _near_name(program, exc.name, frames)
    if isinstance(exc, AttributeError):
        return message + _near_attribute(exc)
    if "does not take any actions" in message:
        return message + _near_statement(program)
    if isinstance(exc, TypeError) and _OPTION_ERROR.search(message):
        return message + _signature(message, frames)
    if 'specifier "on R"' in message and "closedloop_plugin.scenarios" in program.read_text("utf-8-sig", "replace"):
        return message + "; our library's `road` is the ego's, no region: write `on lane.centerline` or another region"
    if isinstance(exc, ImportError):
        return message + _near_module(program, exc)
    return message


def unknown_parameter(program: Path, exc: BaseException, frames: list[FrameType]) -> str | None:
    """The message of a `globalParameters.name` that the program does not have; None for any other error."""
    if not isinstance(exc, KeyError) or not exc.args or not frames:
        return None
    from scenic.syntax.veneer import ParameterTableProxy

    table = frames[-1].f_locals.get("self")
    if not isinstance(table, ParameterTableProxy):
        return None
    name, known = str(exc.args[0]), sorted(set(table) - RESERVED - _OF_SCENIC)
    if line_with(program, "param ", f"{name} ="):
        return (
            f"globalParameters.{name}: a requirement cannot read globalParameters; give the value a name before "
            f"it ({name} = globalParameters.{name}) and use the name"
        )
    if not known:
        return f"globalParameters.{name}: no parameter of this name: a line `param {name} = ...` is needed before it"
    return f"globalParameters.{name}: no parameter of this name{near_hint(name, known)}"


def _near_name(program: Path, name: str, frames: list[FrameType]) -> str:
    """The known names of the kind that the program's line expects, or near ones."""
    from scenic.core.dynamics.behaviors import Monitor

    own = next(
        (f for f in reversed(frames) if f.f_code.co_filename.endswith(".scenic")), frames[-1] if frames else None
    )
    known = {} if own is None else {**vars(builtins), **own.f_globals, **own.f_locals}
    found = {key: value for key, value in known.items() if not key.startswith("_")}
    text = program.read_text("utf-8-sig", errors="replace")
    expected, kinds = _expected(name, text)
    classes = {key: value for key, value in found.items() if inspect.isclass(value) and issubclass(value, kinds)}
    same = sorted(key for key, value in classes.items() if value not in {*kinds, Monitor})
    near = near_of(name, same or found, 0.7)
    if statement := _near_statement(program):
        return statement
    if near:
        return f"; did you mean '{near}'?"
    if name in library_names():
        return f"; our library has it: {LIBRARY}"
    return f" ({expected} known here: {', '.join(same)})" if same else ""


def _near_statement(program: Path) -> str:
    """The word of Scenic that a line of the program misspells, or calls as if it were a function."""
    for number, line in enumerate(program.read_text("utf-8-sig", "replace").splitlines(), 1):
        found = re.fullmatch(r"\s+(\w+)\s*(\(\))?\s*(#.*)?", line)
        close = difflib.get_close_matches(found[1], ("wait", "abort", "terminate"), 1, 0.7) if found else []
        if found and close and (found[1] != close[0] or found[2]):
            return f"; line {number}: did you mean '{close[0]}' instead of '{found[1]}{found[2] or ''}'?"
    return ""


def _expected(name: str, text: str) -> tuple[str, tuple[type, ...]]:
    """Use of the name in the program: "classes", "behaviors" or "actions", and their bases; empty if unknown."""
    from scenic.core.dynamics.actions import Action
    from scenic.core.dynamics.behaviors import Behavior
    from scenic.core.object_types import Object, Point

    for kind, before, bases in (
        ("classes", "new", (Point, Object)), ("behaviors", "behavior|do", (Behavior,)), ("actions", "take", (Action,))
    ):  # fmt: skip
        if re.search(rf"\b(?:{before})\s+{re.escape(name)}\b", text):
            return kind, bases
    return "", ()


def library_names() -> set[str]:
    """Names of the classes, behaviours, monitors and functions of our library of Scenic programs."""
    files = (HERE / f"{name}.scenic" for name in ("library", "places", "actions_traffic", "actions_crossing"))
    return {
        name
        for file in files
        for name in re.findall(r"^(?:class|def|behavior|monitor) (\w+)", file.read_text("utf-8-sig"), re.M)
    }


def _near_attribute(exc: AttributeError) -> str:
    """Near attributes of the object, or all of them if they are few."""
    name, owner = exc.name, exc.obj
    if owner is None and (found := re.match(r"'Rail' object has no attribute '(\w+)'", str(exc))):
        name, owner = found[1], Rail  # an assignment to an attribute that it lacks
    if name is None or owner is None:
        return ""
    known = [key for key in dir(owner) if not key.startswith("_")]
    near = near_of(name, known, 0.7)
    if near:
        return f"; did you mean '{near}'?"
    if name in _OF_CARLA:
        return "; only --world carla has it"
    return f" (known: {', '.join(known)})" if 0 < len(known) <= FEW else ""


def _signature(message: str, frames: list[FrameType]) -> str:
    """The arguments of the behaviour or function that was called with other ones."""
    from scenic.core.dynamics.behaviors import Behavior

    behavior = next(
        (f.f_locals["self"] for f in reversed(frames) if isinstance(f.f_locals.get("self"), Behavior)), None
    )
    if behavior is not None and "()" not in message:
        return f"; expected {shown_behavior(type(behavior))}"
    found = re.search(r"(?:(\w+)\.)?(\w+)\(\)", message)
    own = next((f for f in reversed(frames) if f.f_code.co_filename.endswith(".scenic")), None)
    if found is None or own is None:
        return ""
    owner, name = found[1], found[2]
    known = own.f_globals
    if owner is None:
        function = known.get(name)
    else:  # a class, or the class of a value that the program uses
        kinds = (value if inspect.isclass(value) else type(value) for value in known.values())
        function = next((getattr(kind, name, None) for kind in kinds if kind.__name__ == owner), None)
    if function is None or inspect.isclass(function):
        return ""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    if owner is not None:  # without `self`
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    return f"; expected {owner if name == '__init__' else name}{signature.replace(return_annotation=signature.empty)}"


def shown_behavior(behavior: type) -> str:
    """A behaviour's name with its arguments."""
    signature = inspect.signature(behavior.makeGenerator)  # type: ignore[attr-defined]
    arguments = list(signature.parameters.values())[2:]  # without the behaviour itself and its agent
    return f"{behavior.__name__}{signature.replace(parameters=arguments)}"


def _near_module(program: Path, exc: ImportError) -> str:
    """The near modules of our library, of Scenic or beside the program, or how to install what is absent."""
    name = exc.name or ""
    if absent := re.match(r"cannot import name '(\w+)'", str(exc)):
        known = library_names() if name.startswith("closedloop_plugin.scenarios.") else set()
        known |= {key for key in vars(sys.modules[name]) if not key.startswith("_")} if name in sys.modules else set()
        near = near_of(absent[1], known, 0.7)
        return f"; did you mean '{near}'?" if near else ""
    if name.startswith("closedloop_plugin.scenarios."):
        modules = sorted(
            f"closedloop_plugin.scenarios.{f.stem}" for f in HERE.iterdir() if f.suffix in (".scenic", ".py")
        )
        close = difflib.get_close_matches(name, modules, 1, 0.7)
        return f"; did you mean '{close[0]}'?" if close else f"; our library is: {LIBRARY}"
    if name.startswith("scenic."):
        import scenic

        package, _, _ = name.rpartition(".")  # in which the module would be
        folder = Path(scenic.__file__).parent.parent.joinpath(*package.split("."))
        files = folder.iterdir() if folder.is_dir() else ()
        modules = [f"{package}.{f.stem}" for f in files if f.suffix in (".py", ".scenic")]
        close = difflib.get_close_matches(name, modules, 1, 0.7)
        return f"; did you mean '{close[0]}'?" if close else ""
    beside = [f.stem for f in program.parent.iterdir() if f.suffix in (".scenic", ".py") and f != program]
    near = near_of(name, [*beside, *(module for module in sys.modules if "." not in module)], 0.8)
    remedy = import_remedy(str(exc))
    if remedy == f"pip install {name}":
        remedy = f"neither installed ({remedy}, if there is such a package) nor beside the program"
    return (f"; did you mean '{near}'?" if near else "") + (f": {remedy}" if remedy else "")


def line_with(program: Path, *words: str) -> str:
    """ ", line N" of the first line of the program with all these words, or empty."""
    try:
        lines = program.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    return next((f", line {n}" for n, line in enumerate(lines, 1) if all(word in line for word in words)), "")


def near_of(word: str, known: Iterable[str], cutoff: float = 0.74) -> str | None:
    """The known word to which this one is close, whatever the case of its letters, if it is none of them."""
    names = {name.lower(): name for name in known}
    if word in names.values():
        return None
    return next((names[name] for name in difflib.get_close_matches(word.lower(), names, 1, cutoff)), None)
