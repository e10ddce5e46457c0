"""All 220 routes in the embedded world, drivers expert and steer-only: episodes, tracks, official files, scores."""

from __future__ import annotations

from typing import Any

from embedded_drives import driven_routes
from workspace import Workspace

COST = "minutes"


def record(work: Workspace) -> dict[str, Any]:
    return driven_routes(work)
