"""A Scenic program -> a sampled scene. The only place that compiles; Scenic itself is imported here, lazily."""

from __future__ import annotations

import ast
import random
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

import numpy as np

from closedloop_plugin.worlds.base import Domain, InvalidScene
from closedloop_plugin.worlds.bridge.params import check_values, drawn_of, space_of
from lmms_eval_ad2.errors import Ad2Error, require

LIBGL = (
    "Scenic needs OpenCV, and the installed build needs libGL: either install it (Debian: apt install libgl1 "
    "libglib2.0-0), or replace the build (pip uninstall -y opencv-python && "
    "pip install --force-reinstall --no-deps 'opencv-python-headless<5')"
)


@dataclass(frozen=True)
class Compiled:
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
    program: File, model: str, params: dict[str, Any], seed: int, values: Mapping[str, Any] | None = None,
    tries: int = 2000,
) -> Compiled:
    """Compile and sample. The same program, params, values and seed give the same scene.

    values: for the program's own params, instead of what it says.

    Raises:
        Ad2Error: the program is wrong: file, line and Scenic's own message.
        InvalidScene: no sample satisfies its requirements.
    """
    with _told(program, tries):
        scenario = _compiled(program, model, {**params, **(values or {})}, seed)
        check_values(values or {}, scenario, program)
        scene, _ = scenario.generate(maxIterations=tries, verbosity=0)
        return Compiled(scenario, scene, File(program), drawn_of(scenario, scene, values or {}))


def space_for(program: File, model: str, params: dict[str, Any]) -> dict[str, Domain]:
    """The program's free parameters; compiled, and not sampled. Raises Ad2Error as scene_for."""
    with _told(program, 0):
        return space_of(_compiled(program, model, params, 0))


def _compiled(program: File, model: str, params: dict[str, Any], seed: int) -> Any:
    module = scenic()
    from scenic.formats.opendrive.xodr_parser import OpenDriveWarning

    random.seed(seed)
    np.random.seed(seed % 2**32)
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
        if frames:
            name, line = frames[-1].filename, frames[-1].lineno
            if line == 1 and frames[-1] is not stack[-1]:
                line = None  # Scenic gives code that it makes itself, as for specifiers, the first line
    message = ": ".join(filter(None, (type(exc).__name__, " ".join(str(exc).split()))))
    return f"{name}" + (f", line {line}" if line else "") + f": {message}"
