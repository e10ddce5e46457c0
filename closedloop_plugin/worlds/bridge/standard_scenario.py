"""Compile a program on top of its route's standard scenarios: one scene with the actors of all.

The catalogue's programs are run first, as if the program imported them, but each with its own stage and its own copies
of our library's modules: behaviours read names such as `start`, `rail` or `stage` from their module when they run.
Scenic inherits the objects, requirements and behaviours of an imported module; monitors are added here.

There is one ego, the program's. If a standard scenario starts the ego elsewhere (ParkingExit: in a parking bay), an
ego that the program places at the route's start stands there.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from closedloop_plugin.core.boxes import OrientedBox, oriented_box, overlap
from closedloop_plugin.core.frames import yaw_of_heading
from closedloop_plugin.worlds.bridge.stage import STANDARD, ScenarioStage

OWN = "closedloop_plugin.scenarios."  # modules of which each program has its own copy
AT_START_M = 0.1

_wanted: tuple[StandardScenario, ...] = ()  # to be added to the program that is compiled next
_running: StandardScenario | None = None  # whose modules are being run


class StandardScenario:
    """A standard scenario of a route. `file`: the catalogue's program; `stage`: its own; `number`: from 1."""

    def __init__(self, file: Path, stage: ScenarioStage, number: int) -> None:
        self.file, self.stage, self.number = file, stage, number
        self._ego: Any = None  # where the standard scenario has it

    def add(self) -> None:
        """Run the catalogue's program; the program that is being compiled inherits from it."""
        import scenic.syntax.translator as translator
        import scenic.syntax.veneer as veneer

        global _running
        params, given = veneer._globalParameters, veneer._globalParameters["stage"]
        params["stage"], _running = self.stage, self
        namespace: dict[str, Any] = {"__name__": "__main__", "__file__": str(self.file)}
        try:
            with self.file.open("rb") as stream:
                translator.compileStream(stream, namespace, translator.CompileOptions(), str(self.file))
        finally:
            params["stage"], _running = given, None
            translator.purgeModulesUnsafeToCache([name for name in sys.modules if not name.startswith(OWN)])
        into, found = veneer.currentScenario, namespace["_scenario"]
        into._inherit(found)
        into._monitorRequirements.extend(found._monitorRequirements)
        into._requirementDeps.update(found._requirementDeps)

    def without_ego(self, scenario: Any) -> None:
        """Take the ego out of the catalogue's program, which has run: nothing of it refers to the ego."""
        self._ego, scenario._ego = scenario._ego, None
        for objects in (scenario._instances, scenario._objects, scenario._agents):
            objects[:] = [one for one in objects if one is not self._ego]
        for _, pending in scenario._pendingRequirements:
            pending.egoObject = None

    def place_ego(self, scenario: Any) -> None:
        """Replace the program's ego, if it is at the route's start, by one where the standard scenario has it."""
        ego, start = scenario._ego, self.stage.spot(0.0)
        if ego is None or not _is_at(ego, start) or _is_at(self._ego, start):
            return
        scenario._ego = self._ego
        for objects in (scenario._instances, scenario._objects, scenario._agents):
            objects[:] = [self._ego if one is ego else one for one in objects]
        for _, pending in scenario._pendingRequirements:
            if pending.egoObject is ego:
                pending.egoObject = self._ego


def _is_at(obj: Any, place: tuple[float, float]) -> bool:
    """True if the object's position is no random one, and this place."""
    from scenic.core.distributions import needsSampling

    return not needsSampling(obj.position) and math.dist((obj.position[0], obj.position[1]), place) < AT_START_M


@contextmanager
def on_top_of(standard: tuple[StandardScenario, ...]) -> Iterator[None]:
    """Compile the next program on top of these scenarios; without any: alone."""
    global _wanted
    _wanted = standard
    try:
        yield
    finally:
        _wanted = ()


def below_program() -> tuple[StandardScenario, ...]:
    """The standard scenarios for the program whose compilation begins."""
    global _wanted
    found, _wanted = _wanted, ()
    return found


def running(namespace: dict[str, Any]) -> StandardScenario | None:
    """The standard scenario if this namespace is of its program; renames the module if it is a copy of ours.

    Scenic tells the modules of behaviours apart by their names.
    """
    if _running is None:
        return None
    name = str(namespace.get("__name__"))
    if name == "__main__" or name.startswith(OWN):
        namespace["__name__"] = f"{STANDARD} {_running.number} {name}"
    return _running if name == "__main__" else None


def collision_at_start(scene: Any, with_ego: bool = False) -> str:
    """Message of an object of the program that stands inside one of the standard scenario, or `with_ego` in the ego."""
    bodies = [o for o in scene.objects if o is not scene.egoObject and not getattr(o, "gone", False)]
    standard = [(o, object_box(o)) for o in bodies if getattr(o, "role", "") == STANDARD]
    own = [(o, object_box(o)) for o in bodies if getattr(o, "role", "") != STANDARD]
    ego = object_box(scene.egoObject) if with_ego and scene.egoObject is not None else None
    for obj, box in own:
        if ego is not None and overlap(box, ego):
            return f"its {object_kind(obj)} stands inside the ego"
        for other, place in standard:
            if overlap(box, place):
                return f"its {object_kind(obj)} stands inside a {object_kind(other)} of the standard scenario"
    return ""


def object_box(obj: Any) -> OrientedBox:
    """Footprint of a Scenic object."""
    x, y, yaw = float(obj.position[0]), float(obj.position[1]), yaw_of_heading(float(obj.heading))
    return oriented_box(x, y, yaw, float(obj.length), float(obj.width))


def object_kind(obj: Any) -> str:
    return str(getattr(obj, "kind", "object"))
