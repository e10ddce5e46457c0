"""Maps that Scenic's reader refuses, named with the route or the program that uses them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from closedloop_plugin.core.xml_files import MapError
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.bridge.faults.names import line_with


@contextmanager
def map_of(setup: EpisodeSetup) -> Iterator[None]:
    """Name in a MapError the route or program, the user's own file instead of our copy, and the way out."""
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
