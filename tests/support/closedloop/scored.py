"""Small records and routes for the tests of scoring."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from closedloop_plugin.core.record import INFRACTIONS, EpisodeRecord
from closedloop_plugin.core.routes import Route
from closedloop_plugin.scoring.official_record import OfficialRecord, parse_record


def raw(
    route: str = "1",
    rep: int = 0,
    scenario: str = "ParkingCutIn",
    score: float = 100.0,
    penalty: float = 1.0,
    status: str = "Completed",
    infractions: Mapping[str, Sequence[str]] | None = None,
    town: str = "Town12",
) -> dict[str, Any]:
    """One record in the format of the official result file."""
    lists = {**{name: [] for name in INFRACTIONS}, **{k: list(v) for k, v in (infractions or {}).items()}}
    return {
        "route_id": f"RouteScenario_{route}_rep{rep}",
        "scenario_name": f"{scenario}_1",
        "weather_id": "0",
        "save_name": f"RouteScenario_{route}_rep{rep}_{town}",
        "status": status,
        "num_infractions": sum(map(len, lists.values())),
        "infractions": lists,
        "scores": {
            "score_route": score,
            "score_penalty": penalty,
            "score_composed": round(max(score * penalty, 0.0), 6),
        },
        "meta": {"route_length": 100.0, "duration_game": 20.0, "duration_system": 40.0},
        "town_name": town,
    }


def record(*args: Any, **kwargs: Any) -> OfficialRecord:
    return parse_record(raw(*args, **kwargs), "test", 0)


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"_checkpoint": {"records": list(rows)}}, indent=1), "utf-8")
    return path


def route(id: str = "1", scenario: str = "ParkingCutIn", town: str = "Town12") -> Route:
    return Route(id, town, ((0.0, 0.0), (100.0, 0.0)), scenario, f"{scenario}_1", (0.0, 0.0, 0.0))


def episode(route_id: str = "1", rep: int = 0, **changes: Any) -> EpisodeRecord:
    """A clean episode of the embedded world."""
    values: dict[str, Any] = {
        "suite": "embedded220",
        "route_id": route_id,
        "repetition": rep,
        "seed": 7,
        "scenario": "ParkingCutIn",
        "scenario_name": "ParkingCutIn_1",
        "town": "Town12",
        "end": "completed",
        "status": "Completed",
        "infractions": {name: [] for name in INFRACTIONS},
        "score_route": 100.0,
        "score_penalty": 1.0,
        "score_composed": 100.0,
        "route_length_m": 100.0,
        "game_s": 20.0,
        "system_s": 3.0,
        "ticks": 400,
        "agent": {"name": "expert (privileged)"},
        "interpreter": None,
        "profile": "bench2drive",
        "world": {"backend": "embedded", "version": "1", "waiting": "waits"},
        "map": {"source": "corridor", "sha256": "ab", "experimental": False},
        "comfort": {"official": 0.5, "corrected": 0.75, "segments": 20},
        "version": "0.1.0",
    }
    return EpisodeRecord(**{**values, **changes})
