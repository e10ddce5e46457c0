"""How near an episode came to failing, while nothing has happened yet: what a search for failures climbs down.

Added to every record as `margins`. Distances are between boxes, in metres; times in seconds.

    min_gap_m        least distance from the ego's box to any other's
    min_ttc_s        least time to collision, both keeping their speed and direction (None: never on course)
    hardest_brake    the ego's strongest deceleration, m/s2
"""

from __future__ import annotations

from typing import Any

from closedloop_plugin.state import Truth


class Margins:
    """One episode's. `add` once a tick."""

    def __init__(self) -> None:
        self._gap: float | None = None

    def add(self, truth: Truth) -> None: ...

    def to_json(self) -> dict[str, Any]:
        return {}
