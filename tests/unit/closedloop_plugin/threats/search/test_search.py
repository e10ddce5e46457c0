"""The search: objective, order of feedback, kill and resume, expert, report; one search in the embedded world."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.record import INFRACTIONS, EpisodeRecord
from closedloop_plugin.core.state import Control, Decision, Observation
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents.make import make_agent
from closedloop_plugin.runner.assemble import DriverSetup, RouteSelection, RunConfig, assemble
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.store import read_records
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.threats.robustness import robustness
from closedloop_plugin.threats.search.report import findings, svg, text
from closedloop_plugin.threats.search.search import SearchTrial, ThreatSearchConfig, search, with_expert
from closedloop_plugin.worlds.base import EpisodeSetup, InvalidScene, ParameterDomain
from closedloop_plugin.worlds.testing.fake_world import FakeWorld
from lmms_eval_ad2.core.errors import Ad2Error

pytestmark = pytest.mark.integration

HERE = Path(__file__).parent
SPACE = {"beside": ParameterDomain(1.0, 6.0), "kind": ParameterDomain(options=("car", "van"))}


class Edge(FakeWorld):
    """The parked car is in the way if beside < 1.9. If `most` is not 0, the world hangs after that many runs."""

    def __init__(self, most: int = 0, invalid_below: float = 0.0) -> None:
        super().__init__()
        self.most, self.invalid_below, self.runs = most, invalid_below, 0

    def reset(self, setup: EpisodeSetup) -> Observation:
        self.runs += 1
        self.values = dict(setup.values)
        if float(setup.values.get("beside", 3.0)) < self.invalid_below:
            raise InvalidScene("two cars in one place")
        return super().reset(setup)

    def step(self, control: Control) -> Observation:
        if self.most and self.runs > self.most:
            time.sleep(600)
        return super().step(control)

    @property
    def drawn(self) -> Mapping[str, Any]:
        return self.values


class Hurry:
    """Steers to the next route point at up to 15 m/s, local; `mute`: returns only errors."""

    name, privileged, local, cameras = "hurry", False, True, ()

    def __init__(self, mute: bool = False) -> None:
        self.mute = mute

    def start(self, episode: str, seed: int) -> None: ...

    def end(self, episode: str) -> None: ...

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        return [self._one(a.observation) for a in requests]

    def _one(self, observation: Observation) -> Decision:
        if self.mute:
            return Decision(error="connection refused")
        forward, left = observation.target
        steer = -2.0 * left / max(forward, 1.0)
        return Decision(control=Control(steer, 1.0 if observation.speed < 15 else 0.0).checked())


def search_config(
    folder: Path, workers: int = 1, mute: bool = False, world: Mapping[str, Any] | None = None, **more: Any
) -> ThreatSearchConfig:
    route = suite("demo").routes[0]
    driver = DriverSetup(
        Hurry(mute), None, FactoryRecipe("unit.closedloop_plugin.threats.search.test_search:Hurry", {"mute": mute})
    )
    world_recipe = FactoryRecipe("unit.closedloop_plugin.threats.search.test_search:Edge", dict(world or {}))
    config = RunConfig(folder, world_recipe, profile("bench2drive"), seed=3, limits=PoolLimits(workers), quiet=True)
    run = assemble(config, RouteSelection("program x", "0" * 64, ["x"], (replace(route, id="x"),)), driver)
    return ThreatSearchConfig(run, SPACE, **{"sampler": "gp", "seed": 3, "budget": 14, **more})


def essence(trials: Sequence[SearchTrial]) -> list[Any]:
    return [(t.number, t.values, t.rho, t.verdict) for t in trials]


@pytest.fixture(scope="module")
def complete_search(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[SearchTrial]]:
    """A search with two workers, without interruption."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    return folder, search(search_config(folder, workers=2))


def record(**more: Any) -> EpisodeRecord:
    """A perfect episode of 200 m in 20 s, never near another road user."""
    base = EpisodeRecord(
        "s", "1", 0, 0, "program", "1", "T", "completed", "Perfect", {name: [] for name in INFRACTIONS}, 100.0, 1.0,
        100.0, 200.0, 20.0, 1.0, 400, {}, None, "bench2drive", {}, {},
        margins={"min_gap_m": None, "min_ttc_s": None, "hardest_brake": 0.0},
    )  # fmt: skip
    return replace(base, **more)


def hit(**more: Any) -> EpisodeRecord:
    broken = {**record().infractions, "collisions_vehicle": ["Agent collided"]}
    return record(**{"infractions": broken, "status": "Completed", "score_composed": 60.0, **more})


def test_robustness_in_cases_worked_out_by_hand() -> None:
    near = record(margins={"min_gap_m": 1.0, "min_ttc_s": 3.0})
    assert robustness(record()) == 1.0
    assert robustness(near, "ttc") == 0.75 and robustness(near, "gap") == pytest.approx(0.2)
    assert robustness(record(game_s=80.0), "progress") == pytest.approx(0.5)  # 2.5 m/s of 5
    assert robustness(near) == pytest.approx((0.75 + 0.2 + 1.0) / 3)
    assert robustness(record(margins={"min_gap_m": 0.0, "min_ttc_s": 0.0}), "gap") == 0.01  # not failed: above 0


def test_the_robustness_of_a_failure_is_negative_by_its_severity() -> None:
    assert robustness(hit()) == -0.5  # a collision, whatever the score
    assert robustness(hit(score_composed=25.0)) == -0.75
    red = {**record().infractions, "red_light": ["ran"]}
    assert robustness(record(infractions=red, status="Completed", score_composed=70.0)) == pytest.approx(-0.3)
    blocked = record(end="blocked", status="Failed - Agent got blocked", score_route=10.0, score_composed=10.0)
    assert robustness(blocked) == -0.9
    slow = {**record().infractions, "min_speed_infractions": ["slow"]}
    assert robustness(record(infractions=slow, status="Completed", score_composed=80.0)) == 1.0


def test_a_failure_without_the_program_weighs_a_tenth_on_top_of_a_standard_scenario() -> None:
    """The driver may fail so whatever the program does: the sampler prefers what the program causes."""
    kept = {"program": "ab", "standard": "kept"}
    for actor, expected in (("s1", -0.5), ("r1", -0.05), ("b2", -0.05)):
        place = {"kind": "collisions_vehicle", "time_s": 4.0, "x": 0.0, "y": 0.0, "text": "", "actor": actor}
        assert robustness(hit(world=kept, places=[place])) == pytest.approx(expected)
        assert robustness(hit(world={**kept, "standard": "replaced"}, places=[place])) == -0.5


def test_a_program_that_ended_itself_fails_only_by_infractions() -> None:
    ended = record(status="Ended by its program", score_route=40.0, score_composed=40.0)
    assert robustness(ended, "gap") == 1.0
    assert robustness(hit(status="Ended by its program")) == -0.5


@pytest.mark.parametrize("end", ["invalid episode", "world failed", "agent failed"])
def test_an_invalid_or_failed_episode_is_not_scored(end: str) -> None:
    assert robustness(record(end=end, status="Failed - Simulation crashed", score_composed=0.0)) is None
    trial = SearchTrial(0, {}, record(end=end), None)
    assert trial.verdict == "not scored" and not trial.failed


def test_exactly_the_failing_values_are_failures(complete_search: tuple[Path, list[SearchTrial]]) -> None:
    trials = complete_search[1]
    assert [t.number for t in trials] == list(range(14))
    assert any(t.failed for t in trials) and not all(t.failed for t in trials)
    for trial in trials:
        assert trial.failed == (trial.values["beside"] < 1.9) and trial.record.drawn == trial.values
    assert len({t.record.seed for t in trials}) == 1  # only the values differ


def test_only_the_files_of_failures_are_kept(complete_search: tuple[Path, list[SearchTrial]]) -> None:
    folder, trials = complete_search
    kept = {p.stem for p in (folder / "metric_info").iterdir()}
    assert kept == {f"x_rep{t.number}" for t in trials if t.failed}


def test_a_finished_search_drives_nothing_and_a_larger_budget_continues_it(
    complete_search: tuple[Path, list[SearchTrial]], tmp_path: Path
) -> None:
    first = search(search_config(tmp_path, workers=2, budget=5))
    before = (tmp_path / "episodes.jsonl").read_bytes()
    assert essence(search(search_config(tmp_path, workers=2, budget=5))) == essence(first)
    assert (tmp_path / "episodes.jsonl").read_bytes() == before
    assert essence(search(search_config(tmp_path, workers=2))) == essence(complete_search[1])
    assert len(search(search_config(tmp_path, workers=2, budget=2))) == 2


def test_another_search_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    search(search_config(tmp_path, budget=1))
    with pytest.raises(Ad2Error, match=r"search\.sampler is \"gp\" there and \"halton\" here"):
        search(search_config(tmp_path, budget=1, sampler="halton"))
    lines = tmp_path / "episodes.jsonl"
    row = json.loads(lines.read_text())
    row["drawn"]["beside"] += 7
    lines.write_text(json.dumps(row) + "\n")
    with pytest.raises(Ad2Error, match="run 0 was driven with beside"):
        search(search_config(tmp_path, budget=1))


def test_rejected_scenes_are_counted_and_the_search_continues(tmp_path: Path) -> None:
    trials = search(search_config(tmp_path, sampler="halton", budget=10, world={"invalid_below": 3.0}))
    unscored = [t for t in trials if t.values["beside"] < 3.0]
    assert 0 < len(unscored) < 10 and all(t.rho is None for t in unscored) and not any(t.failed for t in trials)
    found = findings(search_config(tmp_path, sampler="halton", budget=10), trials)
    assert found["scored"] == 10 - len(unscored)
    assert found["not_scored"] == {"invalid episode: two cars in one place": len(unscored)}
    assert f"not scored: {len(unscored)} runs" in text(found, tmp_path)


def test_an_agent_without_answers_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match=r"the agent answers nothing: .*connection refused.*0 episodes are safe"):
        search(search_config(tmp_path, mute=True, workers=2))
    assert read_records(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="kills a process group")
def test_a_killed_search_resumes_with_the_same_result(
    complete_search: tuple[Path, list[SearchTrial]], tmp_path: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    process = subprocess.Popen([sys.executable, __file__, str(tmp_path)], env=environment)
    lines = tmp_path / "episodes.jsonl"
    end = time.monotonic() + 60
    while time.monotonic() < end and not (lines.exists() and lines.read_bytes().count(b"\n") >= 4):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    stored = len(read_records(tmp_path))
    assert 4 <= stored < 14
    with lines.open("ab") as torn:
        torn.write(b'{"suite": "prog')
    assert essence(search(search_config(tmp_path, workers=2))) == essence(complete_search[1])


def test_unfair_failures_are_distinguished(complete_search: tuple[Path, list[SearchTrial]], tmp_path: Path) -> None:
    """The same driver as its own expert: every failure is unfair. One that was not driven again is unknown."""
    folder, trials = complete_search
    one = search_config(folder, workers=2)
    expert = replace(one.run, folder=tmp_path / "expert")
    judged = with_expert(expert, one, trials)
    assert all((t.fair is False) == t.failed for t in judged) and all(t.fair is None for t in trials)
    found = findings(one, judged)
    assert found["fair"] == 0 and len(found["unfair"]) == found["failures"]
    assert "unfair, the expert fails too" in text(found, folder)
    some = next(t for t in judged if t.failed)
    assert replace(some, expert=record()).fair is True and replace(some, expert=record(end="world failed")).fair is None


def test_the_picture_is_a_complete_svg_and_escapes_names(complete_search: tuple[Path, list[SearchTrial]]) -> None:
    from xml.etree import ElementTree

    trials = complete_search[1]
    picture = svg("<script>alert(1)</script> & $more$", SPACE, trials)
    root = ElementTree.fromstring(picture)
    assert len(root.findall(".//{http://www.w3.org/2000/svg}use")) >= len(trials) * len(SPACE)
    assert "<script" not in picture and "$more$" in picture


STEP_OUT = '''"""Somebody walks out in front of the car."""
param route = "demo:101"
param early = Range(-3.0, 3.0)  # s before the car would be there
model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *
start = stage.trigger_s + 15
behavior StepOut(early):
    while seconds_to(start) > 2.5 + early:
        wait
    stage.event("act")
    self.rail.accel = 6
    self.rail.speed = 1.7
    do Ride()
ego = new Car at place(0), facing stage.heading(0)
rail = Rail(geometry.across(road, start, -4.2, 0), 0)
new Walker at place_on(rail), facing heading_on(rail), with rail rail, with behavior StepOut(globalParameters.early)
terminate when stage.ego_s > start + 6
'''


def test_a_search_in_the_embedded_world(tmp_path: Path) -> None:
    """A blind driver hits the pedestrian for some moments of stepping out and not for others."""
    program = tmp_path / "step.scenic"
    program.write_text(STEP_OUT)
    route = replace(suite("demo").routes[0], id="step")
    recipe = FactoryRecipe("closedloop_plugin.driver.agents.make:make_agent", {"spec": "steer-only"})
    driver = DriverSetup(make_agent("steer-only"), None, recipe)
    world = FactoryRecipe("closedloop_plugin.worlds.embedded.world:EmbeddedWorld", {"folder": tmp_path / "maps"})
    config = RunConfig(tmp_path / "out", world, profile("bench2drive"), seed=1, traffic=False, quiet=True)
    run = assemble(
        config, RouteSelection("program step", "0" * 64, ["step"], (route,), programs={"step": program}), driver
    )
    embedded_world = world.make()
    space = embedded_world.space(run.tasks[0].setup)
    embedded_world.close()
    assert space == {"early": ParameterDomain(-3.0, 3.0)}
    trials = search(ThreatSearchConfig(run, space, "halton", budget=6))
    assert [t.record.end for t in trials] == ["completed"] * 6
    assert 0 < sum(t.failed for t in trials) < 6
    passed = [t.rho for t in trials if not t.failed]
    assert len({round(r, 3) for r in passed}) == len(passed)  # the distance differs from run to run


if __name__ == "__main__":  # FOLDER: the search that is killed; it hangs after 10 of 14 runs
    search(search_config(Path(sys.argv[1]), workers=2, world={"most": 5}))
