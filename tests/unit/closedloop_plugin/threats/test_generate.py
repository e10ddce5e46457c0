"""Threat generation from interview to checked program: attempts, resumption, kills, failing models. Demo routes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from support.tiers import seeds

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.driver.agents.make import cameras_of, make_agent
from closedloop_plugin.runner.assemble import DriverSetup
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.threats.base import InterviewScene, ThreatRequest
from closedloop_plugin.threats.folder import ThreatFolder
from closedloop_plugin.threats.generate import GeneratedThreats, ThreatGenerationConfig, generate
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.transcript import (
    STAGES,
    FuserExchange,
    InterviewMoment,
    InterviewRecord,
    ScenarioVerdict,
    StageAnswer,
    ThreatAttempt,
    ThreatTranscript,
)
from closedloop_plugin.threats.verdicts import read_verdicts, write_verdicts
from lmms_eval_ad2.core.errors import Ad2Error, DataError

pytestmark = pytest.mark.system

RULES = replace(profile("bench2advlm"), max_ticks=60)  # 6 s for the drives of the interview
DRIVES = replace(RULES, max_ticks=400)
BRAKE = {
    "adversary": "van", "behaviour": "brake_hard", "place": {"side": "ahead", "lane": "own", "ahead_m": [20, 26]},
    "trigger": {"value": [1.6, 2.4]}, "road": "open", "stays_s": [3, 4], "weakness": "planning",
    "description": "A van brakes. \"\"\"\nimport os",
}  # fmt: skip


@dataclass
class ScriptedInterviewee:
    """A target that answers from a list of replies; None is a failure."""

    source: str = "said"
    fails: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def answer(self, scenes: Sequence[InterviewScene]) -> list[list[StageAnswer]]:
        found = []
        for scene in scenes:
            route = scene.route_id
            self.asked.append(route)
            error = "timeout" if route in self.fails else None
            found.append(
                [StageAnswer(stage=s, question=f"{s}?", text="" if error else "a road", error=error) for s in STAGES]
            )
        return found

    def describe(self) -> dict[str, Any]:
        return {"name": "told"}


@dataclass
class ScriptedFuser:
    """A fuser with scripted attempts per route: a spec, a refusal (text) or a failure (None)."""

    script: dict[str, list[Any]]
    name: str = "scripted"
    made: list[tuple[str, int, int]] = field(default_factory=list)

    def make(self, requests: Sequence[ThreatRequest]) -> list[ThreatAttempt]:
        return [self._one(r) for r in requests]

    def _one(self, request: ThreatRequest) -> ThreatAttempt:
        route = request.transcript.route
        self.made.append((route, request.number, len(request.images)))
        todo = self.script.get(route, [BRAKE])
        item = todo.pop(0) if len(todo) > 1 else todo[0]
        base = ThreatAttempt(number=request.number, seed=request.seed, fuser=self.describe(), description="d")
        if item is None:
            failed = FuserExchange(purpose="fuse", error="HTTP 500")
            return base.model_copy(update={"exchanges": [failed], "refused": "fuse: HTTP 500"})
        if isinstance(item, str):
            return base.model_copy(update={"refused": item, "exchanges": [FuserExchange(purpose="repair", reply="no")]})
        return base.model_copy(update={"spec": ThreatSpec.model_validate(item)})

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}


def job_in(folder: Path) -> ThreatGenerationConfig:
    demo = suite("demo")
    seen = cameras_of("front@160x90", RULES)
    return ThreatGenerationConfig(
        folder=folder / "threats", suite=demo, routes=demo.routes[:2],
        world=FactoryRecipe("closedloop_plugin.worlds.embedded.world:EmbeddedWorld", {"folder": folder / "maps"}),
        profile=RULES, driver=driver_of(seen), cameras=seen, moments=1, frames=1, limits=PoolLimits(2), reflect=0,
        checked=False, quiet=True,
    )  # fmt: skip


def driver_of(cameras: Sequence[Camera], agent: str = "straight") -> DriverSetup:
    """The target that drives; what it "says" is the ScriptedInterviewee's."""
    recipe = FactoryRecipe("closedloop_plugin.driver.agents.make:make_agent", {"spec": agent})
    return DriverSetup(make_agent(agent), agent_recipe=recipe, cameras=tuple(cameras))


@pytest.fixture
def job(tmp_path: Path) -> ThreatGenerationConfig:
    return job_in(tmp_path)


@pytest.fixture(scope="module")
def generated_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, GeneratedThreats]:
    once = job_in(tmp_path_factory.mktemp("once"))
    return once.folder, generate(once, ScriptedInterviewee(), ScriptedFuser({}))


@pytest.fixture
def generated(job: ThreatGenerationConfig, generated_once: tuple[Path, GeneratedThreats]) -> GeneratedThreats:
    """In the job's folder, as after a first run: both routes, unchecked."""
    shutil.copytree(generated_once[0], job.folder)
    return generated_once[1]


def test_every_route_gets_a_program_with_its_transcript_and_frame(job: ThreatGenerationConfig) -> None:
    fuser = ScriptedFuser({})
    generated = generate(job, ScriptedInterviewee(), fuser)
    assert not generated.failed and not generated.unsound
    for route in job.routes:
        text = (job.folder / "scenarios" / f"{route.id}.scenic").read_text()
        assert f'param route = "demo:{route.id}"' in text
        assert "import os" not in text and "BrakeHard(" in text
        kept = ThreatTranscript.read(job.folder / "transcripts" / f"{route.id}.json")
        assert [a.stage for a in kept.interview.answers] == list(STAGES)
        assert kept.last is not None and kept.last.program_sha256
        assert (job.folder / kept.interview.frames[0]).stat().st_size > 500
    assert {images for _, _, images in fuser.made} == {1}
    index = json.loads((job.folder / "suite.json").read_text())
    assert index["finished"] and index["failed"] == {} and index["asked"]["agent"] == {"name": "told"}
    assert [r.id for r in suite(str(job.folder)).routes] == ["101", "102"]


def test_a_second_run_sends_no_requests(job: ThreatGenerationConfig, generated: GeneratedThreats) -> None:
    before = {f: f.read_bytes() for f in job.folder.rglob("*.scenic")}
    interviewee, fuser = ScriptedInterviewee(), ScriptedFuser({})
    generate(job, interviewee, fuser)
    assert interviewee.asked == [] and fuser.made == []
    assert before == {f: f.read_bytes() for f in job.folder.rglob("*.scenic")}


def test_failed_routes_are_counted_and_repeated(job: ThreatGenerationConfig) -> None:
    generated = generate(job, ScriptedInterviewee(fails={"102"}), ScriptedFuser({"101": [None]}))
    assert generated.failed == {"102": "interview: perception: timeout", "101": "fuser: fuse: HTTP 500"}
    assert suite_error(job) == "no scenario programs"
    interviewee, fuser = ScriptedInterviewee(), ScriptedFuser({})
    generated = generate(job, interviewee, fuser)
    assert interviewee.asked == ["102"] and {r for r, _, _ in fuser.made} == {"101", "102"}
    assert not generated.failed
    assert len(generated.transcripts["101"].attempts) == 1  # an endpoint's failure is no attempt


def suite_error(job: ThreatGenerationConfig) -> str:
    with pytest.raises(Ad2Error) as caught:
        suite(str(job.folder))
    return "no scenario programs" if "no scenario programs" in str(caught.value) else str(caught.value)


def test_a_refusal_counts_as_attempt_and_removes_the_program(job: ThreatGenerationConfig) -> None:
    checked = replace(job, profile=DRIVES, checked=True, tries=1, routes=job.routes[:1], attempts=2)
    generated = generate(
        checked, ScriptedInterviewee(), ScriptedFuser({"101": ["adversary: a dragon is not in the vocabulary"]})
    )
    assert generated.failed == {"101": "fuser: adversary: a dragon is not in the vocabulary"}
    assert [a.number for a in generated.transcripts["101"].attempts] == [0, 1]
    assert not list(job.folder.rglob("*.scenic"))


def test_an_unsound_scenario_is_generated_again(job: ThreatGenerationConfig) -> None:
    far = {**BRAKE, "trigger": {"kind": "distance", "value": 4}, "place": {**BRAKE["place"], "ahead_m": [61.5, 62]}}
    checked = replace(job, profile=DRIVES, checked=True, tries=1, routes=job.routes[:1])
    fuser = ScriptedFuser({"101": [far, BRAKE]})
    generated = generate(checked, ScriptedInterviewee(), fuser)
    first, *others = generated.transcripts["101"].attempts
    assert first.verdict is not None
    if first.verdict.passed:
        pytest.fail(f"the late braker was expected to act too late: {first.verdict}")
    assert others and others[-1].verdict is not None and others[-1].verdict.passed
    assert not generated.unsound
    assert json.loads((job.folder / "check.json").read_text())["101"]["passed"] is True


def test_a_refusal_is_repeated_without_a_check(job: ThreatGenerationConfig) -> None:
    result = generate(
        replace(job, routes=job.routes[:1]), ScriptedInterviewee(), ScriptedFuser({"101": ["no", "no", BRAKE]})
    )
    assert not result.failed and [bool(a.spec) for a in result.transcripts["101"].attempts] == [False, False, True]


PASSED = ScenarioVerdict(passed=True, compiles=True, runs=True, acts=True, survivable=True, tries=1, survived=1)


def store_verdict(job: ThreatGenerationConfig, generated: GeneratedThreats, verdict: ScenarioVerdict) -> None:
    """The state after a kill -9 between the transcript's verdict and check.json."""
    transcript = generated.transcripts["101"]
    last = transcript.attempts[-1].model_copy(update={"verdict": verdict})
    ThreatFolder(job.folder).keep(transcript.model_copy(update={"attempts": [*transcript.attempts[:-1], last]}))


def test_check_json_is_completed_after_a_kill(job: ThreatGenerationConfig, generated: GeneratedThreats) -> None:
    one = replace(job, routes=job.routes[:1])
    store_verdict(one, generated, PASSED)
    assert read_verdicts(job.folder) == {}
    generate(replace(one, checked=True), ScriptedInterviewee(), ScriptedFuser({}))
    assert read_verdicts(job.folder)["101"]["passed"] is True


def test_an_edited_program_does_not_get_the_old_verdict(
    job: ThreatGenerationConfig, generated: GeneratedThreats
) -> None:
    one = replace(job, routes=job.routes[:1])
    store_verdict(one, generated, PASSED)
    file = job.folder / "scenarios" / "101.scenic"
    file.write_text(file.read_text() + "# by hand\n")
    generate(replace(one, checked=True), ScriptedInterviewee(), ScriptedFuser({}))
    assert read_verdicts(job.folder) == {} and file.read_text().endswith("# by hand\n")


def test_verdicts_of_threats_check_are_taken_over(job: ThreatGenerationConfig, generated: GeneratedThreats) -> None:
    """Generated unchecked, then checked by the other command: unsound ones are left out or generated again."""
    one = replace(job, routes=job.routes[:1], attempts=1)
    write_verdicts(job.folder, {"101": ScenarioVerdict(passed=False, compiles=True, reason="nobody acted")})
    assert generate(one, ScriptedInterviewee(), ScriptedFuser({})).unsound == {"101": "nobody acted"}
    assert json.loads((job.folder / "suite.json").read_text())["left_out"] == {"101": "nobody acted"}
    second = generate(replace(one, attempts=2), ScriptedInterviewee(), ScriptedFuser({}))
    assert not second.unsound and [a.number for a in second.transcripts["101"].attempts] == [0, 1]


def test_a_missing_program_is_restored(job: ThreatGenerationConfig, generated: GeneratedThreats) -> None:
    file = job.folder / "scenarios" / "101.scenic"
    text = file.read_text()
    file.unlink()
    fuser = ScriptedFuser({})
    generate(job, ScriptedInterviewee(), fuser)
    assert file.read_text() == text and fuser.made == []


@pytest.mark.parametrize(
    ("suite_name", "route"),
    [("my routes", "101"), ('a"\nimport os', "101"), ("a:b", "1"), ("demo", "../../x"), ("demo", 'x"'), ("demo", ".")],
)
def test_invalid_names_are_refused_at_the_start(job: ThreatGenerationConfig, suite_name: str, route: str) -> None:
    routes = [replace(job.routes[0], id=route)]
    renamed = replace(job, suite=replace(job.suite, name=suite_name), routes=routes)
    with pytest.raises(Ad2Error, match="Rename the route file"):
        generate(renamed, ScriptedInterviewee(), ScriptedFuser({}))
    assert not job.folder.exists()


def test_a_long_model_name_gives_a_readable_suite(job: ThreatGenerationConfig) -> None:
    class LongName(ScriptedInterviewee):
        def describe(self) -> dict[str, Any]:
            return {"name": "organisation/a-very-long-name-of-a-model-" * 3}

    generate(job, LongName(), ScriptedFuser({}))
    assert len(suite(str(job.folder)).name) <= 80


def test_another_seed_in_the_same_folder_is_refused(job: ThreatGenerationConfig, generated: GeneratedThreats) -> None:
    with pytest.raises(Ad2Error, match="other arguments: seed is 0 there and 1 here"):
        generate(replace(job, seed=1), ScriptedInterviewee(), ScriptedFuser({}))


def test_more_routes_can_be_added_later(job: ThreatGenerationConfig) -> None:
    generate(replace(job, routes=job.routes[:1]), ScriptedInterviewee(), ScriptedFuser({}))
    interviewee = ScriptedInterviewee()
    generate(job, interviewee, ScriptedFuser({}))
    assert interviewee.asked == ["102"]


def test_a_users_own_scenarios_are_not_overwritten(job: ThreatGenerationConfig) -> None:
    (job.folder / "scenarios").mkdir(parents=True)
    (job.folder / "scenarios" / "mine.scenic").write_text("ego = new Car")
    with pytest.raises(Ad2Error, match="not generated here"):
        generate(job, ScriptedInterviewee(), ScriptedFuser({}))


def test_a_broken_transcript_is_reported_with_its_field(
    job: ThreatGenerationConfig, generated: GeneratedThreats
) -> None:
    file = job.folder / "transcripts" / "101.json"
    file.write_text(file.read_text().replace('"brake_hard"', '"explode"'))
    with pytest.raises(DataError, match=r"101\.json: field 'attempts\.0\.spec\.behaviour'"):
        generate(job, ScriptedInterviewee(), ScriptedFuser({}))


def test_a_frame_outside_of_the_folder_is_not_read(job: ThreatGenerationConfig, generated: GeneratedThreats) -> None:
    kept = generated.transcripts["101"]
    moment = InterviewMoment(frames=["../../etc/passwd"], frame_s=[1.0])
    outside = kept.model_copy(update={"interview": InterviewRecord(agent={}, source="said", moments=[moment])})
    assert ThreatFolder(job.folder).images(outside) == ()


KILLED = """
import sys, time
from pathlib import Path
sys.path[:0] = {paths!r}
from test_generate import ScriptedFuser, ScriptedInterviewee
from closedloop_plugin.threats.generate import generate
import closedloop_plugin.threats.generate as g, closedloop_plugin.threats.rounds as r, test_generate as t
from closedloop_plugin.driver.agents.make import cameras_of
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.scenarios.suites.lookup import suite

class Slow(ScriptedFuser):
    def make(self, requests):
        if len(self.made) == {stop}:
            time.sleep(600)  # whatever the machine's speed: it is killed with this number of six
        return super().make(requests)

r.BATCH = 1
demo = suite("demo")
world = FactoryRecipe("closedloop_plugin.worlds.embedded.world:EmbeddedWorld", {{"folder": Path({maps!r})}})
seen = cameras_of("front@160x90", t.RULES)
job = g.ThreatGenerationConfig(
    folder=Path({out!r}), suite=demo, routes=demo.routes, world=world, profile=t.RULES, driver=t.driver_of(seen),
    cameras=seen, moments=1, frames=1, reflect=0, checked=False, quiet=True,
)
generate(job, ScriptedInterviewee(), Slow({{}}))
"""


@pytest.mark.parametrize("seed", seeds(10))
def test_a_kill_loses_no_stored_result(
    job: ThreatGenerationConfig, tmp_path: Path, record_property: Callable[[str, object], None], seed: int
) -> None:
    dice = random.Random(seed)
    stop = dice.randint(2, 5)  # of six routes
    paths = [str(Path(__file__).parent), *sys.path]
    code = KILLED.format(paths=paths, maps=str(tmp_path / "maps"), out=str(job.folder), stop=stop)
    child = subprocess.Popen([sys.executable, "-c", code], env=dict(os.environ), start_new_session=True)
    deadline = time.monotonic() + 120
    while len(list(job.folder.glob("scenarios/*.scenic"))) < stop - 1 and time.monotonic() < deadline:
        assert child.poll() is None, "it ended before it could be killed"
        time.sleep(0.02)
    time.sleep(dice.uniform(0, 0.1))
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    programs = {f.name: f.read_bytes() for f in job.folder.glob("scenarios/*.scenic")}
    assert stop - 1 <= len(programs) <= stop
    with pytest.raises(Ad2Error, match="not finished"):
        suite(str(job.folder))
    interviewee, fuser = ScriptedInterviewee(), ScriptedFuser({})
    all_routes = replace(job, routes=suite("demo").routes)
    generated = generate(all_routes, interviewee, fuser)
    assert interviewee.asked == []  # all six interviews were kept
    assert len(generated.transcripts) == 6 and not generated.failed
    assert {name: (job.folder / "scenarios" / name).read_bytes() for name in programs} == programs
    assert len(fuser.made) <= 6 - len(programs) + 1  # at most the one in progress is repeated
    record_property("programs kept", len(programs))
