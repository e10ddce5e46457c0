"""Steps/s of the embedded world relative to Scenic's Newtonian simulator on the same scene, and with its camera."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from measured_json import scaled

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import Control
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.bridge.compiled_scene import scene_for
from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

STEPS, ROUNDS, FRAMES = 1500, 3, 150
TIMESTEP = 0.05  # s
ROUTE = Route("bench", "none", tuple((2.0 * i, 0.0) for i in range(250)), "", "", (20.0, 0.0, 0.0))
CONTROL = Control(throttle=0.3)
PROGRAM = """
model scenic.domains.driving.model
behavior Cruise():
    while True:
        take SetThrottleAction(0.3), SetBrakeAction(0.0), SetSteerAction(0.0)
ego = new Car at (10, 0), facing -90 deg
"""
OTHERS = "new Car at ({x}, {y}), facing {h} deg, with behavior Cruise(), with regionContainedIn everywhere\n"


def measure(scale: float) -> dict[str, float]:
    """Steps/s of both, their ratio (median of alternating rounds) with and without `truth()` at each step; camera."""
    out: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        two, four = folder / "two.scenic", folder / "four.scenic"
        two.write_text(PROGRAM + OTHERS.format(x=60, y=3.5, h=90))
        more = [(40, 3.5, 90), (70, 3.5, 90), (30, 0.0, -90), (55, 0.0, -90)]
        four.write_text(PROGRAM + "".join(OTHERS.format(x=x, y=y, h=h) for x, y, h in more))
        world = EmbeddedWorld(folder / "maps")
        for cars, program in ((2, two), (5, four)):
            found = _rates(world, program, scaled(ROUNDS, scale))
            out |= {f"{name}_{cars}": value for name, value in found.items()}
        out |= _camera(world, four)
        world.close()
    return out


def _rates(world: EmbeddedWorld, program: Path, rounds: int) -> dict[str, float]:
    setup = EpisodeSetup(ROUTE, 1, program=program, traffic=False, max_ticks=STEPS, timestep=TIMESTEP)
    bare, ours, with_truth = [], [], []
    for _ in range(rounds):
        world.reset(setup)
        map_file = world.road.file
        world.close()  # Scenic runs one simulation at a time
        bare.append(_bare(program, map_file))
        ours.append(_run(world, setup, truth=False))
        with_truth.append(_run(world, setup, truth=True))
    ratio, truth_ratio = ([b / a for a, b in zip(bare, rates, strict=True)] for rates in (ours, with_truth))
    return {
        "newtonian_steps_per_s": statistics.median(bare),
        "steps_per_s": statistics.median(ours),
        "ratio": statistics.median(ratio),
        "ratio_with_truth": statistics.median(truth_ratio),
    }


def _bare(program: Path, map_file: Path) -> float:
    """Steps/s of Scenic's simulator; its ego has the same behavior as the others."""
    options = {"writeCache": False, "useCache": False}
    params: dict[str, Any] = {"map": str(map_file), "map_options": options, "render": False, "timestep": TIMESTEP}
    compiled = scene_for(program, "scenic.simulators.newtonian.driving_model", params, 1)
    ego, other = compiled.scene.objects[:2]
    ego.behavior = type(other.behavior)()
    simulator = compiled.scenario.getSimulator()
    start = time.perf_counter()
    simulator.simulate(compiled.scene, maxSteps=STEPS, timestep=TIMESTEP, verbosity=0)
    return STEPS / (time.perf_counter() - start)


def _run(world: EmbeddedWorld, setup: EpisodeSetup, truth: bool) -> float:
    world.reset(setup)
    start = time.perf_counter()
    for _ in range(STEPS):
        world.step(CONTROL)
        if truth:
            world.truth()
    return STEPS / (time.perf_counter() - start)


def _camera(world: EmbeddedWorld, program: Path) -> dict[str, float]:
    """Steps/s with an 800 x 450 image per step and four other cars; the first image builds the scenery."""
    camera = Camera("front", 800, 450, 70.0, 0.8, 0.0, 1.6)
    o = world.reset(EpisodeSetup(ROUTE, 1, (camera,), program=program, traffic=False, timestep=TIMESTEP))
    start = time.perf_counter()
    o.images("front")
    first = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(FRAMES):
        world.step(CONTROL).images("front")
    rate = FRAMES / (time.perf_counter() - start)
    return {"camera_steps_per_s": rate, "camera_times_real_time": rate * TIMESTEP, "first_picture_s": first}
