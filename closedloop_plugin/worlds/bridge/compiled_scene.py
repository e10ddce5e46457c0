"""Compile a Scenic program and sample a scene. The only module that compiles; it imports Scenic lazily."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.worlds.base import InvalidScene, ParameterDomain
from closedloop_plugin.worlds.bridge.faults.checks import check_number_of_objects, check_scene, check_words
from closedloop_plugin.worlds.bridge.faults.dialects import check_dialect
from closedloop_plugin.worlds.bridge.faults.endless import no_endless_loop
from closedloop_plugin.worlds.bridge.faults.place import at_its_param, counted_rejections, place_of
from closedloop_plugin.worlds.bridge.params import (
    check_domains,
    check_names,
    check_values,
    declared_params,
    domains_of,
    drawn_of,
)
from closedloop_plugin.worlds.bridge.scenic_patches import apply_patches
from closedloop_plugin.worlds.bridge.stage import ScenarioStage
from closedloop_plugin.worlds.bridge.standard_scenario import StandardScenario, collision_at_start, on_top_of
from lmms_eval_ad2.core.errors import Ad2Error, require

LIBGL_HINT = (
    "Scenic needs OpenCV, and the installed build needs libGL: either install it (Debian: apt install libgl1 "
    "libglib2.0-0), or replace the build (pip uninstall -y opencv-python && "
    "pip install --force-reinstall --no-deps 'opencv-python-headless<5')"
)

ENDS_PROCESS = "the program ends the process; use `terminate`"
PLACES = 100  # draws of a scene until nothing of the program stands inside the standard scenario


@dataclass(frozen=True)
class CompiledScene:
    """A sampled scene and its compiled scenario."""

    scenario: Any
    scene: Any
    program: Path
    drawn: dict[str, Any] = field(default_factory=dict)  # values of the program's free parameters


def scenic() -> Any:
    """The scenic package, patched for external stepping. Ad2Error: not installed, or without libGL."""
    try:
        module = require("scenic", "the closed loop's scenarios")
    except Ad2Error as exc:
        text = str(exc) + str(exc.__cause__)
        raise Ad2Error(LIBGL_HINT) if "libGL" in text or "libgthread" in text else exc from None
    apply_patches()
    return module


def scene_for(
    program: Path,
    model: str,
    params: dict[str, Any],
    seed: int,
    values: Mapping[str, Any] | None = None,
    tries: int = 2000,
) -> CompiledScene:
    """Compile and sample. The same program, params, values and seed give the same scene.

    values: override the program's own params. If the stage in `params` has a standard scenario below it, the scene has
    its actors too.

    Raises:
        Ad2Error: the program is wrong; with file, line and Scenic's message.
        InvalidScene: no sample satisfies its requirements.
    """
    given = dict(values or {})
    check_names(given, program)
    check_dialect(Path(program), params)
    with _located_errors(program, tries):
        with declared_params() as declared:
            try:
                scenario = _compiled(program, model, {**params, **given}, seed)
            except Exception:  # a value of the wrong type may be the reason; lines after the error were not read
                check_values({n: v for n, v in given.items() if n in declared}, declared, program)
                raise
        check_values(given, declared, program)
        with at_its_param(Path(program)):
            check_domains(declared)
        check_number_of_objects(scenario.objects, Path(program))
        check_words(scenario.objects, declared, Path(program))
        with counted_rejections(scenario, Path(program), tries):
            scene = _sampled(scenario, Path(program), tries, params.get("stage"), in_carla="carla" in model)
        return CompiledScene(scenario, scene, Path(program), drawn_of(scenario, scene, given))


def _sampled(scenario: Any, program: Path, tries: int, stage: Any, in_carla: bool) -> Any:
    """A scene in which nothing of the program stands inside the ego or the standard scenario's actors."""
    own = isinstance(stage, ScenarioStage) and not stage.kind
    reason = ""
    for _ in range(PLACES):
        scene, _ = scenario.generate(maxIterations=tries, verbosity=0)
        if own:
            check_scene(scene, scenario.objects, program, in_carla)
        reason = collision_at_start(scene, own)
        if not reason:
            return scene
    raise InvalidScene(
        f"{program.name}: {reason} at the start, in {PLACES} of {PLACES} draws; place it elsewhere"
        + (", or drop the standard scenario (--config alone=true)" if "standard scenario" in reason else "")
    )


def space_for(program: Path, model: str, params: dict[str, Any]) -> dict[str, ParameterDomain]:
    """Domains of the program's free parameters, compiled but not sampled. Raises Ad2Error as scene_for."""
    check_dialect(Path(program), params)
    with _located_errors(program, 0):
        return domains_of(_compiled(program, model, params, 0).params)


def _compiled(program: Path, model: str, params: dict[str, Any], seed: int) -> Any:
    module = scenic()
    import scenic.syntax.veneer as veneer
    from scenic.formats.opendrive.xodr_parser import OpenDriveWarning

    veneer.currentBehavior = None  # an episode that is ended inside a behaviour leaves it: no object could be made
    random.seed(seed)
    np.random.seed(seed % 2**32)
    params = {"verifaiSamplerType": "random", **params}  # the default, halton, would give every episode its first point
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpenDriveWarning)  # CARLA's towns have shoulders in the middle of roads
        warnings.filterwarnings("ignore", "While sampling internally")  # of an error that is raised later
        stage = params.get("stage")
        parts = stage.parts if isinstance(stage, ScenarioStage) else ()
        standard = (StandardScenario(CATALOGUE[one.kind].program, one, n) for n, one in enumerate(parts, 1))
        with on_top_of(tuple(standard)):
            return module.scenarioFromFile(str(program), params=params, model=model, mode2D=True)


@contextmanager
def _located_errors(program: Path, tries: int) -> Iterator[None]:
    """Convert errors of a program into InvalidScene or Ad2Error with file and line."""
    scenic()
    from scenic.core.distributions import RejectionException
    from scenic.core.errors import ScenicError

    try:
        with no_endless_loop():
            yield
    except RejectionException as exc:
        raise InvalidScene(f"{Path(program).name}: no scene found in {tries} tries: {exc}") from exc
    except (SystemExit, GeneratorExit) as exc:
        raise Ad2Error(f"{place_of(program, exc)}: {ENDS_PROCESS}") from exc
    except (ScenicError, SyntaxError) as exc:
        raise Ad2Error(place_of(program, exc)) from exc
    except (InvalidScene, Ad2Error):
        raise
    except Exception as exc:  # Python errors inside a user's program
        raise Ad2Error(place_of(program, exc)) from exc
