"""Interviews: frames from running worlds, failures, and kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from PIL import Image
from support.threats.threat_requests import ROUTES

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import GroundTruth, Observation
from closedloop_plugin.prompts.texts import PromptTexts
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.testing.fake_world import FakeWorld
from closedloop_plugin.threats import interview as interviewing
from closedloop_plugin.threats.base import InterviewFrame
from closedloop_plugin.threats.factories import make_interviewee
from closedloop_plugin.threats.interview import interview
from closedloop_plugin.threats.transcript import STAGES, StageAnswer, ThreatTranscript
from closedloop_plugin.worlds.base import EpisodeSetup, InvalidScene, WorldError
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.testing.fake_endpoint import serve

pytestmark = pytest.mark.integration

RULES = profile("bench2advlm")
TEXTS = PromptTexts.load(None, "threats")
HERE = "unit.closedloop_plugin.threats.test_interview"  # also where this file runs as a program
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
    """An interviewee that answers at once, or when `gate` is set, and records its scenes."""

    source: Literal["said", "observed"] = "said"

    def __init__(self, error: str | None = None, gate: threading.Event | None = None) -> None:
        self.scenes: list[Sequence[InterviewFrame]] = []
        self.batches: list[int] = []
        self.error, self.gate = error, gate

    def answer(self, scenes: Sequence[Sequence[InterviewFrame]]) -> list[list[StageAnswer]]:
        self.scenes += scenes
        self.batches.append(len(scenes))
        assert self.gate is None or self.gate.wait(60)
        return [[StageAnswer(stage=s, question="q", text="a", error=self.error) for s in STAGES] for _ in scenes]  # type: ignore[arg-type]

    def describe(self) -> dict[str, Any]:
        return {"name": "listener"}


def ask_all(
    interviewee: Any, folder: Path, world: FactoryRecipe = FAKE, routes: int = 6, **more: Any
) -> tuple[list[ThreatTranscript], Any]:
    got: list[ThreatTranscript] = []
    known: dict[str, Any] = {"seed": 1, "profile": RULES, "towns": {}, "quiet": True, "workers": 2, **more}
    keep = known.pop("keep", got.append)
    failed = interview(
        suite_name="demo",
        routes=ROUTES[:routes],
        setups=None,
        world=world,
        interviewee=interviewee,
        cameras=CAMERAS,
        folder=folder,
        keep=keep,
        **known,
    )
    return sorted(got, key=lambda t: t.route), failed


def test_every_route_yields_frames_and_a_transcript(tmp_path) -> None:
    interviewee = RecordingInterviewee()
    got, failed = ask_all(interviewee, tmp_path, frames=2)
    assert failed == {} and [t.route for t in got] == [r.id for r in ROUTES]
    for result in got:
        assert result.site.suite == "demo" and result.site.route == result.route and result.site.length_m > 10
        names = [f"frames/{result.route}_{k}{camera}.jpg" for k in (0, 1) for camera in ("", "_back")]
        assert result.interview.frames == names and result.interview.time_s == [1.0, 1.0, 2.0, 2.0]
        assert [Image.open(tmp_path / n).size for n in names] == [(64, 36), (32, 18)] * 2
        assert [a.stage for a in result.interview.answers] == list(STAGES) and result.interview.error is None
        assert result.interview.agent == {"name": "listener"} and result.version
    assert sorted(p.name for p in (tmp_path / "frames").iterdir()) == sorted(
        Path(n).name for t in got for n in t.interview.frames
    )
    for scene in interviewee.scenes:
        assert len(scene) == 2 and all(m.truth.ego.speed == 0 and len(m.images) == 2 for m in scene)
        assert not np.array_equal(scene[0].images[0], scene[1].images[0])


def test_a_failed_world_is_reported_and_the_others_continue(tmp_path) -> None:
    got, failed = ask_all(RecordingInterviewee(), tmp_path, FactoryRecipe(f"{HERE}:Broken"), routes=4)
    assert [t.route for t in got] == ["101", "104"]
    assert failed["102"] == "no room for it" and "the server went away" in failed["103"]


def test_failed_answers_are_kept_with_their_errors(tmp_path) -> None:
    got, failed = ask_all(RecordingInterviewee(error="http_500"), tmp_path, routes=2)
    assert failed == {} and [t.interview.error for t in got] == ["perception: http_500"] * 2


def test_worlds_run_during_answers_and_waiting_routes_are_batched(tmp_path, monkeypatch) -> None:
    all_arrived, arrived, original = threading.Event(), [], interviewing._InterviewThread.put

    def record(self: Any, moments: list[InterviewFrame]) -> None:
        original(self, moments)
        arrived.append(moments)
        if len(arrived) == 6:
            all_arrived.set()

    monkeypatch.setattr(interviewing._InterviewThread, "put", record)
    interviewee = RecordingInterviewee(gate=all_arrived)
    got, _ = ask_all(interviewee, tmp_path)
    assert len(got) == 6 and len(interviewee.batches) < 6 and max(interviewee.batches) > 1


def test_a_user_error_ends_the_interviews_and_transcripts_remain(tmp_path) -> None:
    class Fails(RecordingInterviewee):
        def answer(self, scenes: Sequence[Sequence[InterviewFrame]]) -> list[list[StageAnswer]]:
            if self.batches:
                raise Ad2Error("no such model")
            return super().answer(scenes)

    got: list[ThreatTranscript] = []
    with pytest.raises(Ad2Error, match="no such model"):
        ask_all(Fails(), tmp_path, keep=got.append, workers=1)
    assert got and not [t for t in threading.enumerate() if t.name == "ad2-interviews" and t.is_alive()]


def test_the_same_seed_gives_the_same_frame(tmp_path) -> None:
    first, second, other = RecordingInterviewee(), RecordingInterviewee(), RecordingInterviewee()
    for interviewee, seed in ((first, 1), (second, 1), (other, 2)):
        ask_all(interviewee, tmp_path, routes=1, seed=seed)
    bodies = [t.scenes[0][0].truth.actors[0] for t in (first, second, other)]
    places = [(round(a.x, 6), round(a.y, 6)) for a in bodies]
    assert places[0] == places[1] != places[2]


def test_a_kill_loses_at_most_the_routes_in_progress(tmp_path) -> None:
    program = subprocess.Popen(
        [sys.executable, __file__, str(tmp_path)], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    folder, until = tmp_path / "transcripts", time.monotonic() + 60
    while len(list(folder.glob("*.json"))) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    program.send_signal(signal.SIGKILL)
    program.wait()
    files = sorted(folder.glob("*.json"))
    assert 2 <= len(files) <= 3
    for file in files:
        stored = ThreatTranscript.read(file)
        assert all(Image.open(tmp_path / name).size[0] > 0 for name in stored.interview.frames)


def test_an_endpoint_that_fails_a_third_of_the_time_loses_no_route(tmp_path) -> None:
    with serve(reply="A car.", failures=["ok", "500", "ok"], cycle=True) as server:
        spec = f"endpoint:m@{server.url},max_retries=4,backoff=0.001"
        interviewee = make_interviewee(spec, texts=TEXTS, cache=None, seed=0, profile=RULES, cameras=CAMERAS)
        before = interviewee.describe()
        got, failed = ask_all(interviewee, tmp_path)
        assert interviewee.describe() == before  # compared at every start, so it contains nothing from replies
    assert failed == {} and [t.interview.error for t in got] == [None] * 6


if __name__ == "__main__":  # the process that the kill test kills
    out = Path(sys.argv[1])
    kept: list[str] = []

    def keep_three(interviewed: ThreatTranscript) -> None:
        interviewed.write(out / "transcripts" / f"{interviewed.route}.json")
        kept.append(interviewed.route)
        if len(kept) == 3:
            time.sleep(600)  # it is killed with three of six, at any speed of the machine

    ask_all(RecordingInterviewee(), out, keep=keep_three, workers=1)
