"""Drives of the target and interviews about their moments: frames from running worlds, failures, kills."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from PIL import Image
from support.threats.threat_requests import ROUTES

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import GroundTruth, Observation
from closedloop_plugin.driver.agents.make import make_agent
from closedloop_plugin.driver.prompts.texts import PromptTexts
from closedloop_plugin.runner.assemble import DriverSetup
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.threats import interview as interviewing
from closedloop_plugin.threats.base import InterviewScene
from closedloop_plugin.threats.driven.recorder import moment_indices
from closedloop_plugin.threats.driven.target import TargetDrives
from closedloop_plugin.threats.factories import make_interviewee
from closedloop_plugin.threats.interview import DrivenRoute, interview
from closedloop_plugin.threats.transcript import STAGES, StageAnswer, ThreatTranscript
from closedloop_plugin.worlds.base import EpisodeSetup, InvalidScene, WorldError
from closedloop_plugin.worlds.testing.fake_world import FakeWorld
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.testing.fake_endpoint import serve

pytestmark = pytest.mark.integration

RULES = replace(profile("bench2advlm"), max_ticks=120)  # 12 s
TEXTS = PromptTexts.load(None, "threats")
HERE = "unit.closedloop_plugin.threats.test_interview"
FAKE = FactoryRecipe(f"{HERE}:Plain")
CAMERAS = (Camera("front", 64, 36, 70, 0.8, 0, 1.6), Camera("back", 32, 18, 110, -2, 0, 1.6, 180))


class Plain(FakeWorld):
    """A FakeWorld whose truth can be sent to another process, as that of the embedded world."""

    def truth(self) -> GroundTruth:
        return replace(super().truth(), signals={})


class Broken(Plain):
    """Rejects the scene of one route and dies on another."""

    def reset(self, setup: EpisodeSetup) -> Observation:
        if setup.route is not None and setup.route.id == "102":
            raise InvalidScene("no room for it")
        if setup.route is not None and setup.route.id == "103":
            raise WorldError("the server went away")
        return super().reset(setup)


class RecordingInterviewee:
    """An interviewee that answers at once and records its scenes."""

    source: Literal["said", "observed"] = "said"

    def __init__(self, error: str | None = None) -> None:
        self.scenes: list[InterviewScene] = []
        self.batches: list[int] = []
        self.error = error

    def answer(self, scenes: Sequence[InterviewScene]) -> list[list[StageAnswer]]:
        self.scenes += scenes
        self.batches.append(len(scenes))
        return [[StageAnswer(stage=s, question="q", text="a", error=self.error) for s in STAGES] for _ in scenes]  # type: ignore[arg-type]

    def describe(self) -> dict[str, Any]:
        return {"name": "listener"}


def drives_in(folder: Path, world: FactoryRecipe = FAKE, agent: str = "straight") -> TargetDrives:
    recipe = FactoryRecipe("closedloop_plugin.driver.agents.make:make_agent", {"spec": agent})
    driver = DriverSetup(make_agent(agent), agent_recipe=recipe, cameras=CAMERAS)
    return TargetDrives(
        folder=folder, suite=suite("demo"), driver=driver, world=world, profile=RULES, seed=1,
        limits=PoolLimits(2, retries=0), quiet=True,
    )  # fmt: skip


def ask_all(
    interviewee: Any, drives: TargetDrives, routes: int = 6, moments: int = 2, frames: int = 2, **more: Any
) -> tuple[list[ThreatTranscript], dict[str, str]]:
    got: list[ThreatTranscript] = []
    logs, failed = drives.standard(ROUTES[:routes], moments, frames, CAMERAS)
    silent = interview(
        routes=[DrivenRoute(r, log) for r, log in logs.items()], interviewee=interviewee, folder=drives.folder,
        keep=more.pop("keep", got.append), quiet=True,
    )  # fmt: skip
    return sorted(got, key=lambda t: t.route), {**failed, **silent}


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[DrivenRoute]]:
    """Three routes, driven once."""
    folder = tmp_path_factory.mktemp("driven")
    logs, failed = drives_in(folder).standard(ROUTES[:3], 2, 2, CAMERAS)
    assert failed == {}
    return folder, [DrivenRoute(route, log) for route, log in logs.items()]


def asked(
    interviewee: Any, driven: tuple[Path, list[DrivenRoute]], keep: Any = None
) -> tuple[list[ThreatTranscript], dict[str, str]]:
    got: list[ThreatTranscript] = []
    failed = interview(routes=driven[1], interviewee=interviewee, folder=driven[0], keep=keep or got.append, quiet=True)
    return got, failed


def test_every_route_yields_moments_in_motion_and_a_transcript(tmp_path) -> None:
    interviewee = RecordingInterviewee()
    got, failed = ask_all(interviewee, drives_in(tmp_path), routes=2)
    assert failed == {} and [t.route for t in got] == ["101", "102"]
    for result in got:
        assert result.site.suite == "demo" and result.site.route == result.route and result.site.length_m > 10
        first, second = result.interview.moments
        assert first.speed > 1.0 and first.s < second.s and first.time_s < second.time_s
        names = [f"frames/{result.route}_1_{k}{camera}.jpg" for k in (0, 1) for camera in ("", "_back")]
        assert second.frames == names and second.frame_s == [second.time_s - 1, second.time_s]
        assert [Image.open(tmp_path / n).size for n in names] == [(64, 36), (32, 18)] * 2
        assert [a.stage for a in result.interview.answers] == [*STAGES, *STAGES] and result.interview.complete
        assert result.interview.agent == {"name": "listener"} and result.version
        drive = result.interview.drive
        assert drive is not None and drive.moved and drive.run == "target/standard" and drive.driven_m > 10
        assert drive.speed_at(second.s) == pytest.approx(second.speed, abs=0.5)
    assert {(s.moved, len(s.images)) for s in interviewee.scenes} == {(True, 4)}
    assert (tmp_path / "target" / "standard" / "results.json").is_file()


def test_a_target_that_never_moves_is_asked_at_moments_by_time(tmp_path) -> None:
    interviewee = RecordingInterviewee()
    got, _ = ask_all(interviewee, drives_in(tmp_path, agent="still"), routes=1, moments=3)
    times = [m.time_s for m in got[0].interview.moments]
    assert len(times) == 3 and times == sorted(times) and {m.speed for m in got[0].interview.moments} == {0.0}
    assert not any(s.moved for s in interviewee.scenes) and interviewing.never_moved({"101": got[0]}) == ["101"]
    drive = got[0].interview.drive
    assert drive is not None and drive.failed and drive.stops[0].s == drive.profile[0][1]


def test_a_failed_world_is_reported_and_the_others_continue(tmp_path) -> None:
    got, failed = ask_all(RecordingInterviewee(), drives_in(tmp_path, FactoryRecipe(f"{HERE}:Broken")), routes=4)
    assert [t.route for t in got] == ["101", "104"]
    assert "no room for it" in failed["102"] and "the server went away" in failed["103"]


def test_failed_answers_are_kept_with_their_errors(driven) -> None:
    got, failed = asked(RecordingInterviewee(error="http_500"), driven)
    assert failed == {} and [t.interview.error for t in got] == ["perception: http_500"] * 3


def test_moments_are_asked_in_batches_of_whole_routes(driven, monkeypatch) -> None:
    monkeypatch.setattr(interviewing, "BATCH", 5)
    interviewee = RecordingInterviewee()
    asked(interviewee, driven)
    assert interviewee.batches == [4, 2]


def test_a_user_error_ends_the_interviews_and_transcripts_remain(driven, monkeypatch) -> None:
    monkeypatch.setattr(interviewing, "BATCH", 2)

    class Fails(RecordingInterviewee):
        def answer(self, scenes: Sequence[InterviewScene]) -> list[list[StageAnswer]]:
            if self.batches:
                raise Ad2Error("no such model")
            return super().answer(scenes)

    got: list[ThreatTranscript] = []
    with pytest.raises(Ad2Error, match="no such model"):
        asked(Fails(), driven, keep=got.append)
    assert len(got) == 1


def test_a_second_start_drives_nothing_and_a_missing_log_is_one_error(tmp_path) -> None:
    ask_all(RecordingInterviewee(), drives_in(tmp_path), routes=1)
    folder = tmp_path / "target" / "standard"
    before = (folder / "episodes.jsonl").read_bytes()
    second = RecordingInterviewee()
    ask_all(second, drives_in(tmp_path), routes=1)
    assert (folder / "episodes.jsonl").read_bytes() == before and second.batches == [2]
    (folder / "drives" / "101_rep0.json").unlink()
    with pytest.raises(DataError, match="everything in it is then driven again"):
        ask_all(RecordingInterviewee(), drives_in(tmp_path), routes=1)


@pytest.mark.parametrize(
    ("path", "moments", "expected"),
    [
        ([0, 1, 4, 9, 14, 19, 24, 29], 3, [2, 4, 6]),  # trigger at 12 m: in motion, there, half of the rest
        ([0, 1, 4, 9, 14, 19, 24, 29], 1, [4]),
        ([0, 1, 4, 9, 9, 9], 3, [2, 3]),  # never at the trigger: fewer places than moments
        ([0, 0, 0, 0, 0, 0, 0], 2, [2, 4]),  # never moves
        ([], 3, []),
    ],
)
def test_moments_are_spread_over_the_drive(path: list[float], moments: int, expected: list[int]) -> None:
    speeds = [0.0, *(b - a for a, b in itertools.pairwise(path))]
    samples = [(float(t), float(s), v) for t, (s, v) in enumerate(zip(path, speeds, strict=False))]
    assert moment_indices(samples, 12.0, moments) == expected


def test_an_endpoint_that_fails_a_third_of_the_time_loses_no_route(driven) -> None:
    with serve(reply="A car.", failures=["ok", "500", "ok"], cycle=True) as server:
        spec = f"endpoint:m@{server.url},max_retries=4,backoff=0.001"
        interviewee = make_interviewee(
            spec, driver=drives_in(driven[0]).driver, texts=TEXTS, cache=None, seed=0, profile=RULES, cameras=CAMERAS
        )
        before = interviewee.describe()
        got, failed = asked(interviewee, driven)
        assert interviewee.describe() == before  # compared at every start, so it contains nothing from replies
    assert failed == {} and [t.interview.error for t in got] == [None] * 3
