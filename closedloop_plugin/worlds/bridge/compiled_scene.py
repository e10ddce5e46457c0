"""A Scenic program -> a sampled scene. The only place that compiles; Scenic itself is imported here, lazily."""

from __future__ import annotations

import ast
import random
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

import numpy as np

from closedloop_plugin.worlds.base import InvalidScene, ParameterDomain
from closedloop_plugin.worlds.bridge.params import check_names, check_values, drawn_of, space_of, stated
from lmms_eval_ad2.errors import Ad2Error, require

LIBGL = (
    "Scenic needs OpenCV, and the installed build needs libGL: either install it (Debian: apt install libgl1 "
    "libglib2.0-0), or replace the build (pip uninstall -y opencv-python && "
    "pip install --force-reinstall --no-deps 'opencv-python-headless<5')"
)


@dataclass(frozen=True)
class CompiledScene:
    """A scene ready to run, and how to get the simulator that its model names."""

    scenario: Any
    scene: Any
    program: File
    drawn: dict[str, Any] = field(default_factory=dict)  # the program's free parameters, as they are in this scene


def scenic() -> Any:
    """The scenic package, set up for driving from outside; says how to mend a missing libGL."""
    try:
        module = require("scenic", "the closed loop's scenarios")
    except Ad2Error as exc:
        text = str(exc) + str(exc.__cause__)
        raise Ad2Error(LIBGL) if "libGL" in text or "libgthread" in text else exc from None
    import scenic.core.dynamics as dynamics

    # Its watchdog is SIGALRM around each behaviour step, model answers included: ours is in the pool.
    dynamics.stuckBehaviorWarningTimeout = 0
    _remember_parses()
    _remember_lines()
    return module


def _remember_parses() -> None:
    """Scenic parses every module of a program anew each time: two thirds of a reset. The same text gives the same
    tree, so keep the trees of this process and hand out copies."""
    import scenic.syntax.translator as translator

    parse: Callable[..., Any] = translator.parse_string
    if hasattr(parse, "remembered"):
        return
    known: dict[tuple[str, str, str], Any] = {}

    def remembering(source: str, mode: str, filename: str) -> Any:
        key = source, mode, filename
        if key not in known:
            if len(known) > 200:
                known.clear()
            known[key] = parse(source, mode, filename=filename)
        return _copied(known[key])

    remembering.remembered = known  # type: ignore[attr-defined]
    translator.parse_string = remembering


def _remember_lines() -> None:
    """A random value is worked out when the scene is drawn, long after its line was read: keep the line with it, for
    place_of."""
    from scenic.core.distributions import Distribution

    own: Any = Distribution.__init__
    if hasattr(own, "remembers"):
        return

    def remembering(self: Any, *args: Any, **kwargs: Any) -> None:
        own(self, *args, **kwargs)
        frame, line = sys._getframe(1), None
        while frame is not None:  # the outermost is the user's, in front of those of the library
            if frame.f_code.co_filename.endswith(".scenic"):
                line = frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        self.__dict__["_stated_at"] = line  # not by name: Scenic makes a distribution of every attribute

    remembering.remembers = True  # type: ignore[attr-defined]
    Distribution.__init__ = remembering


def _stated_at(exc: BaseException) -> tuple[str, int] | None:
    """Where the random value was stated in whose working out the error rose, the outermost one."""
    for frame, _ in traceback.walk_tb(exc.__traceback__):
        line = getattr(frame.f_locals.get("self"), "__dict__", {}).get("_stated_at")
        if line is not None:
            return line
    return None


def _copied(node: Any) -> Any:
    """A syntax tree of its own (copy.deepcopy cannot make Scenic's nodes)."""
    if isinstance(node, list):
        return [_copied(one) for one in node]
    if isinstance(node, tuple):
        return tuple(_copied(one) for one in node)
    if not isinstance(node, ast.AST):
        return node
    twin = type(node).__new__(type(node))
    twin.__dict__.update({name: _copied(value) for name, value in node.__dict__.items()})
    return twin


def scene_for(
    program: File,
    model: str,
    params: dict[str, Any],
    seed: int,
    values: Mapping[str, Any] | None = None,
    tries: int = 2000,
) -> CompiledScene:
    """Compile and sample. The same program, params, values and seed give the same scene.

    values: for the program's own params, instead of what it says.

    Raises:
        Ad2Error: the program is wrong: file, line and Scenic's own message.
        InvalidScene: no sample satisfies its requirements.
    """
    given = dict(values or {})
    check_names(given, program)
    with _told(program, tries):
        with stated() as said:
            try:
                scenario = _compiled(program, model, {**params, **given}, seed)
            except Exception:  # a value of the wrong type may be the reason; lines after the error were not read
                check_values({n: v for n, v in given.items() if n in said}, said, program)
                raise
        check_values(given, said, program)
        scene, _ = scenario.generate(maxIterations=tries, verbosity=0)
        return CompiledScene(scenario, scene, File(program), drawn_of(scenario, scene, given))


def space_for(program: File, model: str, params: dict[str, Any]) -> dict[str, ParameterDomain]:
    """The program's free parameters; compiled, and not sampled. Raises Ad2Error as scene_for."""
    with _told(program, 0):
        return space_of(_compiled(program, model, params, 0))


def _compiled(program: File, model: str, params: dict[str, Any], seed: int) -> Any:
    module = scenic()
    from scenic.formats.opendrive.xodr_parser import OpenDriveWarning

    random.seed(seed)
    np.random.seed(seed % 2**32)
    params = {"verifaiSamplerType": "random", **params}  # halton, the default, would give each episode its first point
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpenDriveWarning)  # CARLA's towns have shoulders in the middle of roads
        return module.scenarioFromFile(str(program), params=params, model=model, mode2D=True)


@contextmanager
def _told(program: File, tries: int) -> Iterator[None]:
    """Whatever a program does wrong as an error of ours that says where."""
    scenic()
    from scenic.core.distributions import RejectionException
    from scenic.core.errors import ScenicError

    try:
        yield
    except RejectionException as exc:
        raise InvalidScene(f"{File(program).name}: no scene found in {tries} tries: {exc}") from exc
    except (ScenicError, SyntaxError) as exc:
        raise Ad2Error(place_of(program, exc)) from exc
    except (InvalidScene, Ad2Error):
        raise
    except Exception as exc:  # Python errors inside a user's program
        raise Ad2Error(place_of(program, exc)) from exc


def place_of(program: File, exc: BaseException) -> str:
    """File, line and message of an error in a program."""
    line = getattr(exc, "lineno", None)
    name = getattr(exc, "filename", None) or str(program)
    if line is None:
        stack = traceback.extract_tb(exc.__traceback__)
        own = [f for f in stack if f.filename == str(program)]
        frames = own or [f for f in stack if f.filename.endswith(".scenic")]
        stated = None if own else _stated_at(exc)
        if stated:
            name, line = stated
        elif frames:
            name, line = frames[-1].filename, frames[-1].lineno
            if line == 1 and frames[-1] is not stack[-1]:
                line = None  # Scenic gives code that it makes itself, as for specifiers, the first line
    message = ": ".join(filter(None, (type(exc).__name__, " ".join(str(exc).split()))))
    return f"{name}" + (f", line {line}" if line else "") + f": {message}"
