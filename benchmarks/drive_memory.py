"""Memory of one world process over many short episodes in the embedded world, with camera images.

    python benchmarks/drive_memory.py 100              # prints JSON
    python benchmarks/drive_memory.py 100 --collect    # and with frames saved, as in ad2 drive collect

tests/system/test_drive_memory.py uses it too.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measured_json import in_own_process, scaled

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Decision
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents.baselines import StraightDriver
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import EpisodeTask, EvaluationConditions
from closedloop_plugin.runner.worker import DecisionResponder, WorkerConfig, drive
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

EPISODES, TICKS = 100, 10
CAMERA = Camera("front", 160, 90, 70.0, 0.8, 0.0, 1.6)


class CameraDriver(StraightDriver):
    """Drives straight and reads an image twice a second, so that every episode builds its scenery."""

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        if requests[0].observation.tick % 10 == 0:
            requests[0].observation.images(CAMERA.name)
        return super().decide(requests)


def measure(scale: float) -> dict[str, float]:
    """Run in a separate process, since memory is measured per process."""
    return in_own_process(__file__, scaled(EPISODES, scale, least=2 * len(suite("demo").routes) + 1))


def inside(episodes: int, collect: bool = False) -> dict[str, float]:
    """Drive the routes of the demo suite in turn, each time with another seed; MB early and at the end."""
    routes = suite("demo").routes
    early = max(episodes // 10, 2 * len(routes))  # the second use of a map writes it to the disk cache
    resident_mb: dict[int, float] = {}
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        config = _config(Path(folder) / "frames" if collect else None)
        responder = DecisionResponder(config, CameraDriver(), None, None)
        world: Any = EmbeddedWorld(Path(folder))
        for i in range(episodes):
            route = routes[i % len(routes)]
            drive(
                world,
                EpisodeTask("demo", route.id, i, EpisodeSetup(route, i, (CAMERA,), max_ticks=TICKS)),
                config,
                responder,
            )
            if i + 1 in (early, episodes):
                resident_mb[i + 1] = _resident()
        world.close()
    return {
        "early_mb": resident_mb[early],
        "late_mb": resident_mb[episodes],
        "ratio": resident_mb[episodes] / resident_mb[early],
        "growth_kb_per_episode": 1000 * (resident_mb[episodes] - resident_mb[early]) / (episodes - early),
        "s_per_episode": (time.perf_counter() - start) / episodes,
    }


def _config(frames: Path | None) -> WorkerConfig:
    """frames: folder of collected frames; None: nothing is collected."""
    settings = {"folder": frames, "camera": CAMERA.name}
    collector = FactoryRecipe("closedloop_plugin.learn.frame_collector:FrameCollector", settings)
    return WorkerConfig(
        FactoryRecipe(""),
        EvaluationConditions(profile("bench2drive"), agent={}),
        track=FactoryRecipe("closedloop_plugin.report.track_log:TrackLog"),
        recorders=(collector,) if frames else (),
    )


def _resident() -> float:
    """Resident memory of this process, MB (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    print(json.dumps(inside(int(sys.argv[1]), "--collect" in sys.argv)))
