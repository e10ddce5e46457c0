"""Run folders of `ad2 drive run` over the demo routes, written without driving."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from closedloop_plugin.core.record import INFRACTIONS, EpisodeRecord
from closedloop_plugin.scenarios.suites.lookup import suite

DEMO = suite("demo")
ROUTES = {route.id: route for route in DEMO.routes}
IDENTITY: dict[str, Any] = {
    "suite": "demo", "suite_sha256": DEMO.sha256, "map_sha256": None, "towns_sha256": {}, "profile": "bench2advlm",
    "policy": "official", "decision_hz": None, "latency": {"label": "waits", "values": []}, "seed": 0,
    "world": "closedloop_plugin.worlds.embedded.world:EmbeddedWorld", "traffic": True, "version": "1",
    "agent": {"name": "straight", "privileged": False}, "interpreter": None, "cameras": [],
}  # fmt: skip


def record(route_id: str, score: float, rep: int = 0, **changes: Any) -> EpisodeRecord:
    route = ROUTES.get(route_id, DEMO.routes[0])
    values: dict[str, Any] = {
        "suite": "demo", "route_id": route_id, "repetition": rep, "seed": 7, "scenario": route.scenario,
        "scenario_name": route.scenario_name, "town": route.town, "end": "completed", "status": "Completed",
        "infractions": {**{name: [] for name in INFRACTIONS}, "collisions_vehicle": ["hit"] * (score < 100)},
        "score_route": 100.0, "score_penalty": score / 100, "score_composed": score, "route_length_m": 100.0,
        "game_s": 20.0, "system_s": 3.0, "ticks": 400, "agent": {"name": "straight"}, "interpreter": None,
        "profile": "bench2advlm", "world": {"backend": "embedded", "version": "1", "waiting": "waits"},
        "map": {"source": "corridor", "sha256": "ab", "experimental": False},
    }  # fmt: skip
    return EpisodeRecord(**{**values, **changes})


def run_folder(folder: Path, records: list[EpisodeRecord], routes: list[str] | None = None, **identity: Any) -> Path:
    """A run folder as written by `ad2 drive run`."""
    folder.mkdir(parents=True)
    ids = routes or list(dict.fromkeys(r.route_id for r in records))
    selection = {"routes": ids, "asked": ids, "repetitions": 1, "shard": None}
    (folder / "run.json").write_text(json.dumps({"identity": {**IDENTITY, **identity}, "selection": selection}))
    (folder / "episodes.jsonl").write_text("".join(r.to_json() + "\n" for r in records))
    return folder
