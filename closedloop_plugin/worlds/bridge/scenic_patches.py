"""Changes of the scenic package in this process: stepping from outside, places of errors, and a faster compilation.

None changes what a program means: the same program, map and seed give the same scene and the same simulation.
"""

from __future__ import annotations

import sys
from typing import Any

from closedloop_plugin.worlds.bridge.faults.place import check_actions
from closedloop_plugin.worlds.bridge.faults.rejections import remember_rejections
from closedloop_plugin.worlds.bridge.faults.values import check_arguments, check_bounds, checked_after
from closedloop_plugin.worlds.bridge.networks import cache_networks
from closedloop_plugin.worlds.bridge.translation import remember_translations


def apply_patches() -> None:
    """Patch the scenic package once; later calls have no effect."""
    import scenic.core.dynamics as dynamics

    if dynamics.stuckBehaviorWarningTimeout == 0:
        return
    # Scenic's watchdog, a SIGALRM around each behaviour step, would count model calls; the pool has its own.
    dynamics.stuckBehaviorWarningTimeout = 0
    _record_source_lines()
    remember_rejections()
    _check_actions()
    _check_values()
    _share_property_defaults()
    remember_translations()
    cache_networks()


def _check_actions() -> None:
    """Report an action that its agent cannot take with the line of the behaviour."""
    from scenic.core.simulators import Simulation

    own: Any = Simulation.actionsAreCompatible

    def checked(self: Any, agent: Any, actions: Any) -> bool:
        check_actions(agent, actions)
        return own(self, agent, actions)

    Simulation.actionsAreCompatible = checked


def _check_values() -> None:
    """Report bounds and arguments of behaviours that cannot be meant where the program gives them."""
    from scenic.core.distributions import DiscreteRange, Normal, Range
    from scenic.core.dynamics.behaviors import Behavior

    kinds: list[Any] = [Range, DiscreteRange, Normal]
    for kind in kinds:
        kind.__init__ = checked_after(kind.__init__, check_bounds)
    behavior: Any = Behavior
    behavior.__init__ = checked_after(behavior.__init__, check_arguments)


def _record_source_lines() -> None:
    """Store with each distribution and object the line that makes it, for place_of: errors in them occur later."""
    import scenic.syntax.veneer as veneer
    from scenic.core.distributions import Distribution

    own: Any = Distribution.__init__
    register: Any = veneer.registerObject

    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        own(self, *args, **kwargs)
        self.__dict__["_source_line"] = _calling_line()  # Scenic turns attribute access into distributions

    def registered(obj: Any) -> None:
        obj.__dict__["_source_line"] = _calling_line()
        register(obj)

    Distribution.__init__ = wrapped
    veneer.registerObject = registered


def _calling_line() -> tuple[str, int] | None:
    """File and line of the outermost step of a program."""
    frame, line = sys._getframe(2), None
    while frame is not None:  # the outermost .scenic frame is the user's
        if frame.f_code.co_filename.endswith(".scenic"):
            line = frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return line


def _share_property_defaults() -> None:
    """Resolve the default of a property once, not again for every subclass.

    Scenic creates about 45 classes with 60 properties each per compilation, and builds for each property a specifier
    from four nested lazy values, although nearly all are inherited without a change.
    """
    from scenic.core.lazy_eval import DelayedArgument
    from scenic.core.specifiers import PropertyDefault, Specifier

    resolve: Any = PropertyDefault.resolveFor

    def wrapped(self: Any, prop: str, overridden: Any) -> Any:
        if self.isAdditive or any(other.isFinal for other in overridden):  # depends on the defaults of superclasses
            return resolve(self, prop, overridden)
        known = self.__dict__.setdefault("_specifiers", {})
        if prop not in known:
            value = DelayedArgument(self.requiredProperties, self.value, _internal=True)
            both = DelayedArgument(self.requiredProperties, lambda at: {prop: value.evaluateIn(at)}, _internal=True)
            known[prop] = Specifier("PropertyDefault", {prop: -1}, both)
        return known[prop]

    PropertyDefault.resolveFor = wrapped
